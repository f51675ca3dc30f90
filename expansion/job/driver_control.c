/* SPDX-License-Identifier: MIT */
/* What happens between two pieces of a job's work: read an operator's requests, write progress. */
#include "base/clock.h"
#include "expansion/job/driver_internal.h"

enum { CONTROL_US = 200 * 1000, REPORT_US = 500 * 1000, NAP_US = 50 * 1000 };

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
    enum err code = control_read(&d->handle, &d->control, e);
    if (code == ERR_OK && d->control.abort)
        code = asked(d, REQUEST_ABORT, "aborted by an operator", e);
    if (code == ERR_OK && d->control.rollback)
        code = asked(d, REQUEST_ROLLBACK, "rolled back by an operator", e);
    if (code == ERR_OK && d->control.finish)
        code = asked(d, REQUEST_FINISH, "finished by an operator", e);
    return code;
}

/* --- progress --- */

static void report_scan(struct driver *d, uint64_t now)
{
    double rate = (double)d->scan_rows * 1e6 / (double)(now - d->scan_started);
    double left = (double)d->record.rows_total - (double)d->record.rows;
    record_decimal(d, "rate", rate);
    if (d->build != NULL) /* a pause ends it */
        record_number(d, "partitions", build_partitions(d->build));
    record_number(d, "spilled_bytes", d->build == NULL ? 0 : build_spilled_bytes(d->build));
    record_decimal(d, "eta_seconds", rate > 0 && left > 0 ? left / rate : 0);
}

static enum err report(struct driver *d, const char *waiting_for, struct error *e)
{
    uint64_t now = clock_mono_us();
    if (now - d->reported_at < REPORT_US)
        return ERR_OK;
    d->reported_at = now;
    record_begin(d, false);
    if (waiting_for != NULL)
        record_text(d, "waiting_for", waiting_for);
    record_text(d, "throttle", driver_pace_throttle(d));
    /* Before the settle nothing is read. A check keeps the last expansion's figures. */
    if (d->step >= STEP_SETTLE && d->step != STEP_CHECK) {
        record_number(d, "rows", d->record.rows);
        record_number(d, "rows_total", d->record.rows_total);
        record_number(d, "skipped_null", d->record.skipped_null);
    }
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
        d->controlled_at = clock_mono_us();
        /* A job that only waits must not keep the mutex from a coordinator that has to recreate a lost
         * view. */
        code = handle_look(&d->handle, &d->view, e);
        if (code == ERR_OK)
            code = driver_requests(d, e);
    }
    if (code == ERR_OK)
        code = report(d, waiting_for, e);
    /* Where Redis is away, work that needs it says so, and other work goes on. */
    return step_waits(code) ? ERR_OK : code;
}

/* A pause may be long, so the process's right to build is given back; driver_begin_build() takes it again. */
enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e)
{
    enum err code = driver_look(d, waiting_for, e);
    bool paused = d->control.paused && d->readers != NULL;
    if (paused)
        (void)readers_rest(d->readers);
    if (code == ERR_OK && d->control.paused && d->built_here && (code = driver_checkpoint(d, e)) == ERR_OK)
        driver_end_build(d);
    bool waited = atomic_load(d->o->waits);
    while (code == ERR_OK && d->control.paused) {
        atomic_store(d->o->waits, true);
        clock_sleep_us(NAP_US);
        code = driver_look(d, "an operator to resume", e);
    }
    atomic_store(d->o->waits, waited);
    if (paused)
        readers_go_on(d->readers);
    return code;
}

enum err driver_nap(struct driver *d, const char *waiting_for, struct error *e)
{
    clock_sleep_us(NAP_US);
    return driver_poll(d, waiting_for, e);
}
