/* SPDX-License-Identifier: MIT */
/* Reads job records: TB.HISTORY, the fields of TB.STATUS about the last job, GET /v1/jobs/{job}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "expansion/record/history.h"
#include "expansion/record/mutex.h"
#include "service/admin/admin.h"
#include "service/protocol/field.h"
#include "service/protocol/list.h"

/* --- TB.STATUS --- */

/* Fields in this order; a record's other fields are for drivers. */
static const struct job_field {
    const char *record, *name;
    enum history_kind kind;
} job_fields[] = {
    {"state", "job_state", HISTORY_TEXT},
    {"id", "job_id", HISTORY_JOB_ID},
    {"step", "job_step", HISTORY_TEXT},
    {"trigger", "job_trigger", HISTORY_TEXT},
    {"reason", "job_reason", HISTORY_TEXT},
    {"error", "job_error", HISTORY_TEXT},
    {"error_code", "job_error_code", HISTORY_TEXT},
    {"waiting_for", "job_waiting_for", HISTORY_TEXT},
    {"throttle", "job_throttle_reason", HISTORY_TEXT},
    {"rows_per_second", "job_rows_per_second_limit", HISTORY_COUNT},
    {"checkpoint_rows", "job_checkpoint_rows", HISTORY_COUNT},
    {"hold", "job_hold", HISTORY_FLAG},
    {"paused", "job_paused", HISTORY_FLAG},
    {"rows", "job_rows", HISTORY_COUNT},
    {"rows_total", "job_rows_total", HISTORY_COUNT},
    {"rate", "job_rows_per_second", HISTORY_DECIMAL},
    {"eta_seconds", "job_eta_seconds", HISTORY_DECIMAL},
    {"scan_rows", "job_scan_rows", HISTORY_COUNT},
    {"scan_seconds", "job_scan_seconds", HISTORY_DECIMAL},
    {"skipped_null", "job_skipped_null", HISTORY_COUNT},
    {"caught_up_by", "job_caught_up_by", HISTORY_TEXT},
    {"generation_from", "job_generation_from", HISTORY_COUNT},
    {"generation", "job_generation", HISTORY_COUNT},
    {"capacity", "job_capacity", HISTORY_COUNT},
    {"nodes", "job_nodes", HISTORY_TEXT},
    {"partitions", "job_partitions", HISTORY_COUNT},
    {"spilled_bytes", "job_spilled_bytes", HISTORY_COUNT},
    {"cutover_us", "job_cutover_us", HISTORY_COUNT},
    {"verify_ok", "job_verify_ok", HISTORY_FLAG},
    {"verify_mode", "job_verify_mode", HISTORY_TEXT},
    {"verify_generation", "job_verify_generation", HISTORY_COUNT},
    {"verified", "job_verified_keys", HISTORY_COUNT},
    {"verify_items", "job_verify_keys", HISTORY_COUNT},
    {"verify_rows", "job_verify_rows", HISTORY_COUNT},
    {"verify_missing", "job_verify_missing", HISTORY_COUNT},
    {"verify_added", "job_verify_added", HISTORY_COUNT},
    {"verify_missing_keys", "job_verify_missing_keys", HISTORY_TEXT},
    {"verify_reason", "job_verify_reason", HISTORY_TEXT},
    {"false_positive_rate", "job_false_positive_rate", HISTORY_DECIMAL},
    {"dead_at_build", "job_dead_keys_at_build", HISTORY_COUNT},
    {"dead_generation", "job_dead_generation", HISTORY_COUNT},
    {"healed", "job_healed", HISTORY_TEXT},
    {"started_ms", "job_started_at", HISTORY_TIME_MS},
    {"updated_ms", "job_updated_at", HISTORY_TIME_MS},
    {"switched_ms", "job_switched_at", HISTORY_TIME_MS},
    {"grace_until_ms", "job_grace_ends_at", HISTORY_TIME_MS},
    {"finished_ms", "job_finished_at", HISTORY_TIME_MS},
    {"owner", "job_owner", HISTORY_TEXT},
    {"token", "job_token", HISTORY_COUNT},
};

/* A number that is unknown is empty in the record, and is omitted. */
static void put_value(struct fields *f, const char *filter, size_t length, const char *name,
                      enum history_kind kind, const char *value)
{
    uint64_t n = 0;
    double decimal;
    bool whole = number_u64(value, strlen(value), &n);
    switch (kind) {
    case HISTORY_TEXT:
        field_text(f, name, value);
        return;
    case HISTORY_COUNT:
        if (whole && n <= INT64_MAX)
            field_number(f, name, n);
        return;
    case HISTORY_DECIMAL:
        if (number_double(value, strlen(value), &decimal))
            field_decimal(f, name, decimal);
        return;
    case HISTORY_FLAG:
        field_bool(f, name, strcmp(value, "1") == 0);
        return;
    case HISTORY_TIME_MS:
        if (whole && n <= INT64_MAX)
            field_time(f, name, n);
        return;
    case HISTORY_JOB_ID:
        if (whole)
            field_job_id(f, filter, length, n);
        return;
    }
}

