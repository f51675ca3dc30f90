/* SPDX-License-Identifier: MIT */
#include "expansion/record/history.h"

#include <string.h>
#include "base/number.h"

const struct history_field history_fields[] = {
    {"job_id", "id", "job_id", HISTORY_JOB_ID, false},
    {"started_ms", "started_ms", "started_at", HISTORY_TIME_MS, false},
    {"finished_ms", "finished_ms", "finished_at", HISTORY_TIME_MS, false},
    {"outcome", "state", "outcome", HISTORY_TEXT, false}, /* done, healed, failed, aborted */
    {"trigger", "trigger", "trigger", HISTORY_TEXT, false},
    {"reason", "reason", "reason", HISTORY_TEXT, false},
    {"error", "error", "error", HISTORY_TEXT, false},
    {"rows", "rows", "rows", HISTORY_COUNT, true}, /* read by the scan, in all passes */
    {"scan_seconds", "scan_seconds", "scan_seconds", HISTORY_DECIMAL, true},
    {"generation_from", "generation_from", "generation_from", HISTORY_COUNT, true},
    {"generation", "generation", "generation", HISTORY_COUNT, true}, /* the one that was built */
    {"capacity", "capacity", "capacity", HISTORY_COUNT, true},       /* capacity of that generation */
    {"owner", "owner", "owner", HISTORY_TEXT, false},                /* the last driver */
    {"false_positive_rate", "false_positive_rate", "false_positive_rate", HISTORY_DECIMAL, false},
    {"verified", "verified", "verified_keys", HISTORY_COUNT, false}, /* keys that were looked up */
};
const size_t history_field_count = sizeof(history_fields) / sizeof(history_fields[0]);

static const struct history_field *find(const char *name, size_t length)
{
    for (size_t i = 0; i < history_field_count; i++)
        if (strlen(history_fields[i].name) == length && memcmp(history_fields[i].name, name, length) == 0)
            return &history_fields[i];
    return NULL;
}

static void decode(char out[HISTORY_VALUE_MAX], const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length && n + 1 < HISTORY_VALUE_MAX; i++) {
        uint64_t byte;
        out[n] = text[i];
        if (text[i] == '%' && length - i >= 3 && number_hex64(text + i + 1, 2, &byte) && byte != 0) {
            out[n] = (char)byte;
            i += 2;
        }
        n++;
    }
    out[n] = '\0';
}

bool history_next(const char **at, const char *end, struct history_pair *out)
{
    while (*at < end) {
        const char *name = *at;
        const char *blank = memchr(name, ' ', (size_t)(end - name));
        const char *stop = blank == NULL ? end : blank;
        const char *equals = memchr(name, '=', (size_t)(stop - name));
        *at = blank == NULL ? end : blank + 1;
        out->field = equals == NULL ? NULL : find(name, (size_t)(equals - name));
        if (out->field == NULL)
            continue;
        decode(out->value, equals + 1, (size_t)(stop - equals) - 1);
        return true;
    }
    return false;
}
