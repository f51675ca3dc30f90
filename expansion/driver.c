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
#include "expansion/memory.h"
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

/* Publish d->next and fence it. A script whose reply was lost may have been executed: the step is tried again
 * after reload(), and finds its phase there. */
static enum err change_view(struct driver *d, bool reset_job, const char *const *job, size_t job_count,
                            struct error *e)
{
    d->next.epoch = d->view.epoch + 1;
    enum err code =
        fence_change(&d->fence, &d->view, &d->next, mutex_value(d->mutex), reset_job, job, job_count, e);
    if (code != ERR_OK)
        return code;
    d->view = d->next;
    log_info("view_changed", "filter=%s epoch=%" PRIu64 " phase=%s", log_quote(d->o->filter), d->view.epoch,
             phase_row(d->view.phase)->name);
    return complete_fence(d, e);
}

/* The alternate generation of d->next leaves the view; its shards lie under the present epoch's names. */
static void retire_slot(struct driver *d, unsigned slot)
{
    d->next.retiring = d->next.slot[slot];
    d->next.retiring_epoch = d->view.epoch;
    d->next.slot[slot] = (struct generation){0};
}

/* --- steps --- */

/* A generation grows when it is full, or when what started the job says so of a part of it. A rebuild for
 * another reason (an operator, a schedule, a loss) must not make it larger each time. */
static bool is_full(const struct driver *d, const struct generation *g, uint64_t items, uint64_t rows)
{
    const char *trigger = d->o->trigger;
    uint64_t most = items > rows ? items : rows;
    return strcmp(trigger, threshold_name(THRESHOLD_SHARD)) == 0 ||
           strcmp(trigger, threshold_name(THRESHOLD_BYTES)) == 0 ||
           (double)most >= d->o->expand_at * (double)g->capacity;
}

static enum err step_plan(struct driver *d, struct error *e)
{
    const struct driver_options *o = d->o;
    const struct generation *current = view_current(&d->view);
    enum err code = driver_source(d, e);
    uint64_t rows = 0, items = 0;
    if (code == ERR_OK)
        code = source_rows_estimate(d->source, &rows, e);
    if (code == ERR_OK)
        code = fence_items(&d->fence, current, 0, &items, e);
    if (code != ERR_OK)
        return code;
    struct plan_input in = {
        .current_capacity = current->built ? current->capacity : o->capacity,
        .source_rows = rows,
        .growth = o->growth,
        .headroom = o->headroom,
        .keep_capacity = !current->built || !is_full(d, current, items, rows),
        .wanted_capacity = o->wanted_capacity,
        .error_rate = o->wanted_error_rate > 0 ? o->wanted_error_rate : o->error_rate,
        .shard_bytes = o->shard_bytes,
        .build_memory = o->build_memory,
        .node_count = o->nodes->count,
        .memory_now = memory_of_view(&d->view),
    };
    struct plan_node nodes[GENERATION_NODES_MAX];
    char warning[256];
    code = plan_make(&d->plan, &in, e);
    if (code == ERR_OK)
        code = memory_of_nodes(d->link, nodes, e);
    if (code == ERR_OK)
        code = plan_fits(&d->plan, nodes, o->nodes->count, warning, e);
    if (code != ERR_OK)
        return code;
    if (warning[0] != '\0')
        log_warn("plan", "filter=%s warning=%s", log_quote(o->filter), log_quote(warning));
    d->record.rows_total = rows;
    log_info("planned",
             "filter=%s rows=%" PRIu64 " capacity=%" PRIu64 " error_rate=%g shards=%u bytes=%" PRIu64
             " passes=%u",
             log_quote(o->filter), rows, d->plan.capacity, d->plan.error_rate, d->plan.geometry.shards,
             d->plan.bytes, d->plan.passes);
    record_begin(d, false);
    record_number(d, "capacity", d->plan.capacity);
    record_number(d, "rows_total", rows);
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
    char generation[24], token[24], started[24], capacity[24], rows[24], now[24];
    (void)snprintf(generation, sizeof(generation), "%" PRIu64, d->next.slot[1 - d->view.current].number);
    (void)snprintf(token, sizeof(token), "%" PRIu64, mutex_token(d->mutex));
    (void)snprintf(started, sizeof(started), "%" PRIu64, d->record.started_ms);
    (void)snprintf(capacity, sizeof(capacity), "%" PRIu64, d->plan.capacity);
    (void)snprintf(rows, sizeof(rows), "%" PRIu64, d->record.rows_total);
    (void)snprintf(now, sizeof(now), "%" PRIu64, clock_wall_us() / 1000);
    const char *job[] = {"state",      "running",    "step",       step_name(STEP_SETTLE),
                         "generation", generation,   "owner",      d->o->owner,
                         "token",      token,        "reason",     d->o->reason,
                         "started_ms", started,      "capacity",   capacity,
                         "rows_total", rows,         "updated_ms", now,
                         "trigger",    d->o->trigger};
    d->next.phase = PHASE_BUILDING;
    return change_view(d, true, job, sizeof(job) / sizeof(job[0]), e);
}

