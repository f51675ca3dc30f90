/* SPDX-License-Identifier: MIT */
/* The job's record, P:{F}:job: progress for people, a checkpoint for the next driver. Written only under the
 * mutex, except for operators' requests (control.h). */
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"
#include "expansion/record/history.h"

extern const char embedded_finish[], embedded_job[];

/* A field that no driver wrote must not make the job skip rows: the driver settles and scans from the
 * beginning, or compares each row where the generation is in use. */
static void distrust(struct driver *d, const char *broken)
{
    log_warn("checkpoint_invalid", "filter=%s field=%s note=\"all rows are read again\"",
             log_quote(d->o->filter), log_quote(broken));
    d->record.generation = 0;
    if (d->view.phase == PHASE_SWITCHED)
        driver_distrust(d, "the record of its build is damaged");
}

enum err record_read(struct driver *d, struct error *e)
{
    char broken[RECORD_FIELD_MAX];
    enum err code = record_load(&d->handle, &d->record, broken, e);
    if (code == ERR_OK && broken[0] != '\0')
        distrust(d, broken);
    return code;
}

/* Begin @script, whose arguments are those of job.lua up to the job pairs. @third_key NULL: none. */
static void begin(struct driver *d, const char *script, const char *third_key, bool reset)
{
    script_begin(&d->call, script);
    script_filter_key(&d->call, &d->handle.names, "expansion_flag");
    script_filter_key(&d->call, &d->handle.names, "job");
    if (third_key != NULL)
        script_filter_key(&d->call, &d->handle.names, third_key);
    script_text(&d->call, mutex_value(d->mutex));
    script_text(&d->call, reset ? "1" : "0");
    record_number(d, "updated_ms", clock_wall_us() / 1000);
}

void record_begin(struct driver *d, bool reset)
{
    begin(d, embedded_job, NULL, reset);
}

void record_text(struct driver *d, const char *field, const char *value)
{
    script_field(&d->call, field, value);
}

void record_number(struct driver *d, const char *field, uint64_t value)
{
    script_number_field(&d->call, field, value);
}

static void add_field(void *arg, const char *field, const char *value)
{
    record_text(arg, field, value);
}

void record_checkpoint(struct driver *d, const struct record *at, bool settled)
{
    checkpoint_each(at, settled, add_field, d);
    record_number(d, "rows", at->rows);
}

void record_caught_up(struct driver *d)
{
    checkpoint_marks(&d->record, add_field, d);
    record_text(d, "swept", d->record.swept);
    record_text(d, "newest", d->record.newest);
    record_number(d, "source", d->record.source);
}

void record_decimal(struct driver *d, const char *field, double value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.6g", value);
    record_text(d, field, text);
}

enum err record_write(struct driver *d, struct error *e)
{
    long long answer;
    enum err code = script_run(&d->call, d->redis, handle_home(&d->handle), &answer, e);
    if (code == ERR_OK && answer != 1)
        code = error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex_value(d->mutex));
    return code;
}

/* A check keeps what is known of the last expansion. */
static void begin_job(struct driver *d, enum job_step step)
{
    record_text(d, "reason", d->o->reason);
    record_text(d, "trigger", d->o->trigger);
    record_number(d, "started_ms", d->record.started_ms);
    record_text(d, "verify_full", d->record.verify_full ? "1" : "0");
    if (step == STEP_CHECK) {
        record_text(d, "error", "");
        record_text(d, "healed", "");
        record_text(d, "verified", "");
        record_text(d, "false_positive_rate", "");
        return;
    }
    record_text(d, "hold", d->o->hold ? "1" : "0");
}

/* Write until when a rollback is possible; "": it is not, or the generation in use failed its
 * verification. */
static void put_end_of_grace(struct driver *d, enum job_step step)
{
    const struct generation *former = step == STEP_GRACE ? view_alternate(&d->view) : NULL;
    if (former != NULL && former->built && !d->unconfirmed)
        record_number(d, "grace_until_ms", d->record.switched_ms + d->o->grace_ms);
    else
        record_text(d, "grace_until_ms", "");
}

