/* SPDX-License-Identifier: MIT */
/* The driver's loop.
 *
 * The happy path is the table of step.c from top to bottom. Possible failure modes are: a server is away
 * (the step is retried; the record says what it waits for); the mutex is lost or another driver has the
 * generation (stop at once); the build cannot succeed (abort: the new generation leaves the view, the current
 * one stays in service); the process dies (the next driver begins where step_resume() says). */
#include "expansion/job/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"
#include "shard/control/key_client.h"

enum {
    RETRY_MIN_US = 200 * 1000,
    RETRY_MAX_US = 5 * 1000 * 1000,
    NAP_US = 50 * 1000,
    BEGIN_US = 30 * 1000 * 1000,
    CHANGES_MAX = 5,         /* after so many changes of the source the job fails */
    GAP_US = 5 * 1000 * 1000 /* how long the table may be missing between two renames */
};

/* --- the view --- */

enum err driver_reload(struct driver *d, struct error *e)
{
    uint64_t built = d->builder == NULL ? 0 : d->builder->shape.number;
    enum err code = handle_load(&d->handle, &d->next, e);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? error_set(e, ERR_FENCED, "the view is no longer in Redis") : code;
    if (d->next.incarnation != d->view.incarnation)
        return error_set(e, ERR_FENCED, "the filter was deleted and created again");
    if (built != 0 && d->next.slot[0].number != built && d->next.slot[1].number != built)
        return error_set(e, ERR_FENCED, "generation %" PRIu64 " is not built any more", built);
    if (d->step != STEP_ROLLBACK && view_current(&d->next)->number < view_current(&d->view)->number)
        return error_set(e, ERR_FENCED, "the view went back to before the cutover");
    d->view = d->next;
    return ERR_OK;
}

void driver_tell_view(const struct driver *d)
{
    log_info("view_changed", "filter=%s epoch=%" PRIu64 " phase=%s generation=%" PRIu64 " step=%s reason=%s",
             log_quote(d->o->filter), d->view.epoch, phase_name(d->view.phase),
             view_current(&d->view)->number, step_name(d->step), log_quote(d->record.reason));
}

unsigned driver_built_slot(const struct driver *d)
{
    return d->view.phase == PHASE_BUILDING ? 1 - d->view.current : d->view.current;
}

const struct generation *driver_built(const struct driver *d)
{
    return &d->view.slot[driver_built_slot(d)];
}

/* --- steps --- */

static enum err step_settle(struct driver *d, struct error *e)
{
    enum err code = driver_begin(d, e);
    if (code == ERR_OK)
        code = driver_settle(d, e);
    return code == ERR_OK ? driver_lower_marks(d, e) : code;
}

static enum err (*const perform[STEP_COUNT])(struct driver *d, struct error *e) = {
    [STEP_RECLAIM] = driver_reclaim, [STEP_PLAN] = driver_plan,         [STEP_OPEN] = driver_open,
    [STEP_SETTLE] = step_settle,     [STEP_SCAN] = driver_scan,         [STEP_CATCH_UP] = driver_catch_up,
    [STEP_VERIFY] = driver_verify,   [STEP_HOLD] = driver_hold,         [STEP_CUTOVER] = driver_cutover,
    [STEP_FOLLOW] = driver_catch_up, [STEP_CONFIRM] = driver_verify,    [STEP_GRACE] = driver_grace,
    [STEP_FINISH] = driver_leave,    [STEP_ROLLBACK] = driver_rollback, [STEP_ABORT] = driver_leave,
    [STEP_CHECK] = driver_verify,
};

/* --- changes of the source during the job --- */

bool driver_relies_on_source(const struct driver *d)
{
    return d->step == STEP_SCAN || d->step == STEP_CATCH_UP || d->step == STEP_VERIFY ||
           d->step == STEP_FOLLOW || d->step == STEP_CONFIRM;
}

/* Judge a step that has read the source: it is invalid if the source has changed since the settle. Swapping
 * tables by two renames leaves a short time without a table. */
static enum err judge_source(struct driver *d, enum err code, struct error *why)
{
    bool refused = code == ERR_CONFIG || code == ERR_REFUSED || code == ERR_CONFLICT;
    if (!d->o->sourced || !driver_relies_on_source(d) || (code != ERR_OK && !refused))
        return code;
    struct error e;
    uint64_t until = clock_mono_us() + GAP_US;
    enum err now = driver_unchanged(d, &e), nap = ERR_OK;
    while (now == ERR_CONFIG && code != ERR_CONFLICT && nap == ERR_OK && clock_mono_us() < until) {
        const struct error gone = e;
        nap = driver_nap(d, gone.text, &e);
        if (nap == ERR_OK)
            now = driver_unchanged(d, &e);
    }
    if (nap == ERR_OK && code != ERR_OK && now != ERR_CHANGED)
        return code;
    *why = e;
    return nap == ERR_OK ? now : nap;
}