static enum err step_cutover(struct driver *d, struct error *e)
{
    if (d->view.phase == PHASE_SWITCHED)
        return complete_fence(d, e);
    char now[24];
    d->record.switched_ms = clock_wall_us() / 1000;
    (void)snprintf(now, sizeof(now), "%" PRIu64, d->record.switched_ms);
    const char *job[] = {"step", step_name(STEP_FOLLOW), "switched_ms", now};
    d->next = d->view;
    d->next.phase = PHASE_SWITCHED;
    d->next.current = 1 - d->view.current;
    d->next.slot[d->next.current].built = true;
    return change_view(d, false, job, sizeof(job) / sizeof(job[0]), e);
}

static enum err step_grace(struct driver *d, struct error *e)
{
    for (;;) {
        uint64_t now = clock_wall_us() / 1000;
        /* The wall clock may be set back; the wait is for comfort, so never longer than asked for from now
         * on. */
        uint64_t passed = now >= d->record.switched_ms ? now - d->record.switched_ms : 0;
        if (now < d->record.switched_ms)
            d->record.switched_ms = now;
        if (passed >= d->o->grace_ms)
            return ERR_OK;
        enum err code = driver_poll(d, "grace time after the cutover", e);
        if (code != ERR_OK)
            return code;
        clock_sleep_us(NAP_US);
    }
}

static enum err leave_alternate(struct driver *d, enum job_step then, struct error *e)
{
    if (d->view.phase == PHASE_STEADY)
        return complete_fence(d, e);
    const char *job[] = {"step", step_name(then)};
    d->next = d->view;
    d->next.phase = PHASE_STEADY;
    retire_slot(d, 1 - d->view.current);
    return change_view(d, false, job, sizeof(job) / sizeof(job[0]), e);
}

static enum err perform(struct driver *d, struct error *e)
{
    switch (d->step) {
    case STEP_FENCE:
        return complete_fence(d, e);
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
        return driver_verify(d, e);
    case STEP_CUTOVER:
        return step_cutover(d, e);
    case STEP_GRACE:
        return step_grace(d, e);
    case STEP_FINISH:
        return leave_alternate(d, STEP_RETIRE, e);
    case STEP_ABORT:
        return leave_alternate(d, STEP_CLEAR, e);
    case STEP_DONE:
    case STEP_FAILED:
    case STEP_STOPPED:
    case STEP_COUNT:
        break;
    }
    return ERR_OK;
}

/* --- the loop --- */

/* A server is away. Say so where that can be said, wait a little longer each time. */
static enum err wait_and_say(struct driver *d, uint64_t *pause, const struct error *why)
{
    log_warn("job_waits", "filter=%s step=%s why=%s", log_quote(d->o->filter), step_name(d->step),
             log_quote(why->text));
    uint64_t until = clock_mono_us() + *pause;
    *pause = *pause * 2 < RETRY_MAX_US ? *pause * 2 : RETRY_MAX_US;
    while (clock_mono_us() < until) {
        struct error e;
        enum err code = driver_poll(d, why->text, &e);
        if (code == ERR_MUTEX_LOST || code == ERR_BUSY || code == ERR_CANCELLED) {
            d->why = e;
            return code;
        }
        clock_sleep_us(NAP_US);
    }
    return ERR_OK;
}

/* After a wait the view may be another: a change of ours whose reply was lost, or another driver's. */
static enum err reload(struct driver *d, struct error *e)
{
    uint64_t epoch = d->view.epoch, incarnation = d->view.incarnation;
    enum err code = fence_load(&d->fence, &d->next, e);
    if (code != ERR_OK)
        return code == ERR_NOT_FOUND ? error_set(e, ERR_FENCED, "the view is not in Redis any more") : code;
    if (d->next.incarnation != incarnation || d->next.epoch > epoch + 1)
        return error_set(e, ERR_FENCED, "the view moved on from epoch %" PRIu64, epoch);
    d->view = d->next;
    return ERR_OK;
}

