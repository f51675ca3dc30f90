/* SPDX-License-Identifier: MIT */
/* What happens between two pieces of a job's work: an operator's requests are read, layers that are full get
 * another one, progress is written. */
#include <inttypes.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"

enum {
    CONTROL_US = 200 * 1000,
    REPORT_US = 500 * 1000,
    GROW_US = 500 * 1000,
    GROW_AGAIN_US = 10 * 1000 * 1000, /* after no memory could be had for a layer */
    NAP_US = 50 * 1000,
    ROWS_SHARE = 64 /* of a layer's capacity: rows after which the scan looks whether it is full */
};

/* --- requests --- */

static enum err asked(struct driver *d, enum job_request request, const char *text, struct error *e)
{
    if (step_asked(d->step, request) == STEP_COUNT)
        return ERR_OK;
    d->request = request;
    return error_set(e, ERR_CANCELLED, "%s", text);
}

enum err driver_requests(struct driver *d, struct error *e)
{
    d->controlled_at = clock_mono_us();
    enum err code = control_read(&d->fence, &d->control, e);
    if (code == ERR_OK && d->control.abort)
        code = asked(d, REQUEST_ABORT, "aborted by an operator", e);
    if (code == ERR_OK && d->control.rollback)
        code = asked(d, REQUEST_ROLLBACK, "rolled back by an operator", e);
    if (code == ERR_OK && d->control.finish)
        code = asked(d, REQUEST_FINISH, "finished by an operator", e);
    return code;
}

/* --- layers --- */

static enum err layer_is_full(struct driver *d, const struct generation *g, uint64_t more, bool *full,
                              struct error *e)
{
    uint64_t items = 0;
    unsigned newest = g->layer_count - 1;
    enum err code = fence_items(&d->fence, g, newest, &items, e);
    *full = code == ERR_OK && items + more >= g->layers[newest].capacity;
    return code;
}

/* Keys that the scan has for the newest layer of the generation that is built, beyond what is counted
 * already. */
static uint64_t pending(const struct driver *d, const struct generation *g)
{
    bool same = d->build != NULL && d->layer == g->layer_count - 1;
    return same ? build_pending(d->build) : 0;
}

void driver_scanned(struct driver *d)
{
    const struct generation *g = driver_built(d);
    bool refused = d->grown_at > clock_mono_us(); /* no memory: not before its time */
    if (!refused && d->record.rows - d->looked_at_rows > g->layers[g->layer_count - 1].capacity / ROWS_SHARE)
        d->grown_at = 0;
}

static enum err grow(struct driver *d, struct error *e)
{
    const struct layer_options o = driver_layers(d);
    const struct generation *g = view_current(&d->view);
    bool full = false;
    enum err code = layer_complete(&o, &d->view, &d->next, e);
    if (code == ERR_OK && g->built)
        code = layer_is_full(d, g, d->view.phase == PHASE_SWITCHED ? pending(d, g) : 0, &full, e);
    if (code == ERR_OK && full)
        code = layer_add(&o, &d->view, &d->next, d->view.current, e);
    if (code != ERR_OK || d->view.phase != PHASE_BUILDING)
        return code;
    g = view_alternate(&d->view);
    code = layer_is_full(d, g, pending(d, g), &full, e);
    if (code == ERR_OK && full)
        code = layer_add(&o, &d->view, &d->next, 1 - d->view.current, e);
    return code;
}

/* A layer that cannot be had is no reason to give up: the error rate rises, and status says so. */
static enum err grow_or_say(struct driver *d, struct error *e)
{
    if (d->view.log) /* each coordinator's control sees to that */
        return ERR_OK;
    bool two = d->view.phase == PHASE_BUILDING || d->view.phase == PHASE_SWITCHED;
    if (!two || d->step < STEP_SETTLE || clock_mono_us() < d->grown_at + GROW_US)
        return ERR_OK;
    d->grown_at = clock_mono_us();
    d->looked_at_rows = d->record.rows;
    enum err code = grow(d, e);
    if (code != ERR_REFUSED && code != ERR_RANGE && code != ERR_NOMEM)
        return code;
    log_warn("layer_failed", "filter=%s code=%s error=%s", log_quote(d->o->filter), error_name(code),
             log_quote(e->text));
    d->grown_at += GROW_AGAIN_US;
    record_begin(d, false);
    record_text(d, "growth_refused", e->text);
    return record_write(d, e);
}