static enum err note_change(struct driver *d, struct error *why)
{
    log_warn("source_changed", "filter=%s step=%s code=%s error=%s", log_quote(d->o->filter),
             step_name(d->step), error_name(ERR_CHANGED), log_quote(why->text));
    if (++d->changes > CHANGES_MAX)
        return error_prefix(why, ERR_CONFLICT, "the source changed %u times", d->changes);
    return ERR_CHANGED;
}

/* --- the loop --- */

/* A server is away. Record that if possible, and wait a little longer each time. Reload the view afterwards:
 * it may contain a change of ours whose reply was lost. */
static enum err wait_and_reload(struct driver *d, enum err away, uint64_t *pause, struct error *why)
{
    log_warn("job_waiting", "filter=%s step=%s code=%s error=%s", log_quote(d->o->filter), step_name(d->step),
             error_name(away), log_quote(why->text));
    const struct error waiting = *why;
    uint64_t until = clock_mono_us() + *pause;
    *pause = *pause * 2 < RETRY_MAX_US ? *pause * 2 : RETRY_MAX_US;
    while (clock_mono_us() < until) {
        enum err code = driver_look(d, waiting.text, why);
        if (code != ERR_OK)
            return code;
        clock_sleep_us(NAP_US);
    }
    return driver_reload(d, why);
}

static enum job_step after(struct driver *d, enum job_step step, enum err code, const struct error *why)
{
    if (code == ERR_CANCELLED && d->request != REQUEST_COUNT) {
        enum job_step asked = step_asked(step, d->request);
        if (asked != STEP_COUNT)
            return asked;
    }
    if (step == STEP_CONFIRM)
        d->unconfirmed = code != ERR_OK;
    if (step == STEP_CONFIRM && code == ERR_CONFLICT) /* a retry did not heal it either */
        return STEP_ROLLBACK;
    if (step == STEP_ROLLBACK && code == ERR_OK && d->unconfirmed)
        return STEP_ABORT;
    if (code != ERR_OK && step_next(step, code) == STEP_CONFIRM)
        driver_distrust(d, why->text);
    if (step == STEP_RECLAIM && code == ERR_OK) {
        enum job_step resumed = step_resume(&d->view, d->record.generation, d->record.step, d->o->kind);
        d->unconfirmed = resumed == STEP_ROLLBACK && d->record.unconfirmed;
        return resumed;
    }
    return step_next(step, code);
}

/* Run one step to its end; *@code and @why: how it ended. */
static enum job_step run_step(struct driver *d, uint64_t *pause, enum err *code, struct error *why)
{
    *why = (struct error){.text = ""};
    d->request = REQUEST_COUNT;
    *code = d->step == STEP_HOLD ? ERR_OK : record_step(d, d->step, why); /* a hold records itself */
    if (*code == ERR_OK)
        *code = judge_source(d, perform[d->step](d, why), why);
    if (*code == ERR_CHANGED)
        *code = driver_relies_on_source(d) || d->step == STEP_CUTOVER ? note_change(d, why) : ERR_CONFLICT;
    d->tries_again = false;
    while (step_waits(*code)) {
        *code = wait_and_reload(d, *code, pause, why);
        d->tries_again = *code == ERR_OK;
        if (d->tries_again)
            return d->step;
    }
    if (*code == ERR_OK)
        *pause = RETRY_MIN_US;
    return after(d, d->step, *code, why);
}

/* True if the job goes on: also after an operator's request to continue elsewhere. */
static bool goes_on(const struct driver *d, enum err code)
{
    return code == ERR_OK || code == ERR_CHANGED ||
           (code == ERR_CANCELLED && d->request != REQUEST_ABORT && d->request != REQUEST_COUNT);
}

/* This driver has completed what another one began: the new generation is removed. Only a request of an
 * operator tells why. */
static enum err reason_of_other(struct driver *d)
{
    struct error ignored;
    bool aborted = control_read(&d->handle, &d->control, &ignored) == ERR_OK && d->control.abort;
    return aborted ? error_set(&d->why, ERR_CANCELLED, "aborted by an operator")
                   : error_set(&d->why, ERR_CONFLICT, "another coordinator gave it up: see its log");
}

static void write_end(struct driver *d, enum err failure)
{
    if (d->step == STEP_FAILED && failure == ERR_OK)
        failure = reason_of_other(d);
    if (d->step == STEP_FAILED)
        record_end(d, failure == ERR_CANCELLED ? "aborted" : "failed", failure, d->why.text);
    else if (d->step != STEP_DONE || (d->o->kind == JOB_FINISH && !d->record.running))
        return; /* another driver's record, or there was nothing to do */
    else if (d->o->kind == JOB_FINISH && d->found_quiet && !step_is_switched(d->record.step) &&
             d->record.step != STEP_CHECK)
        record_end(d, "failed", ERR_CANCELLED, record_orphaned);
    else if (d->unconfirmed)
        record_end(d, "failed", failure, d->why.text);
    else
        record_end(d, d->record.healed[0] != '\0' ? "healed" : "done", ERR_OK, d->record.healed);
}

/* Steps before the cutover keep the bitmaps, so that keys that come again are not counted again. A comparison
 * of all keys needs their memory. */
