/* SPDX-License-Identifier: MIT */
/* The driver's loop and its view changes.
 *
 * The happy path is the table of step.c from top to bottom. Possible failure modes are: a server is away (the
 * step is tried again, the record says what is waited for), the mutex is lost or the epoch moved on (stop at
 * once: another driver has the job), the build cannot succeed (abort: the alternate generation leaves the
 * view, the current one serves on), death at any point (the next driver begins where step_resume() says). */
#include "expansion/driver.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "base/random.h"
#include "expansion/driver_internal.h"
#include "expansion/survey.h"
#include "expansion/threshold.h"

enum { RETRY_MIN_US = 200 * 1000, RETRY_MAX_US = 5 * 1000 * 1000, NAP_US = 50 * 1000 };

/* --- view changes --- */

static enum err complete_fence(struct driver *d, struct error *e)
{
    uint64_t lost;
    uint64_t started = clock_mono_us();
    enum err code = fence_complete(&d->fence, &d->view, &lost, e);
    if (code == ERR_OK)
        log_info("fenced", "filter=%s epoch=%" PRIu64 " phase=%s lost=%" PRIu64 " ms=%.1f",
                 log_quote(d->o->filter), d->view.epoch, phase_row(d->view.phase)->name, lost,
                 (double)(clock_mono_us() - started) / 1000);
    return code;
}

/* Model: CHANGE. Publish d->next and fence it. A script whose reply was lost may have been executed: the step
 * is tried again after driver_reload(), and finds its phase there. */
static enum err change_view(struct driver *d, const struct fence_job *job, struct error *e)
{
    d->next.epoch = d->view.epoch + 1;
    enum err code = fence_change(&d->fence, &d->view, &d->next, mutex_value(d->mutex), job, e);
    if (code == ERR_CANCELLED) /* the guard: what was asked for meanwhile decides */
        return driver_requests(d, e) == ERR_OK
                   ? error_set(e, ERR_TIMEOUT, "an operator's request was taken back")
                   : ERR_CANCELLED;
    if (code != ERR_OK)
        return code;
    d->view = d->next;
    log_info("view_changed", "filter=%s epoch=%" PRIu64 " phase=%s", log_quote(d->o->filter), d->view.epoch,
             phase_row(d->view.phase)->name);
    return complete_fence(d, e);
}

unsigned driver_built_slot(const struct driver *d)
{
    return d->view.phase == PHASE_BUILDING ? 1 - d->view.current : d->view.current;
}

const struct generation *driver_built(const struct driver *d)
{
    return &d->view.slot[driver_built_slot(d)];
}

struct layer_options driver_layers(struct driver *d)
{
    return (struct layer_options){
        .fence = &d->fence, .mutex = d->mutex, .shard_bytes = d->o->shard_bytes, .growth = d->o->growth};
}

/* Model: IS_READY. No view change of the job while a layer of the current generation is opening. */
static enum err widen(struct driver *d, struct error *e)
{
    const struct layer_options o = driver_layers(d);
    return layer_complete(&o, &d->view, &d->next, e);
}

/* The alternate generation of d->next leaves the view; its shards lie under the present epoch's names. */
static void retire_slot(struct driver *d, unsigned slot)
{
    d->next.retiring = d->next.slot[slot];
    d->next.retiring_epoch = d->view.epoch;
    d->next.slot[slot] = (struct generation){0};
}

/* --- steps --- */

static enum err step_plan(struct driver *d, struct error *e)
{
    const struct driver_options *o = d->o;
    struct plan_input in;
    char warning[256];
    enum err code = driver_source(d, e);
    if (code == ERR_OK)
        code = driver_source_failed(d, survey_plan(o, &d->fence, &d->view, d->source, &in, &d->plan, e));
    if (code == ERR_OK)
        code = survey_fits(&d->plan, d->link, warning, e);
    if (code != ERR_OK)
        return code;
    if (warning[0] != '\0')
        log_warn("plan", "filter=%s warning=%s", log_quote(o->filter), log_quote(warning));
    code = driver_source_failed(d, source_warning(d->source, warning, sizeof(warning), e));
    if (code != ERR_OK)
        return code;
    if (warning[0] != '\0')
        log_warn("source", "filter=%s warning=%s", log_quote(o->filter), log_quote(warning));
    d->record.rows_total = in.source_rows;
    log_info("planned",
             "filter=%s rows=%" PRIu64 " capacity=%" PRIu64 " error_rate=%g shards=%u bytes=%" PRIu64
             " partitions=%u",
             log_quote(o->filter), in.source_rows, d->plan.capacity, d->plan.error_rate,
             d->plan.geometry.shards, d->plan.bytes, d->plan.partitions);
    record_begin(d, false);
    record_number(d, "capacity", d->plan.capacity);
    record_number(d, "rows_total", in.source_rows);
    return record_write(d, e);
}

