/* SPDX-License-Identifier: MIT */
/* The job's record, P:{F}:job: progress for people, checkpoint for the next driver. Written only under the
 * mutex. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/number.h"
#include "expansion/driver_internal.h"
#include "expansion/history.h"
#include "shard/script.h"

enum { REPORT_US = 500 * 1000 };

static bool is(const redisReply *name, const char *field)
{
    return (size_t)name->len == strlen(field) && memcmp(name->str, field, (size_t)name->len) == 0;
}

static void take_text(char *out, size_t size, const redisReply *value)
{
    (void)snprintf(out, size, "%s", value->str);
}

static void take_field(struct record *r, const redisReply *name, const redisReply *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } numbers[] = {
        {"generation", offsetof(struct record, generation)},
        {"checkpoint_rows", offsetof(struct record, rows)},
        {"rows_total", offsetof(struct record, rows_total)},
        {"skipped_null", offsetof(struct record, skipped_null)},
        {"skipped_empty", offsetof(struct record, skipped_empty)},
        {"started_ms", offsetof(struct record, started_ms)},
        {"switched_ms", offsetof(struct record, switched_ms)},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (is(name, numbers[i].name)) {
            (void)number_u64(value->str, (size_t)value->len, (uint64_t *)((char *)r + numbers[i].offset));
            return;
        }
    uint64_t number = 0;
    if (is(name, "step"))
        (void)step_parse(value->str, (size_t)value->len, &r->step);
    else if (is(name, "state"))
        r->running = is(value, "running");
    else if (is(name, "settled"))
        r->settled = is(value, "1");
    else if (is(name, "scan_ended"))
        r->scan_ended = is(value, "1");
    else if (is(name, "checkpoint_passes") && number_u64(value->str, (size_t)value->len, &number))
        r->passes = (unsigned)number;
    else if (is(name, "checkpoint_pass") && number_u64(value->str, (size_t)value->len, &number))
        r->pass = (unsigned)number;
    else if (is(name, "last_id"))
        take_text(r->last_id, sizeof(r->last_id), value);
    else if (is(name, "low_water"))
        take_text(r->low_water, sizeof(r->low_water), value);
    else if (is(name, "upto"))
        take_text(r->upto, sizeof(r->upto), value);
    else if (is(name, "reason"))
        take_text(r->reason, sizeof(r->reason), value);
}

enum err record_read(struct driver *d, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    names_filter_key(&d->fence.names, "job", &name);
    enum err code = link_command(d->link, NODE_HOME, &reply, e, "HGETALL %b", name.text, name.length);
    if (code != ERR_OK)
        return code;
    d->record = (struct record){.step = STEP_FENCE};
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        take_field(&d->record, reply->element[i], reply->element[i + 1]);
    freeReplyObject(reply);
    return ERR_OK;
}

static void add_key(struct driver *d, const char *what)
{
    struct key_name name;
    names_filter_key(&d->fence.names, what, &name);
    script_key(&d->call, &name);
}

/* The count of job arguments is known at the end only: the arguments are gathered in `pairs` of the script's
 * form with room for it, "0" padded to a fixed width, so that it can be filled in afterwards. */
enum { COUNT_ARGUMENT = 5, COUNT_WIDTH = 6 };

/* @script has the form of job.lua up to the job pairs. */
static void begin(struct driver *d, const char *script, const char *third_key, bool reset)
{
    script_begin(&d->call, script);
    add_key(d, "expansion_flag");
    add_key(d, "job");
    add_key(d, third_key);
    script_text(&d->call, mutex_value(d->mutex));
    script_text(&d->call, reset ? "1" : "0");
    script_text(&d->call, "000000");
    d->record_pairs = 0;
    record_number(d, "updated_ms", clock_wall_us() / 1000);
}

void record_begin(struct driver *d, bool reset)
{
    begin(d, embedded_job, "count", reset);
}

void record_begin_end(struct driver *d, bool reset)
{
    begin(d, embedded_finish, "history", reset);
}

void record_text(struct driver *d, const char *field, const char *value)
{
    script_text(&d->call, field);
    script_text(&d->call, value);
    d->record_pairs += 2;
}

void record_number(struct driver *d, const char *field, uint64_t value)
{
    script_text(&d->call, field);
    script_number(&d->call, value);
    d->record_pairs += 2;
}