static bool keeps_build(const struct driver *d, enum job_step next)
{
    bool compares = d->record.verify_full;
    return next == STEP_SCAN || next == STEP_CATCH_UP ||
           (!compares && (next == STEP_VERIFY || next == STEP_HOLD || next == STEP_CUTOVER));
}

static enum err run_steps(struct driver *d, struct error *e)
{
    enum err failure = ERR_OK;
    uint64_t pause = RETRY_MIN_US;
    d->step = STEP_RECLAIM;
    while (!step_is_end(d->step)) {
        enum err code;
        struct error why;
        enum job_step next = run_step(d, &pause, &code, &why);
        if (!goes_on(d, code)) {
            log_warn("step_failed", "filter=%s step=%s next=%s code=%s error=%s", log_quote(d->o->filter),
                     step_name(d->step), step_name(next), error_name(code), log_quote(why.text));
            if (failure == ERR_OK) {
                failure = code;
                d->why = why;
            }
        }
        if (!keeps_build(d, next))
            driver_end_build(d);
        d->step = next;
    }
    if (failure != ERR_OK)
        *e = d->why;
    write_end(d, failure);
    return d->step == STEP_DONE ? ERR_OK : failure == ERR_OK ? ERR_CONFLICT : failure;
}

static enum err begin(struct driver *d, struct error *e)
{
    const struct driver_options *o = d->o;
    d->handle.redis = d->redis;
    enum err code = names_init(&d->handle.names, o->prefix, o->filter, o->filter_length, e);
    if (code == ERR_OK)
        code = handle_load(&d->handle, &d->view, e);
    if (code == ERR_OK)
        code = record_read(d, e);
    if (code != ERR_OK)
        return code;
    d->found_quiet = view_alternate(&d->view) == NULL;
    if (d->found_quiet && d->record.running && o->kind != JOB_FINISH)
        code = record_end_former(d, e);
    if (code != ERR_OK)
        return code;
    /* With one generation in the view the record describes an earlier job, and does not apply to a new
     * one. */
    if (d->found_quiet && o->kind != JOB_FINISH) {
        struct record fresh = {.step = STEP_RECLAIM, .verify_full = o->verify_full};
        memcpy(fresh.horizon, d->record.horizon, sizeof(fresh.horizon)); /* of the generation in use */
        memcpy(fresh.swept, d->record.swept, sizeof(fresh.swept));
        record_fini(&d->record);
        d->record = fresh;
    }
    d->recorded = d->found_quiet && d->record.running && d->record.step == STEP_CHECK;
    if (d->record.id == 0 || (d->found_quiet && !d->record.running))
        d->record.id = mutex_id(d->mutex); /* otherwise the recorded job goes on: see control_unfinished() */
    if (d->record.started_ms == 0)
        d->record.started_ms = clock_wall_us() / 1000;
    if (d->record.reason[0] == '\0')
        (void)snprintf(d->record.reason, sizeof(d->record.reason), "%s", o->reason);
    log_info("job_started", "filter=%s phase=%s epoch=%" PRIu64 " token=%" PRIu64 " reason=%s",
             log_quote(o->filter), phase_name(d->view.phase), d->view.epoch, mutex_token(d->mutex),
             log_quote(d->record.reason));
    return ERR_OK;
}

/* The start was acknowledged, so wait if a master is failing over, as in a step. The wait has a bound,
 * because others may want the mutex. */
static enum err begin_patiently(struct driver *d, struct error *e)
{
    uint64_t pause = RETRY_MIN_US, until = clock_mono_us() + BEGIN_US;
    enum err code;
    while (step_waits(code = begin(d, e)) && clock_mono_us() < until) {
        log_warn("job_waiting", "filter=%s step=begin code=%s error=%s", log_quote(d->o->filter),
                 error_name(code), log_quote(e->text));
        for (uint64_t naps = pause / NAP_US; naps > 0; naps--) {
            if (mutex_lost(d->mutex))
                return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex_value(d->mutex));
            if (atomic_load(d->o->stop))
                return error_set(e, ERR_BUSY, "the coordinator is stopping");
            clock_sleep_us(NAP_US);
        }
        pause = pause * 2 < RETRY_MAX_US ? pause * 2 : RETRY_MAX_US;
    }
    return code;
}

enum err driver_run(const struct driver_options *options, struct mutex *mutex, struct error *e)
{
    struct driver *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    d->o = options;
    d->mutex = mutex;
    d->request = REQUEST_COUNT;
    d->patience_ms = options->postgres_timeout_ms;
    d->redis = sync_client_new(options->nodes, options->redis_timeout_ms, "twinbloom-job");
    enum err code = d->redis == NULL ? error_set(e, ERR_NOMEM, "out of memory") : begin_patiently(d, e);
    if (code == ERR_OK)
        code = run_steps(d, e);
    driver_end_builder(d);
    key_client_free(d->client);
    driver_pace_end(d);
    source_close(d->source);
    free(d->parts);
    record_fini(&d->record);
    handle_fini(&d->handle);
    script_fini(&d->call);
    sync_client_free(d->redis);
    free(d);
    return code;
}