/* The generation of the plan. Numbers come from a counter in the view; the slot is the number's parity, and
 * must be the one that is free. */
static void fill_generation(struct driver *d)
{
    d->next = d->view;
    d->next.last_generation = d->view.last_generation + 1;
    if (d->next.last_generation % 2 == d->view.current)
        d->next.last_generation++;
    struct generation *g = &d->next.slot[1 - d->view.current];
    *g = (struct generation){
        .number = d->next.last_generation,
        .seed = random_u64(),
        .built = false,
        .capacity = d->plan.capacity,
        .error_rate = d->plan.error_rate,
        .layer_count = 1,
    };
    g->layers[0] = (struct layer){
        .geometry = d->plan.geometry,
        .capacity = d->plan.capacity,
        .error_rate = d->plan.error_rate,
        .token = mutex_token(d->mutex),
        .born_epoch = d->view.epoch + 1,
    };
    nodes_pin(d->o->nodes, g);
}

/* Model: made. */
static enum err step_create(struct driver *d, struct error *e)
{
    fill_generation(d);
    const struct generation *g = &d->next.slot[1 - d->view.current];
    enum err code = fence_create(&d->fence, g, 0, e);
    struct error ignored;
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT &&
        fence_discard(&d->fence, g, 0, &ignored) != ERR_OK)
        log_warn("leftover", "filter=%s note=\"shards that were made expire by themselves\"",
                 log_quote(d->o->filter));
    return code;
}