static const char *find(const redisReply *record, const char *field)
{
    const redisReply *value = list_field(record, field);
    return value == NULL ? NULL : value->str;
}

/* The result of the last verification of the generation in use; *@when: its time, ms. */
static const char *verified(const redisReply *record, const struct view *v, uint64_t stale_ms, uint64_t *when)
{
    const char *text = find(record, v->current == 0 ? "verification0" : "verification1");
    const char *blank = text == NULL ? NULL : strchr(text, ' ');
    uint64_t of = 0, now = clock_wall_us() / 1000;
    *when = 0;
    if (blank == NULL || !number_u64(text, (size_t)(blank - text), &of) || of != view_current(v)->number ||
        strlen(blank) < sizeof(" 1 1") - 1 || !number_u64(blank + 3, strlen(blank + 3), when))
        return "never";
    if (blank[1] != '1')
        return "failed";
    return now > *when && now - *when > stale_ms ? "stale" : "passed";
}

enum err admin_job_fields(struct fields *f, struct admin *a, const char *name, size_t length, bool held,
                          struct error *e)
{
    SCOPED(scope_reply) redisReply *record = NULL;
    uint64_t when;
    enum err code = sync_client_filter_command(a->redis, &a->handle.names, "job", "HGETALL %b", &record, e);
    if (code != ERR_OK)
        return code;
    field_text(f, "verification", verified(record, &a->view, a->config->verify_stale_ms, &when));
    field_time(f, "verified_at", when);
    for (size_t i = 0; i < sizeof(job_fields) / sizeof(job_fields[0]); i++) {
        const char *value = find(record, job_fields[i].record);
        if (i == 0 && value == NULL)
            value = "none";
        else if (i == 0 && strcmp(value, "running") == 0 && !held)
            value = "waiting"; /* waiting for a driver */
        if (value != NULL)
            put_value(f, name, length, job_fields[i].name, job_fields[i].kind, value);
    }
    return ERR_OK;
}

/* --- TB.HISTORY --- */

static enum err read_entries(struct admin *a, const struct admin_call *call, redisReply **entries,
                             struct error *e)
{
    struct key_name name;
    uint64_t most = call->count == 0 || call->count > HISTORY_ENTRIES_MAX ? HISTORY_ENTRIES_MAX : call->count;
    enum err code = admin_open(a, call, e);
    if (code == ERR_NOT_FOUND && config_find(a->config, call->filter, call->filter_length) != NULL)
        code = ERR_OK; /* lost, or not made yet */
    if (code != ERR_OK)
        return code;
    names_filter_key(&a->handle.names, "history", &name);
    return sync_client_command(a->redis, handle_home(&a->handle), entries, e, "LRANGE %b 0 %d", name.text,
                               name.length, (int)most - 1);
}

enum err admin_history(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    SCOPED(scope_reply) redisReply *entries = NULL;
    enum err code = read_entries(a, call, &entries, e);
    if (code != ERR_OK)
        return code;
    reply_array(r, entries->elements);
    for (size_t i = 0; i < entries->elements; i++) {
        struct fields f;
        struct history_pair pair;
        const char *at = entries->element[i]->str, *end = at + entries->element[i]->len;
        fields_begin(&f, r->protocol);
        while (history_next(&at, end, &pair))
            put_value(&f, call->filter, call->filter_length, pair.field->shown, pair.field->kind, pair.value);
        fields_end(&f, r);
    }
    return ERR_OK;
}

/* --- GET /v1/jobs/{job} --- */

/* Search a job where it can be, in the order in which it appears there: its mutex names it from the start,
 * the record once a step has begun, the history after its end. */

