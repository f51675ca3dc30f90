/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_STEP_H
#define EXPANSION_DECIDE_STEP_H
/* The steps of an expansion job and how one leads to the next: a table and pure functions. The driver
 * performs a step, hands in how it ended, and gets the next one. Each step is written to the job's record
 * before it is begun. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/view.h"

enum job_step {
    STEP_RECLAIM,  /* delete what left the view; take over the build that it has */
    STEP_PLAN,     /* capacity, geometry, memory */
    STEP_OPEN,     /* the view gets the generation, and this driver as its writer */
    STEP_SETTLE,   /* keep the lanes, make the shards; wait for the transactions that were open */
    STEP_SCAN,     /* keyset pages into bitmaps into shards */
    STEP_CATCH_UP, /* rows that came by other ways */
    STEP_VERIFY,   /* source's keys present, false positives within bounds */
    STEP_HOLD,     /* wait for an operator's word, where one wanted to give it */
    STEP_CUTOVER,  /* one pointer in the view */
    STEP_FOLLOW,   /* catch-up once more, as callers add keys */
    STEP_CONFIRM,  /* verify once more, what is in use now */
    STEP_GRACE,    /* time in which a rollback loses nothing */
    STEP_FINISH,   /* the old generation leaves the view; its shards are deleted */
    STEP_ROLLBACK, /* the pointer back; then the job holds */
    STEP_ABORT,    /* the new generation leaves the view; its shards are deleted */
    STEP_CHECK,    /* a job of its own: verify the generation in use */
    STEP_DONE,
    STEP_FAILED,  /* ended by an error or by an operator; the filter serves on */
    STEP_STOPPED, /* this driver must stop; another one goes on from the record */
    STEP_COUNT
};

/* What may end a step early: what an operator asks of a running job. */
enum job_request { REQUEST_ABORT, REQUEST_CUTOVER, REQUEST_ROLLBACK, REQUEST_FINISH, REQUEST_COUNT };

/* What a job is for. */
enum job_kind {
    JOB_FINISH, /* only what another driver left unfinished */
    JOB_EXPAND, /* a new generation */
    JOB_CHECK   /* verify the generation in use */
};

const char *step_name(enum job_step step);
bool step_parse(const char *name, size_t length, enum job_step *out);
bool step_is_end(enum job_step step);

/* True where the job is past its cutover, or was. */
bool step_is_switched(enum job_step step);

/* What the driver does after @step ended with @code. Same step again: the driver waits and tries again. */
enum job_step step_next(enum job_step step, enum err code);

/* Where @request leads while the driver is in @step; STEP_COUNT: nowhere, the request is not for this step.
 */
enum job_step step_asked(enum job_step step, enum job_request request);

/* Where a driver that finds @view and the record of generation @record_generation at @record_step begins
 * after RECLAIM. What is unfinished comes before what is wanted. */
enum job_step step_resume(const struct view *view, uint64_t record_generation, enum job_step record_step,
                          enum job_kind wanted);
#endif