static enum err step_open(struct driver *d, struct error *e)
{
    if (d->view.phase == PHASE_BUILDING) /* tried before: the view was changed, the fence was not complete */
        return complete_fence(d, e);
    /* Again: the scratch may have been used since; a new seed is as good while shards are empty. */
    fill_generation(d);
    bool for_bytes = strcmp(d->o->trigger, threshold_name(THRESHOLD_BYTES)) == 0;
    char generation[24], token[24], started[24], capacity[24], rows[24], now[24];
    (void)snprintf(generation, sizeof(generation), "%" PRIu64, d->next.slot[1 - d->view.current].number);
    (void)snprintf(token, sizeof(token), "%" PRIu64, mutex_token(d->mutex));
    (void)snprintf(started, sizeof(started), "%" PRIu64, d->record.started_ms);
    (void)snprintf(capacity, sizeof(capacity), "%" PRIu64, d->plan.capacity);
    (void)snprintf(rows, sizeof(rows), "%" PRIu64, d->record.rows_total);
    (void)snprintf(now, sizeof(now), "%" PRIu64, clock_wall_us() / 1000);
    const char *pairs[] = {"state",
                           "running",
                           "step",
                           step_name(STEP_SETTLE),
                           "generation",
                           generation,
                           "owner",
                           d->o->owner,
                           "token",
                           token,
                           "reason",
                           d->o->reason,
                           "started_ms",
                           started,
                           "expanded_ms",
                           now,
                           "bytes_generation",
                           for_bytes ? generation : "0",
                           "capacity",
                           capacity,
                           "rows_total",
                           rows,
                           "updated_ms",
                           now,
                           "verify_full",
                           d->record.verify_full ? "1" : "0",
                           "trigger",
                           d->o->trigger};
    const struct fence_job job = {.reset = true, .pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next.phase = PHASE_BUILDING;
    enum err code = change_view(d, &job, e);
    if (code == ERR_OK)
        d->record.generation = view_alternate(&d->view)->number;
    return code;
}

static enum err step_hold(struct driver *d, struct error *e)
{
    enum err code = driver_requests(d, e);
    if (code == ERR_OK && d->control.hold)
        code = record_step(d, STEP_HOLD, e);
    if (code != ERR_OK || !d->control.hold)
        return code;
    log_info("holds", "filter=%s generation=%" PRIu64, log_quote(d->o->filter), driver_built(d)->number);
    while (code == ERR_OK && d->control.hold)
        code = driver_nap(d, "an operator's word to switch", e);
    if (code != ERR_OK)
        return code;
    d->request = REQUEST_CUTOVER; /* rows have come meanwhile: catch up and verify again */
    return error_set(e, ERR_CANCELLED, "an operator gave the word to switch");
}

/* Model: EXCHANGE. */
static enum err step_cutover(struct driver *d, struct error *e)
{
    if (d->view.phase == PHASE_SWITCHED)
        return complete_fence(d, e);
    enum err code = widen(d, e);
    if (code != ERR_OK)
        return code;
    char now[24], generation[24], dead[24];
    d->record.switched_ms = clock_wall_us() / 1000;
    (void)snprintf(now, sizeof(now), "%" PRIu64, d->record.switched_ms);
    (void)snprintf(generation, sizeof(generation), "%" PRIu64, d->record.dead_generation);
    (void)snprintf(dead, sizeof(dead), "%" PRIu64, d->record.dead_at_build);
    const char *pairs[] = {"step",     step_name(STEP_FOLLOW), "switched_ms", now, "dead_generation",
                           generation, "dead_at_build",        dead};
    const struct fence_job job = {
        .guard = "abort", .pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next = d->view;
    d->next.phase = PHASE_SWITCHED;
    d->next.current = 1 - d->view.current;
    d->next.slot[d->next.current].built = true;
    return change_view(d, &job, e);
}

/* The generation to which a rollback would go must be able to say "no", and rightly. */
static enum err may_roll_back(struct driver *d, struct error *e)
{
    uint64_t lost = 0;
    const struct generation *old = view_alternate(&d->view);
    if (!old->built)
        return error_set(e, ERR_CONFLICT, "generation %" PRIu64 " was never built: no rollback", old->number);
    enum err code = fence_count_lost(&d->fence, &d->view, old, &lost, e);
    if (code == ERR_OK && lost > 0)
        code =
            error_set(e, ERR_CONFLICT, "%" PRIu64 " shards of generation %" PRIu64 " are lost: no rollback",
                      lost, old->number);
    return code;
}

/* What was asked for cannot be: it must not be asked again at once. */
static enum err refuse_rollback(struct driver *d, const struct error *why, struct error *e)
{
    log_warn("no_rollback", "filter=%s why=%s", log_quote(d->o->filter), log_quote(why->text));
    record_begin(d, false);
    record_text(d, "rollback", "0");
    record_text(d, "error", why->text);
    enum err code = record_write(d, e);
    return code == ERR_OK ? error_set(e, ERR_CONFLICT, "%s", why->text) : code;
}

/* Model: EXCHANGE. Both generations have taken every add since the build began, so the old one lacks nothing.
 */
static enum err step_rollback(struct driver *d, struct error *e)
{
    if (d->view.phase == PHASE_BUILDING)
        return complete_fence(d, e);
    struct error why;
    enum err code = widen(d, e);
    if (code == ERR_OK && (code = may_roll_back(d, &why)) != ERR_OK)
        return code == ERR_CONFLICT ? refuse_rollback(d, &why, e) : error_set(e, code, "%s", why.text);
    if (code != ERR_OK)
        return code;
    const char *pairs[] = {"step", step_name(STEP_HOLD), "hold", "1", "rollback", "0", "finish", "0"};
    const struct fence_job job = {.pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next = d->view;
    d->next.phase = PHASE_BUILDING;
    d->next.current = 1 - d->view.current;
    return change_view(d, &job, e);
}

static enum err step_grace(struct driver *d, struct error *e)
{
    if (!view_alternate(&d->view)->built)
        return ERR_OK; /* a first build: there is nothing to go back to */
    for (;;) {
        uint64_t now = clock_wall_us() / 1000;
        /* The wall clock may be set back; the wait is for comfort, so never longer than asked for from now
         * on. */
        uint64_t passed = now >= d->record.switched_ms ? now - d->record.switched_ms : 0;
        if (now < d->record.switched_ms)
            d->record.switched_ms = now;
        if (passed >= d->o->grace_ms)
            return ERR_OK;
        enum err code = driver_nap(d, "the end of the grace time", e);
        if (code != ERR_OK)
            return code;
    }
}

/* Model: LEAVE. The alternate generation leaves the view. */
static enum err leave_alternate(struct driver *d, enum job_step then, const char *guard, struct error *e)
{
    if (view_alternate(&d->view) == NULL)
        return complete_fence(d, e);
    enum err code = widen(d, e);
    if (code != ERR_OK)
        return code;
    const char *pairs[] = {"step", step_name(then)};
    const struct fence_job job = {.guard = guard, .pairs = pairs, .count = sizeof(pairs) / sizeof(pairs[0])};
    d->next = d->view;
    d->next.phase = phase_alone(view_current(&d->view)->layer_count);
    retire_slot(d, 1 - d->view.current);
    return change_view(d, &job, e);
}

static enum err perform(struct driver *d, struct error *e)
{
    switch (d->step) {
    case STEP_FENCE:
        return complete_fence(d, e);
    case STEP_WIDEN:
        return widen(d, e);
    case STEP_RECLAIM:
    case STEP_RETIRE:
    case STEP_CLEAR:
        return fence_retire(&d->fence, &d->view, mutex_value(d->mutex), e);
    case STEP_PLAN:
        return step_plan(d, e);
    case STEP_CREATE:
        return step_create(d, e);
    case STEP_OPEN:
        return step_open(d, e);
    case STEP_SETTLE:
        return driver_settle(d, e);
    case STEP_SCAN:
        return driver_scan(d, e);
    case STEP_CATCH_UP:
    case STEP_FOLLOW:
        return driver_catch_up(d, e);
    case STEP_VERIFY:
    case STEP_CONFIRM:
    case STEP_CHECK:
        return driver_verify(d, e);
    case STEP_HOLD:
        return step_hold(d, e);
    case STEP_CUTOVER:
        return step_cutover(d, e);
    case STEP_GRACE:
        return step_grace(d, e);
    case STEP_FINISH:
        return leave_alternate(d, STEP_RETIRE, "rollback", e);
    case STEP_ROLLBACK:
        return step_rollback(d, e);
    case STEP_ABORT:
        return leave_alternate(d, STEP_CLEAR, NULL, e);
    case STEP_DONE:
    case STEP_FAILED:
    case STEP_STOPPED:
    case STEP_COUNT:
        break;
    }
    return ERR_OK;
}

/* --- the loop --- */

enum err driver_reload(struct driver *d, struct error *e)
{
    uint64_t epoch = d->view.epoch, incarnation = d->view.incarnation;
    enum err code = fence_load(&d->fence, &d->next, e);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? error_set(e, ERR_FENCED, "the view is not in Redis any more") : code;
    if (d->next.incarnation != incarnation || d->next.epoch > epoch + 1 || d->next.epoch < epoch)
        return error_set(e, ERR_FENCED, "the view moved on from epoch %" PRIu64, epoch);
    d->view = d->next;
    return complete_fence(d, e);
}

static bool server_is_away(enum err code)
{
    return code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_IO;
}

/* A server is away. Say so where that can be said, wait a little longer each time. The view may be another
 * afterwards: a change of ours whose reply was lost. */
static enum err wait_and_reload(struct driver *d, uint64_t *pause, struct error *why)
{
    log_warn("job_waits", "filter=%s step=%s why=%s", log_quote(d->o->filter), step_name(d->step),
             log_quote(why->text));
    const struct error waiting = *why;
    uint64_t until = clock_mono_us() + *pause;
    *pause = *pause * 2 < RETRY_MAX_US ? *pause * 2 : RETRY_MAX_US;
    while (clock_mono_us() < until) {
        enum err code = driver_look(d, waiting.text, why);
        if (code != ERR_OK && !server_is_away(code))
            return code;
        clock_sleep_us(NAP_US);
    }
    enum err code = driver_reload(d, why);
    return code == ERR_OK ? driver_poll(d, waiting.text, why) : code; /* layers do not wait for Postgres */
}

static enum job_step after(struct driver *d, enum job_step step, enum err code)
{
    if (code == ERR_CANCELLED && d->request != REQUEST_COUNT) {
        enum job_step asked = step_asked(step, d->request);
        return asked == STEP_COUNT ? step_next(step, code) : asked;
    }
    if (step == STEP_RECLAIM && code == ERR_OK)
        return step_resume(&d->view, d->record.generation, d->record.step, d->o->kind);
    return step_next(step, code);
}

/* One step to its end; *@code and @why say how. */
static enum job_step run_step(struct driver *d, uint64_t *pause, enum err *code, struct error *why)
{
    *why = (struct error){.text = ""};
    d->request = REQUEST_COUNT;
    *code =
        d->step == STEP_HOLD ? ERR_OK : record_step(d, d->step, why); /* it writes itself, if it does hold */
    if (*code == ERR_OK)
        *code = perform(d, why);
    while (server_is_away(*code)) {
        *code = wait_and_reload(d, pause, why);
        if (*code == ERR_OK)
            return d->step;
    }
    if (*code == ERR_OK)
        *pause = RETRY_MIN_US;
    return after(d, d->step, *code);
}

/* Not an end of the job: an operator's word on where to go on. */
static bool goes_on(const struct driver *d, enum err code)
{
    return code == ERR_OK ||
           (code == ERR_CANCELLED && d->request != REQUEST_ABORT && d->request != REQUEST_COUNT);
}

static bool found_quiet(const struct driver *d)
{
    return d->found == PHASE_STEADY || d->found == PHASE_OVERFLOW;
}

static void write_end(struct driver *d, enum err failure)
{
    if (d->step == STEP_FAILED)
        record_end(d, failure == ERR_CANCELLED ? "aborted" : "failed", d->why.text);
    else if (d->step != STEP_DONE || (d->o->kind == JOB_FINISH && !d->record.running))
        return; /* somebody else's, or nothing was to do */
    else if (d->o->kind == JOB_FINISH && found_quiet(d) && !step_is_switched(d->record.step))
        record_end(d, "failed", "its driver ended before the new generation was in use");
    else
        record_end(d, "done", "");
}

static enum err run_steps(struct driver *d, struct error *e)
{
    enum err failure = ERR_OK;
    uint64_t pause = RETRY_MIN_US;
    d->step = STEP_FENCE;
    while (!step_is_end(d->step)) {
        enum err code;
        struct error why;
        enum job_step next = run_step(d, &pause, &code, &why);
        if (!goes_on(d, code)) {
            log_warn("step_failed", "filter=%s step=%s next=%s why=%s", log_quote(d->o->filter),
                     step_name(d->step), step_name(next), log_quote(why.text));
            if (failure == ERR_OK) {
                failure = code;
                d->why = why;
            }
        }
        if (next != STEP_SCAN)
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
    d->fence.link = d->link;
    d->fence.tombstone_ms = o->tombstone_ms;
    enum err code = names_init(&d->fence.names, o->prefix, o->filter, o->filter_length, e);
    if (code == ERR_OK)
        code = fence_load(&d->fence, &d->view, e);
    if (code == ERR_OK)
        code = record_read(d, e);
    if (code != ERR_OK)
        return code;
    d->found = d->view.phase;
    /* With one generation the record is of another job: nothing of it concerns a new one. */
    if (found_quiet(d) && o->kind != JOB_FINISH) {
        struct record fresh = {.step = STEP_FENCE, .verify_full = o->verify_full};
        memcpy(fresh.horizon, d->record.horizon, sizeof(fresh.horizon)); /* of the generation in use */
        memcpy(fresh.swept, d->record.swept, sizeof(fresh.swept));
        fresh.dead_generation = d->record.dead_generation;
        fresh.dead_at_build = d->record.dead_at_build;
        record_fini(&d->record);
        d->record = fresh;
    }
    if (d->record.started_ms == 0)
        d->record.started_ms = clock_wall_us() / 1000;
    if (d->record.reason[0] == '\0')
        (void)snprintf(d->record.reason, sizeof(d->record.reason), "%s", o->reason);
    log_info("job", "filter=%s phase=%s epoch=%" PRIu64 " token=%" PRIu64 " reason=%s", log_quote(o->filter),
             phase_row(d->view.phase)->name, d->view.epoch, mutex_token(d->mutex),
             log_quote(d->record.reason));
    return ERR_OK;
}

enum err driver_run(const struct driver_options *options, struct mutex *mutex, struct error *e)
{
    struct driver *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    d->o = options;
    d->mutex = mutex;
    d->request = REQUEST_COUNT;
    d->link = link_new(options->nodes, options->redis_timeout_ms, "twinbloom-job");
    enum err code = d->link == NULL ? error_set(e, ERR_NOMEM, "out of memory") : begin(d, e);
    if (code == ERR_OK)
        code = run_steps(d, e);
    driver_end_build(d);
    driver_pace_end(d);
    source_close(d->source);
    free(d->parts);
    record_fini(&d->record);
    fence_fini(&d->fence);
    script_fini(&d->call);
    link_free(d->link);
    free(d);
    return code;
}
