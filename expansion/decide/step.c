/* SPDX-License-Identifier: MIT */
#include "expansion/decide/step.h"

#include <assert.h>
#include <string.h>

/* In the columns of requests: the step does not accept the request. */
#define NOWHERE STEP_COUNT

struct step_row {
    const char *name;
    enum job_step next;    /* after ERR_OK */
    enum job_step failure; /* after an error that a retry cannot fix */
    enum job_step changed; /* after ERR_CHANGED: what was read of the source is invalid */
    enum job_step asked[REQUEST_COUNT];
};

/* clang-format off */
static const struct step_row rows[STEP_COUNT] = {
    /*                 name        next           failure       changed       abort        cutover        rollback       finish */
    [STEP_RECLAIM] =  {"reclaim",  STEP_PLAN,     STEP_STOPPED, STEP_STOPPED, {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_PLAN] =     {"plan",     STEP_OPEN,     STEP_FAILED,  STEP_FAILED,  {STEP_FAILED, NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_OPEN] =     {"open",     STEP_SETTLE,   STEP_STOPPED, STEP_STOPPED, {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_SETTLE] =   {"settle",   STEP_SCAN,     STEP_ABORT,   STEP_SETTLE,  {STEP_ABORT,  NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_SCAN] =     {"scan",     STEP_CATCH_UP, STEP_ABORT,   STEP_SETTLE,  {STEP_ABORT,  NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_CATCH_UP] = {"catch_up", STEP_VERIFY,   STEP_ABORT,   STEP_SETTLE,  {STEP_ABORT,  NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_VERIFY] =   {"verify",   STEP_HOLD,     STEP_ABORT,   STEP_SETTLE,  {STEP_ABORT,  NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_HOLD] =     {"hold",     STEP_CUTOVER,  STEP_STOPPED, STEP_STOPPED, {STEP_ABORT,  STEP_CATCH_UP, NOWHERE,       NOWHERE}},
    [STEP_CUTOVER] =  {"cutover",  STEP_FOLLOW,   STEP_STOPPED, STEP_SETTLE,  {STEP_ABORT,  NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_FOLLOW] =   {"follow",   STEP_CONFIRM,  STEP_CONFIRM, STEP_CONFIRM, {NOWHERE,     NOWHERE,       STEP_ROLLBACK, NOWHERE}},
    [STEP_CONFIRM] =  {"confirm",  STEP_GRACE,    STEP_GRACE,   STEP_CONFIRM, {NOWHERE,     NOWHERE,       STEP_ROLLBACK, NOWHERE}},
    [STEP_GRACE] =    {"grace",    STEP_FINISH,   STEP_STOPPED, STEP_STOPPED, {NOWHERE,     NOWHERE,       STEP_ROLLBACK, STEP_FINISH}},
    [STEP_FINISH] =   {"finish",   STEP_DONE,     STEP_STOPPED, STEP_STOPPED, {NOWHERE,     NOWHERE,       STEP_ROLLBACK, NOWHERE}},
    [STEP_ROLLBACK] = {"rollback", STEP_HOLD,     STEP_GRACE,   STEP_GRACE,   {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_ABORT] =    {"abort",    STEP_FAILED,   STEP_STOPPED, STEP_STOPPED, {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_CHECK] =    {"check",    STEP_DONE,     STEP_FAILED,  STEP_FAILED,  {STEP_FAILED, NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_DONE] =     {"done",     STEP_DONE,     STEP_DONE,    STEP_DONE,    {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_FAILED] =   {"failed",   STEP_FAILED,   STEP_FAILED,  STEP_FAILED,  {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
    [STEP_STOPPED] =  {"stopped",  STEP_STOPPED,  STEP_STOPPED, STEP_STOPPED, {NOWHERE,     NOWHERE,       NOWHERE,       NOWHERE}},
};
/* clang-format on */

const char *step_name(enum job_step step)
{
    assert(step < STEP_COUNT);
    return rows[step].name;
}

bool step_parse(const char *name, size_t length, enum job_step *out)
{
    for (int i = 0; i < STEP_COUNT; i++)
        if (strlen(rows[i].name) == length && memcmp(rows[i].name, name, length) == 0) {
            *out = (enum job_step)i;
            return true;
        }
    return false;
}

bool step_is_end(enum job_step step)
{
    return step == STEP_DONE || step == STEP_FAILED || step == STEP_STOPPED;
}

bool step_is_switched(enum job_step step)
{
    return (step >= STEP_FOLLOW && step <= STEP_FINISH) || step == STEP_DONE;
}

bool step_waits(enum err code)
{
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO;
}

enum job_step step_next(enum job_step step, enum err code)
{
    if (code == ERR_OK)
        return rows[step].next;
    if (step_waits(code))
        return step;
    /* another driver has the job, or will have it */
    if (code == ERR_MUTEX_LOST || code == ERR_FENCED || code == ERR_BUSY || code == ERR_FORMAT)
        return STEP_STOPPED;
    return code == ERR_CHANGED ? rows[step].changed : rows[step].failure;
}

enum job_step step_asked(enum job_step step, enum job_request request)
{
    return request < REQUEST_COUNT ? rows[step].asked[request] : NOWHERE;
}

/* A record of another generation is useless for this one: settle and scan from the beginning. */
static enum job_step resume_build(const struct view *view, uint64_t record_generation,
                                  enum job_step record_step)
{
    const struct generation *alternate = view_alternate(view);
    if (alternate == NULL || alternate->number != record_generation)
        return STEP_SETTLE;
    switch ((int)record_step) {
    case STEP_ABORT:
    case STEP_SCAN:
    case STEP_CATCH_UP:
    case STEP_VERIFY:
    case STEP_ROLLBACK: /* the view was switched back, and the record does not say so yet */
        return record_step;
    case STEP_HOLD: /* the hold may have been long: catch up again */
    case STEP_CUTOVER:
        return STEP_CATCH_UP;
    default: /* the cutover is done again where home went back behind it */
        return alternate->built && step_is_switched(record_step) ? STEP_CATCH_UP : STEP_SETTLE;
    }
}

enum job_step step_resume(const struct view *view, uint64_t record_generation, enum job_step record_step,
                          enum job_kind wanted)
{
    if (view->phase == PHASE_BUILDING)
        return resume_build(view, record_generation, record_step);
    if (view->phase == PHASE_SWITCHED)
        return STEP_FOLLOW;
    if (wanted == JOB_EXPAND)
        return STEP_PLAN;
    return wanted == JOB_CHECK || record_step == STEP_CHECK ? STEP_CHECK : STEP_DONE;
}
