/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_STEP_H
#define EXPANSION_STEP_H
/* The steps of an expansion job and how one leads to the next: a table and pure functions. The driver
 * performs a step, hands in how it ended, and gets the next one. Each step is written to the job's record
 * before it is begun. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/view.h"

enum job_step {
    STEP_FENCE,    /* complete the fence of the view as it was found */
    STEP_WIDEN,    /* complete a layer that was being opened */
    STEP_RECLAIM,  /* retire what an earlier job left behind */
    STEP_PLAN,     /* capacity, geometry, memory */
    STEP_CREATE,   /* the alternate generation's shards, under names of this attempt */
    STEP_OPEN,     /* view to BUILDING, fence: adds go to both generations */
    STEP_SETTLE,   /* wait for the transactions that were open */
    STEP_SCAN,     /* keyset pages into bitmaps into shards */
    STEP_CATCH_UP, /* rows that came by other ways */
    STEP_VERIFY,   /* source's keys present, false positives within bounds */
    STEP_HOLD,     /* wait for an operator's word, where one wanted to give it */
    STEP_CUTOVER,  /* view to SWITCHED, fence */
    STEP_FOLLOW,   /* catch-up once more, into both */
    STEP_CONFIRM,  /* verify once more, what is in use now */
    STEP_GRACE,    /* time in which a rollback loses nothing */
    STEP_FINISH,   /* view to STEADY or OVERFLOW, fence */
    STEP_RETIRE,   /* the old generation's shards become tombstones */
    STEP_ROLLBACK, /* view back to BUILDING, fence; then the job holds */
    STEP_ABORT,    /* view back to STEADY or OVERFLOW, fence; the alternate generation leaves */
    STEP_CLEAR,    /* its shards become tombstones */
    STEP_CHECK,    /* a job of its own: verify the generation in use */
    STEP_HEAL,     /* a master has failed over or was restarted: add what it may have lost */
    STEP_REFILL,   /* shards are lost: make them anew, beside the others */
    STEP_DONE,
    STEP_FAILED,  /* ended by an error or by an operator; the filter serves on */
    STEP_STOPPED, /* this driver must stop; another one goes on from the record */
    STEP_COUNT
};

/* What may end a step early: what an operator asks of a running job; REQUEST_HEAL: the driver has met a
 * master that the filter does not trust. */
enum job_request {
    REQUEST_ABORT,
    REQUEST_CUTOVER,
    REQUEST_ROLLBACK,
    REQUEST_FINISH,
    REQUEST_HEAL,
    REQUEST_COUNT
};

/* What a job is for. */
enum job_kind {
    JOB_FINISH, /* only what another driver left unfinished */
    JOB_EXPAND, /* a new generation */
    JOB_CHECK,  /* verify the generation in use */
    JOB_HEAL /* only make whole what a failover or restart of Redis may have lost, which every job does first,
              * and make shards anew that are lost */
};

/* One word for a job that was begun because shards are lost, and others are not. */
#define REFILL_TRIGGER "repair"

const char *step_name(enum job_step step);
bool step_parse(const char *name, size_t length, enum job_step *out);
bool step_is_end(enum job_step step);

/* False: nothing is to be done there for a filter that is a log. */
bool step_is_of_logs(enum job_step step);

/* True where the job is past its cutover, or was. */
bool step_is_switched(enum job_step step);

/* True where the job brings back what Redis lost: until it ends, answers are not exact. */
bool step_heals(enum job_step step);

/* What the driver does after @step ended with @code. Same step again: the driver waits and tries again. */
enum job_step step_next(enum job_step step, enum err code);

/* Where @request leads while the driver is in @step; STEP_COUNT: nowhere, the request is not for this step.
 */
enum job_step step_asked(enum job_step step, enum job_request request);

/* Model: stage, RECORDED. Where a driver that finds @view and the record of generation @record_generation at
 * @record_step begins after FENCE, WIDEN and RECLAIM. What is unfinished comes before what is wanted. */
enum job_step step_resume(const struct view *view, uint64_t record_generation, enum job_step record_step,
                          enum job_kind wanted);

/* True where @lost shards of the generation in use can be made anew beside the others: it is alone, has one
 * layer, and at least half of it is there. Else it is rebuilt. */
bool step_can_refill(const struct view *view, uint64_t lost);

/* Where it goes on after REFILL ended with @code. */
enum job_step step_refilled(const struct view *view, enum err code, enum job_kind wanted);

/* Where it goes on after HEAL ended with @code. A build does not trust what it uploaded before: it settles
 * and scans anew. What could not be made whole stays suspect, and the keeper has it tried again. */
enum job_step step_healed(const struct view *view, enum err code, enum job_kind wanted);
#endif