void record_decimal(struct driver *d, const char *field, double value)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%.6g", value);
    record_text(d, field, text);
}

void record_count(struct driver *d, const char *field, uint64_t n)
{
    script_text(&d->call, field);
    script_number(&d->call, n);
}

enum err record_write(struct driver *d, struct error *e)
{
    char count[COUNT_WIDTH + 1];
    (void)snprintf(count, sizeof(count), "%0*zu", COUNT_WIDTH, d->record_pairs);
    if (!buffer_failed(&d->call.bytes))
        memcpy(d->call.bytes.data + d->call.offset[COUNT_ARGUMENT], count, COUNT_WIDTH);
    long long answer;
    enum err code = script_run(&d->call, d->link, NODE_HOME, &answer, e);
    if (code == ERR_OK && answer != 1)
        code = error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex_value(d->mutex));
    return code;
}

enum err record_write_end(struct driver *d, struct error *e)
{
    script_number(&d->call, HISTORY_ENTRIES_MAX);
    for (size_t i = 0; i < history_field_count; i++) {
        script_text(&d->call, history_fields[i].name);
        script_text(&d->call, history_fields[i].record);
    }
    return record_write(d, e);
}

enum err record_step(struct driver *d, enum job_step step, struct error *e)
{
    if (step < STEP_PLAN)
        return ERR_OK;
    bool fresh = step == STEP_PLAN && !d->recorded;
    record_begin(d, fresh);
    record_text(d, "step", step_name(step));
    record_text(d, "state", "running");
    record_text(d, "waiting_for", "");
    record_text(d, "owner", d->o->owner);
    record_number(d, "token", mutex_token(d->mutex));
    if (fresh) {
        record_text(d, "reason", d->o->reason);
        record_text(d, "trigger", d->o->trigger);
        record_number(d, "started_ms", d->record.started_ms);
    }
    if (step <= STEP_CUTOVER && d->view.phase != PHASE_SWITCHED) /* the one that serves until then */
        record_number(d, "generation_from", view_current(&d->view)->number);
    enum err code = record_write(d, e);
    d->recorded = d->recorded || code == ERR_OK;
    return code;
}

/* Where nothing was published yet a job just ends; between `settle` and `verify` its generation leaves the
 * view. */
static bool may_abort(enum job_step step)
{
    return step == STEP_PLAN || step == STEP_CREATE || (step >= STEP_SETTLE && step <= STEP_VERIFY);
}

enum err driver_abort_asked(struct driver *d, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    names_filter_key(&d->fence.names, "job", &name);
    enum err code =
        link_command(d->link, NODE_HOME, &reply, e, "HGET %b abort_requested", name.text, name.length);
    if (code != ERR_OK)
        return code;
    if (reply->type == REDIS_REPLY_STRING && is(reply, "1")) {
        d->aborting = true;
        code = error_set(e, ERR_CANCELLED, "aborted by an operator");
    }
    freeReplyObject(reply);
    return code;
}

enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e)
{
    if (mutex_lost(d->mutex))
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex_value(d->mutex));
    if (atomic_load(d->o->stop))
        return error_set(e, ERR_BUSY, "the coordinator is stopping; another one goes on from here");
    uint64_t now = clock_mono_us();
    if (now - d->reported_at < REPORT_US)
        return ERR_OK;
    d->reported_at = now;
    record_begin(d, false);
    record_text(d, "waiting_for", waiting_for);
    record_number(d, "rows", d->record.rows);
    record_number(d, "rows_total", d->record.rows_total);
    record_number(d, "skipped_null", d->record.skipped_null);
    record_number(d, "skipped_empty", d->record.skipped_empty);
    record_number(d, "pass", d->record.pass);
    if (d->scan_started != 0 && d->step == STEP_SCAN && now > d->scan_started) {
        double rate = (double)d->scan_rows * 1e6 / (double)(now - d->scan_started);
        unsigned passes = d->builder == NULL ? 1 : builder_passes(d->builder);
        double left = (double)d->record.rows_total * passes - (double)d->record.rows;
        record_decimal(d, "rate", rate);
        record_number(d, "passes", passes);
        record_decimal(d, "eta_seconds", rate > 0 && left > 0 ? left / rate : 0);
    }
    enum err code = record_write(d, e);
    return code == ERR_OK && may_abort(d->step) && !d->aborting ? driver_abort_asked(d, e) : code;
}
