/* SPDX-License-Identifier: MIT */
/* What TB.STATUS says of a job: fields of its record in Redis, under the names that users see. */
#include <string.h>
#include "base/number.h"
#include "service/admin/admin.h"
#include "service/core/field.h"

/* In this order. What a record has beside these is for drivers. */
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
    {"skipped_empty", "job_skipped_empty", HISTORY_COUNT},
    {"caught_up_by", "job_caught_up_by", HISTORY_TEXT},
    {"generation_from", "job_generation_from", HISTORY_COUNT},
    {"generation", "job_generation", HISTORY_COUNT},
    {"capacity", "job_capacity", HISTORY_COUNT},
    {"nodes", "job_nodes", HISTORY_TEXT},
    {"partitions", "job_partitions", HISTORY_COUNT},
    {"spilled_bytes", "job_spilled_bytes", HISTORY_COUNT},
    {"growth_refused", "job_growth_refused", HISTORY_TEXT},
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

/* A number that is not known is empty in the record, and left out. */
void admin_put_value(struct fields *f, const char *filter, size_t length, const char *name,
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
    for (size_t i = 0; i + 1 < record->elements; i += 2)
        if (strcmp(record->element[i]->str, field) == 0)
            return record->element[i + 1]->str;
    return NULL;
}

enum err admin_job_fields(struct fields *f, struct admin *a, const char *name, size_t length, bool held,
                          struct error *e)
{
    struct key_name key;
    redisReply *record;
    names_filter_key(&a->fence.names, "job", &key);
    enum err code =
        link_command(a->link, handle_home(&a->fence), &record, e, "HGETALL %b", key.text, key.length);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < sizeof(job_fields) / sizeof(job_fields[0]); i++) {
        const char *value = find(record, job_fields[i].record);
        if (i == 0 && value == NULL)
            value = "none";
        else if (i == 0 && strcmp(value, "running") == 0 && !held)
            value = "waiting"; /* for a driver */
        if (value != NULL)
            admin_put_value(f, name, length, job_fields[i].name, job_fields[i].kind, value);
    }
    freeReplyObject(record);
    return ERR_OK;
}