static void finish_record(struct driver *d, const char *state, const char *text)
{
    struct error e;
    bool fresh = d->o->wanted && !d->recorded; /* what is there is of another job */
    record_begin_end(d, fresh);
    if (fresh) {
        record_text(d, "trigger", d->o->trigger);
        record_text(d, "owner", d->o->owner);
    }
    record_text(d, "state", state);
    record_text(d, "step", step_name(d->step));
    record_text(d, "error", text);
    record_text(d, "waiting_for", "");
    record_text(d, "reason", d->record.reason);
    record_number(d, "started_ms", d->record.started_ms);
    record_number(d, "finished_ms", clock_wall_us() / 1000);
    record_text(d, "abort_requested", "0");
    if (record_write_end(d, &e) != ERR_OK)
        log_warn("record_not_written", "filter=%s why=%s", log_quote(d->o->filter), log_quote(e.text));
}

/* The job whose record stands at @step had come past its cutover. */
static bool was_switched(enum job_step step)
{
    return step == STEP_FOLLOW || step == STEP_GRACE || step == STEP_FINISH || step == STEP_RETIRE ||
           step == STEP_DONE;
}

static enum job_step after(struct driver *d, enum job_step step, enum err code)
{
    enum job_step next = step_next(step, code);
    if (step == STEP_RECLAIM && code == ERR_OK)
        next = step_resume(&d->view, d->record.generation, d->record.step, d->o->wanted);
    return next;
}

static enum err run_steps(struct driver *d, struct error *e)
{
    enum err failure = ERR_OK;
    uint64_t pause = RETRY_MIN_US;
    d->step = STEP_FENCE;
    while (!step_is_end(d->step)) {
        struct error why = {.text = ""};
        enum err code = record_step(d, d->step, &why);
        if (code == ERR_OK)
            code = perform(d, &why);
        enum job_step next = after(d, d->step, code);
        if (next == d->step && code != ERR_OK) {
            code = wait_and_say(d, &pause, &why);
            if (code == ERR_OK)
                code = reload(d, &why);
            if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT || code == ERR_OK)
                continue;
            if (code == ERR_CANCELLED || code == ERR_BUSY || code == ERR_MUTEX_LOST)
                why = d->why;
            next = step_next(d->step, code);
        }
        if (code != ERR_OK && failure == ERR_OK) {
            failure = code;
            d->why = why;
            log_warn("step_failed", "filter=%s step=%s next=%s why=%s", log_quote(d->o->filter),
                     step_name(d->step), step_name(next), log_quote(why.text));
        }
        if (code == ERR_OK)
            pause = RETRY_MIN_US;
        d->step = next;
    }
    if (failure != ERR_OK)
        *e = d->why;
    if (d->step == STEP_FAILED)
        finish_record(d, failure == ERR_CANCELLED ? "aborted" : "failed", d->why.text);
    else if (d->step == STEP_DONE && !d->o->wanted && d->record.running && d->found == PHASE_STEADY &&
             !was_switched(d->record.step))
        finish_record(d, "failed", "its driver ended before the new generation was in use");
    else if (d->step == STEP_DONE && (d->o->wanted || d->record.running))
        finish_record(d, "done", "");
    return d->step == STEP_DONE ? ERR_OK : failure == ERR_OK ? ERR_CONFLICT : failure;
}

enum err driver_run(const struct driver_options *options, struct mutex *mutex, struct error *e)
{
    struct driver *d = calloc(1, sizeof(*d));
    if (d == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    d->o = options;
    d->mutex = mutex;
    d->link = link_new(options->nodes, options->redis_timeout_ms);
    d->fence.link = d->link;
    d->fence.tombstone_ms = options->tombstone_ms;
    enum err code = d->link == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                    : names_init(&d->fence.names, options->prefix, options->filter,
                                                 options->filter_length, e);
    if (code == ERR_OK)
        code = fence_load(&d->fence, &d->view, e);
    if (code == ERR_OK)
        code = record_read(d, e);
    if (code == ERR_OK) {
        d->found = d->view.phase;
        /* In STEADY the record is of another job: nothing of it concerns a new one. */
        if (d->view.phase == PHASE_STEADY && options->wanted)
            d->record = (struct record){.step = STEP_FENCE};
        if (d->record.started_ms == 0)
            d->record.started_ms = clock_wall_us() / 1000;
        if (d->record.reason[0] == '\0')
            (void)snprintf(d->record.reason, sizeof(d->record.reason), "%s", options->reason);
        log_info("job", "filter=%s phase=%s epoch=%" PRIu64 " token=%" PRIu64 " reason=%s",
                 log_quote(options->filter), phase_row(d->view.phase)->name, d->view.epoch,
                 mutex_token(mutex), log_quote(d->record.reason));
        code = run_steps(d, e);
    }
    builder_free(d->builder);
    source_close(d->source);
    fence_fini(&d->fence);
    script_fini(&d->call);
    link_free(d->link);
    free(d);
    return code;
}
