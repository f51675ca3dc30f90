/* SPDX-License-Identifier: MIT */
#include "expansion/step.h"

#include <assert.h>
#include <string.h>

struct step_row {
    const char *name;
    enum job_step next;    /* after ERR_OK */
    enum job_step failure; /* after an error that trying again does not mend */
};

static const struct step_row rows[STEP_COUNT] = {
    [STEP_FENCE] = {"fence", STEP_RECLAIM, STEP_STOPPED},
    [STEP_RECLAIM] = {"reclaim", STEP_PLAN, STEP_STOPPED},
    [STEP_PLAN] = {"plan", STEP_CREATE, STEP_FAILED},
    [STEP_CREATE] = {"create", STEP_OPEN, STEP_FAILED},
    [STEP_OPEN] = {"open", STEP_SETTLE, STEP_STOPPED},
    [STEP_SETTLE] = {"settle", STEP_SCAN, STEP_ABORT},
    [STEP_SCAN] = {"scan", STEP_CATCH_UP, STEP_ABORT},
    [STEP_CATCH_UP] = {"catch_up", STEP_VERIFY, STEP_ABORT},
    [STEP_VERIFY] = {"verify", STEP_CUTOVER, STEP_ABORT},
    [STEP_CUTOVER] = {"cutover", STEP_FOLLOW, STEP_STOPPED},
    [STEP_FOLLOW] = {"follow", STEP_GRACE, STEP_GRACE},
    [STEP_GRACE] = {"grace", STEP_FINISH, STEP_STOPPED},
    [STEP_FINISH] = {"finish", STEP_RETIRE, STEP_STOPPED},
    [STEP_RETIRE] = {"retire", STEP_DONE, STEP_STOPPED},
    [STEP_ABORT] = {"abort", STEP_CLEAR, STEP_STOPPED},
    [STEP_CLEAR] = {"clear", STEP_FAILED, STEP_STOPPED},
    [STEP_DONE] = {"done", STEP_DONE, STEP_DONE},
    [STEP_FAILED] = {"failed", STEP_FAILED, STEP_FAILED},
    [STEP_STOPPED] = {"stopped", STEP_STOPPED, STEP_STOPPED},
};

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

enum job_step step_next(enum job_step step, enum err code)
{
    switch (code) {
    case ERR_OK:
        return rows[step].next;
    case ERR_UNREACHABLE: /* a server is away: wait for it; what was done may be done again */
    case ERR_TIMEOUT:
    case ERR_IO:
        return step;
    case ERR_MUTEX_LOST: /* another driver has the job, or will */
    case ERR_FENCED:
    case ERR_BUSY:
        return STEP_STOPPED;
    case ERR_RANGE:
    case ERR_NOMEM:
    case ERR_PARSE:
    case ERR_CONFLICT:
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_LOST:
    case ERR_CANCELLED:
    case ERR_REFUSED:
    case ERR_CONFIG:
    case ERR_FULL:
        return rows[step].failure;
    }
    return STEP_STOPPED;
}

enum job_step step_resume(const struct view *view, uint64_t record_generation, enum job_step record_step,
                          bool wanted)
{
    const struct generation *alternate = view_alternate(view);
    switch (view->phase) {
    case PHASE_STEADY:
    case PHASE_OVERFLOW:
        return wanted ? STEP_PLAN : STEP_DONE;
    case PHASE_OVERFLOW_OPEN:
        return STEP_STOPPED;
    case PHASE_SWITCHED:
        return STEP_FOLLOW;
    case PHASE_BUILDING:
        /* A record of another generation says nothing of this one: settle and scan from the beginning. */
        if (alternate == NULL || alternate->number != record_generation)
            return STEP_SETTLE;
        if (record_step == STEP_ABORT)
            return STEP_ABORT;
        return record_step == STEP_SCAN || record_step == STEP_CATCH_UP || record_step == STEP_VERIFY
                   ? record_step
               : record_step == STEP_CUTOVER ? STEP_VERIFY
                                             : STEP_SETTLE;
    case PHASE_COUNT:
        break;
    }
    return STEP_STOPPED;
}