/* --- progress --- */

static void report_scan(struct driver *d, uint64_t now)
{
    double rate = (double)d->scan_rows * 1e6 / (double)(now - d->scan_started);
    double left = (double)d->record.rows_total - (double)d->record.rows;
    record_decimal(d, "rate", rate);
    record_number(d, "partitions", d->build == NULL ? 1 : build_partitions(d->build));
    record_number(d, "spilled_bytes", d->build == NULL ? 0 : build_spilled_bytes(d->build));
    record_decimal(d, "eta_seconds", rate > 0 && left > 0 ? left / rate : 0);
}

static void report_rows(struct driver *d)
{
    record_number(d, "rows", d->record.rows);
    record_number(d, "rows_total", d->record.rows_total);
    record_number(d, "skipped_null", d->record.skipped_null);
    record_number(d, "skipped_empty", d->record.skipped_empty);
}

static void report_refill(struct driver *d, uint64_t now)
{
    const struct refill_progress *p = &d->refill;
    double seconds = (double)(now - p->began) / 1e6, rate = seconds > 0 ? (double)p->rows / seconds : 0;
    double left = (double)p->rows_total - (double)p->rows;
    if (p->began == 0)
        return;
    record_number(d, "refill_rows", p->rows);
    record_number(d, "refill_rows_total", p->rows_total);
    record_decimal(d, "refill_rate", rate);
    record_decimal(d, "refill_eta_seconds", rate > 0 && left > 0 ? left / rate : 0);
}

static enum err report(struct driver *d, const char *waiting_for, struct error *e)
{
    uint64_t now = clock_mono_us();
    if (now - d->reported_at < REPORT_US)
        return ERR_OK;
    d->reported_at = now;
    record_begin(d, false);
    record_text(d, "waiting_for", waiting_for);
    record_text(d, "throttle", driver_pace_throttle(d));
    if (d->step == STEP_REFILL)
        report_refill(d, now);
    else if (d->step >= STEP_SETTLE && /* nothing is read before; a check, and healing, leave what is known of
                                          the last expansion */
             d->step != STEP_CHECK && d->step != STEP_HEAL)
        report_rows(d);
    if (d->scan_started != 0 && d->step == STEP_SCAN && now > d->scan_started)
        report_scan(d, now);
    return record_write(d, e);
}

/* --- polling --- */

enum err driver_look(struct driver *d, const char *waiting_for, struct error *e)
{
    if (mutex_lost(d->mutex))
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex_value(d->mutex));
    if (atomic_load(d->o->stop))
        return error_set(e, ERR_BUSY, "the coordinator is stopping; another one continues the job");
    enum err code = ERR_OK;
    if (clock_mono_us() - d->controlled_at >= CONTROL_US) {
        /* A job that only waits would keep the mutex from whoever has to make a lost view anew. */
        code = fence_look(&d->fence, &d->view, e);
        if (code == ERR_OK)
            code = driver_requests(d, e);
        if (code == ERR_OK)
            code = driver_look_at_masters(d, e);
    }
    return code == ERR_OK ? report(d, waiting_for, e) : code;
}

enum err driver_watch(struct driver *d, const char *waiting_for, struct error *e)
{
    enum err code = driver_look(d, waiting_for, e);
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT)
        return ERR_OK;
    return code == ERR_OK ? grow_or_say(d, e) : code;
}

enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e)
{
    enum err code = driver_look(d, waiting_for, e);
    if (code == ERR_OK)
        code = grow_or_say(d, e);
    bool paused = d->control.paused && d->readers != NULL;
    if (paused)
        (void)readers_rest(d->readers);
    while (code == ERR_OK && d->control.paused) {
        clock_sleep_us(NAP_US);
        code = driver_look(d, "an operator to resume", e);
        if (code == ERR_OK)
            code = grow_or_say(d, e);
    }
    if (paused)
        readers_go_on(d->readers);
    return code;
}

enum err driver_nap(struct driver *d, const char *waiting_for, struct error *e)
{
    clock_sleep_us(NAP_US);
    return driver_poll(d, waiting_for, e);
}
