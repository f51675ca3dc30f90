/* SPDX-License-Identifier: MIT */
/* What TB.STATUS says of a job: fields of its record in Redis, under the names that users see. */
#include <string.h>
#include "base/number.h"
#include "service/admin/admin.h"
#include "service/core/field.h"

enum value_kind { TEXT, COUNT, DECIMAL, FLAG, TIME, ID };

/* In this order. What a record has beside these is for drivers. */
static const struct job_field {
    const char *record, *name;
    enum value_kind kind;
} job_fields[] = {
    {"state", "job_state", TEXT},
    {"id", "job_id", ID},
    {"step", "job_step", TEXT},
    {"trigger", "job_trigger", TEXT},
    {"reason", "job_reason", TEXT},
    {"error", "job_error", TEXT},
    {"error_code", "job_error_code", TEXT},
    {"waiting_for", "job_waiting_for", TEXT},
    {"throttle", "job_throttle_reason", TEXT},
    {"rows_per_second", "job_rows_per_second_limit", COUNT},
    {"checkpoint_rows", "job_checkpoint_rows", COUNT},
    {"hold", "job_hold", FLAG},
    {"paused", "job_paused", FLAG},
    {"rows", "job_rows", COUNT},
    {"rows_total", "job_rows_total", COUNT},
    {"rate", "job_rows_per_second", DECIMAL},
    {"eta_seconds", "job_eta_seconds", DECIMAL},
    {"scan_rows", "job_scan_rows", COUNT},
    {"scan_seconds", "job_scan_seconds", DECIMAL},
    {"skipped_null", "job_skipped_null", COUNT},
    {"skipped_empty", "job_skipped_empty", COUNT},
    {"caught_up_by", "job_caught_up_by", TEXT},
    {"generation_from", "job_generation_from", COUNT},
    {"generation", "job_generation", COUNT},
    {"capacity", "job_capacity", COUNT},
    {"nodes", "job_nodes", TEXT},
    {"partitions", "job_partitions", COUNT},
    {"spilled_bytes", "job_spilled_bytes", COUNT},
    {"growth_refused", "job_growth_refused", TEXT},
    {"cutover_us", "job_cutover_us", COUNT},
    {"verify_ok", "job_verify_ok", FLAG},
    {"verify_mode", "job_verify_mode", TEXT},
    {"verify_generation", "job_verify_generation", COUNT},
    {"verified", "job_verified_keys", COUNT},
    {"verify_items", "job_verify_keys", COUNT},
    {"verify_rows", "job_verify_rows", COUNT},
    {"verify_missing", "job_verify_missing", COUNT},
    {"verify_added", "job_verify_added", COUNT},
    {"verify_missing_keys", "job_verify_missing_keys", TEXT},
    {"verify_reason", "job_verify_reason", TEXT},
    {"false_positive_rate", "job_false_positive_rate", DECIMAL},
    {"dead_at_build", "job_dead_keys_at_build", COUNT},
    {"dead_generation", "job_dead_generation", COUNT},
    {"healed", "job_healed", TEXT},
    {"started_ms", "job_started_at", TIME},
    {"updated_ms", "job_updated_at", TIME},
    {"switched_ms", "job_switched_at", TIME},
    {"grace_until_ms", "job_grace_ends_at", TIME},
    {"finished_ms", "job_finished_at", TIME},
    {"owner", "job_owner", TEXT},
    {"token", "job_token", COUNT},
};

static bool is_number(const char *text, uint64_t *n)
{
    return number_u64(text, strlen(text), n) && *n <= INT64_MAX;
}

/* A number that is not known is empty in the record, and left out. */
static void put_field(struct fields *f, const struct argument *filter, const struct job_field *field,
                      const char *value, bool held)
{
    uint64_t n = 0;
    double decimal;
    switch (field->kind) {
    case TEXT:
        /* A job that nobody drives any more waits for a driver. */
        field_text(f, field->name,
                   field == job_fields && strcmp(value, "running") == 0 && !held ? "waiting" : value);
        return;
    case COUNT:
        if (is_number(value, &n))
            field_number(f, field->name, n);
        return;
    case DECIMAL:
        if (number_double(value, strlen(value), &decimal))
            field_decimal(f, field->name, decimal);
        return;
    case FLAG:
        field_bool(f, field->name, strcmp(value, "1") == 0);
        return;
    case TIME:
        if (is_number(value, &n))
            field_time(f, field->name, n);
        return;
    case ID:
        if (number_u64(value, strlen(value), &n))
            field_job_id(f, filter->bytes, filter->length, n);
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
    const struct argument filter = {.bytes = name, .length = length};
    struct key_name key;
    redisReply *record;
    names_filter_key(&a->handle.names, "job", &key);
    enum err code = sync_client_command(a->redis, handle_home(&a->handle), &record, e, "HGETALL %b", key.text,
                                        key.length);
    if (code != ERR_OK)
        return code;
    for (size_t i = 0; i < sizeof(job_fields) / sizeof(job_fields[0]); i++) {
        const char *value = find(record, job_fields[i].record);
        if (value != NULL)
            put_field(f, &filter, &job_fields[i], value, held);
        else if (i == 0)
            field_text(f, "job_state", "none");
    }
    freeReplyObject(record);
    return ERR_OK;
}