enum err record_step(struct driver *d, enum job_step step, struct error *e)
{
    if (step < STEP_PLAN)
        return ERR_OK;
    bool fresh = (step == STEP_PLAN || (d->found_quiet && step == STEP_CHECK)) && !d->recorded;
    record_begin(d, fresh && step == STEP_PLAN);
    record_text(d, "step", step_name(step));
    record_text(d, "state", "running");
    if (!d->tries_again)
        record_text(d, "waiting_for", "");
    put_end_of_grace(d, step);
    if (step == STEP_ROLLBACK)
        record_text(d, "unconfirmed", d->unconfirmed ? "1" : "0");
    record_number(d, "id", d->record.id);
    record_text(d, "owner", d->o->owner);
    record_number(d, "token", mutex_token(d->mutex));
    if (fresh)
        begin_job(d, step);
    if (step == STEP_CONFIRM && d->record.healed[0] != '\0') {
        record_text(d, "healed", d->record.healed);
        record_text(d, "verify_full", "1");
    }
    if (d->cutover_us != 0)
        record_number(d, "cutover_us", d->cutover_us);
    d->cutover_us = 0;
    if (step <= STEP_CUTOVER && d->view.phase != PHASE_SWITCHED) /* in service until the cutover */
        record_number(d, "generation_from", view_current(&d->view)->number);
    enum err code = record_write(d, e);
    d->recorded = d->recorded || code == ERR_OK;
    return code;
}

/* The script that writes the end into the record also adds the history's entry. */
static enum err write_end(struct driver *d, bool of_build, struct error *e)
{
    script_text(&d->call, ""); /* the end of the job pairs */
    script_number(&d->call, HISTORY_ENTRIES_MAX);
    for (size_t i = 0; i < history_field_count; i++) {
        if (!of_build && history_fields[i].of_build)
            continue; /* these fields of the record are of the last build */
        script_field(&d->call, history_fields[i].name, history_fields[i].record);
    }
    return record_write(d, e);
}

static void put_end(struct driver *d, const char *state, enum err code, const char *text)
{
    static const char *const asked[] = {"abort", "hold", "rollback", "finish", "paused", "rows_per_second"};
    record_text(d, "state", state);
    record_text(d, "error", text);
    record_text(d, "error_code", code == ERR_OK ? "" : error_name(code));
    record_text(d, "waiting_for", "");
    record_number(d, "finished_ms", clock_wall_us() / 1000);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        record_text(d, asked[i], "0");
}

const char record_orphaned[] = "the coordinator that ran this job ended before the job did";

enum err record_end_former(struct driver *d, struct error *e)
{
    const struct record *r = &d->record;
    begin(d, embedded_finish, "history", false);
    if (!step_is_switched(r->step))
        put_end(d, "failed", ERR_CANCELLED, record_orphaned);
    else
        put_end(d, r->healed[0] != '\0' ? "healed" : "done", ERR_OK, r->healed);
    return write_end(d, r->step != STEP_CHECK, e);
}

void record_end(struct driver *d, const char *state, enum err code, const char *text)
{
    struct error e;
    /* The record is another job's. */
    bool fresh = d->found_quiet && d->o->kind == JOB_EXPAND && !d->recorded;
    begin(d, embedded_finish, "history", fresh);
    if (fresh) {
        record_text(d, "trigger", d->o->trigger);
        record_text(d, "owner", d->o->owner);
    }
    record_number(d, "id", d->record.id);
    record_text(d, "step", step_name(d->step));
    record_text(d, "reason", d->record.reason);
    record_number(d, "started_ms", d->record.started_ms);
    put_end(d, state, code, text);
    /* Also a check that this driver has taken over. */
    bool checked = d->found_quiet && (d->o->kind == JOB_CHECK || d->record.step == STEP_CHECK);
    enum err unwritten = write_end(d, !checked, &e);
    if (unwritten != ERR_OK)
        log_warn("job_record_not_written", "filter=%s code=%s error=%s", log_quote(d->o->filter),
                 error_name(unwritten), log_quote(e.text));
}
