/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_STEP_H
#define EXPANSION_DECIDE_STEP_H
/* The steps of an expansion job and their order: a table and pure functions. The driver performs a step,
 * reports how it ended, and gets the next one. It writes each step to the job's record before it begins the
 * step. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/view.h"

enum job_step {
    STEP_RECLAIM,  /* delete what left the view; take over an unfinished build */
    STEP_PLAN,     /* capacity, geometry, memory */
    STEP_OPEN,     /* enter the generation, with this driver as its writer, in the view */
    STEP_SETTLE,   /* hold the lanes, make the shards; wait for open transactions */
    STEP_SCAN,     /* read the source page by page into bitmaps and shards */
    STEP_CATCH_UP, /* add rows that came without BF.ADD */
    STEP_VERIFY,   /* the source's keys are present, false positives are within bounds */
    STEP_HOLD,     /* wait for an operator's cutover, if one was requested */
    STEP_CUTOVER,  /* switch the pointer in the view */
    STEP_FOLLOW,   /* catch up once more, adding keys as callers do */
    STEP_CONFIRM,  /* verify once more, the generation that is now in use */
    STEP_GRACE,    /* during this time a rollback loses no added key */
    STEP_FINISH,   /* remove the old generation from the view; delete its shards */
    STEP_ROLLBACK, /* switch the pointer back; then hold */
    STEP_ABORT,    /* remove the new generation from the view; delete its shards */
    STEP_CHECK,    /* verify the generation in use, as a job of its own */
    STEP_DONE,
    STEP_FAILED,  /* an error or an operator ended the job; the filter stays in service */
    STEP_STOPPED, /* this driver must stop; another one continues from the record */
    STEP_COUNT
};

/* What an operator may request of a running job; it ends a step early. */
enum job_request { REQUEST_ABORT, REQUEST_CUTOVER, REQUEST_ROLLBACK, REQUEST_FINISH, REQUEST_COUNT };

/* The purpose of a job. */
enum job_kind {
    JOB_FINISH, /* only complete what another driver left unfinished */
    JOB_EXPAND, /* a new generation */
    JOB_CHECK   /* verify the generation in use */
};

const char *step_name(enum job_step step);
bool step_parse(const char *name, size_t length, enum job_step *out);
bool step_is_end(enum job_step step);

/* True if the job is past its cutover. */
bool step_is_switched(enum job_step step);

/* True if a server is away: the step waits for it, and may be repeated. */
bool step_waits(enum err code);

/* The next step after @step ended with @code. The same step: the driver waits and retries. */
enum job_step step_next(enum job_step step, enum err code);

/* The step that @request leads to from @step; STEP_COUNT: @step does not accept the request. */
enum job_step step_asked(enum job_step step, enum job_request request);

/* The step that a driver begins with after RECLAIM, given @view and the record of generation
 * @record_generation at @record_step. Unfinished work comes before wanted work. */
enum job_step step_resume(const struct view *view, uint64_t record_generation, enum job_step record_step,
                          enum job_kind wanted);
#endif