/* The members of the answer behind the id, in this order. */
enum { ID, STATE, STEP, TRIGGER, REASON, OWNER, ROWS, ROWS_TOTAL, STARTED, FINISHED, ERROR, MEMBERS };
static const struct member {
    const char *record, *entry; /* names in the record and in the history; NULL: not there */
    const char *shown;
    enum history_kind kind;
} members[MEMBERS] = {
    [ID] = {"id", "job_id", "job_id", HISTORY_JOB_ID},
    [STATE] = {"state", "outcome", "state", HISTORY_TEXT},
    [STEP] = {"step", NULL, "step", HISTORY_TEXT},
    [TRIGGER] = {"trigger", "trigger", "trigger", HISTORY_TEXT},
    [REASON] = {"reason", "reason", "reason", HISTORY_TEXT},
    [OWNER] = {"owner", "owner", "owner", HISTORY_TEXT},
    [ROWS] = {"rows", "rows", "rows", HISTORY_COUNT},
    [ROWS_TOTAL] = {"rows_total", NULL, "rows_total", HISTORY_COUNT},
    [STARTED] = {"started_ms", "started_ms", "started_at", HISTORY_TIME_MS},
    [FINISHED] = {NULL, "finished_ms", "finished_at", HISTORY_TIME_MS},
    [ERROR] = {"error", "error", "error", HISTORY_TEXT},
};

struct job {
    char value[MEMBERS][HISTORY_VALUE_MAX]; /* "": unknown */
};

static void take(struct job *j, bool in_record, const char *name, const char *value)
{
    for (size_t i = 0; i < MEMBERS; i++) {
        const char *is = in_record ? members[i].record : members[i].entry;
        if (is != NULL && strcmp(is, name) == 0)
            (void)snprintf(j->value[i], sizeof(j->value[i]), "%s", value);
    }
}

static bool has_id(const struct job *j, uint64_t id)
{
    uint64_t is = 0;
    return number_u64(j->value[ID], strlen(j->value[ID]), &is) && is == id;
}

/* A job that has ended is read from the history. */
static enum err look_at_record(struct admin *a, struct job *j, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_filter_command(a->redis, &a->handle.names, "job", "HGETALL %b", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i + 1 < reply->elements; i += 2)
        take(j, true, reply->element[i]->str, reply->element[i + 1]->str);
    enum job_step step; /* rows are those of the last scan: not of a job without a scan */
    if (!step_parse(j->value[STEP], strlen(j->value[STEP]), &step) || step == STEP_CHECK)
        j->value[ROWS][0] = '\0';
    return ERR_OK;
}

static enum err look_at_history(struct admin *a, uint64_t id, struct job *j, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code =
        sync_client_filter_command(a->redis, &a->handle.names, "history", "LRANGE %b 0 -1", &reply, e);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < reply->elements && !has_id(j, id); i++) {
        struct history_pair pair;
        const char *at = reply->element[i]->str;
        *j = (struct job){0};
        while (history_next(&at, reply->element[i]->str + reply->element[i]->len, &pair))
            take(j, false, pair.field->name, pair.value);
    }
    return ERR_OK;
}

static enum err look(struct admin *a, uint64_t id, struct job *j, struct error *e)
{
    struct mutex_found mutex;
    enum err code = mutex_read(a->redis, &a->handle.names, &mutex, e);
    if (code == ERR_OK)
        code = look_at_record(a, j, e);
    if (code != ERR_OK)
        return code;
    if (has_id(j, id) && strcmp(j->value[STATE], "running") == 0) {
        (void)snprintf(j->value[STATE], sizeof(j->value[STATE]), "%s",
                       mutex.value[0] != '\0' ? "running" : "waiting");
        return ERR_OK;
    }
    *j = (struct job){0};
    code = look_at_history(a, id, j, e);
    if (code != ERR_OK || has_id(j, id))
        return code;
    if (!mutex_is_of(mutex.value, id))
        return error_set(e, ERR_NOT_FOUND,
                         "the filter has no job with this id: it is older than the last %d, or ended before "
                         "its first step",
                         HISTORY_ENTRIES_MAX);
    *j = (struct job){.value = {[STATE] = "running", [STEP] = "begin"}};
    return ERR_OK;
}

enum err admin_job(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct job *j = &(struct job){0};
    struct fields f;
    enum err code = names_init(&a->handle.names, a->config->prefix, call->filter, call->filter_length, e);
    if (code == ERR_OK)
        code = look(a, call->job, j, e);
    if (code != ERR_OK)
        return code;
    if (j->value[FINISHED][0] != '\0')
        j->value[STEP][0] = '\0';
    if (j->value[ROWS][0] == '\0' || strcmp(j->value[ROWS_TOTAL], "0") == 0)
        j->value[ROWS_TOTAL][0] = '\0';
    fields_begin(&f, r->protocol);
    field_job_id(&f, call->filter, call->filter_length, call->job);
    field_bytes(&f, "filter", call->filter, call->filter_length);
    for (size_t i = STATE; i < MEMBERS; i++)
        if (j->value[i][0] == '\0')
            field_null(&f, members[i].shown);
        else
            put_value(&f, call->filter, call->filter_length, members[i].shown, members[i].kind, j->value[i]);
    fields_end(&f, r);
    return ERR_OK;
}
