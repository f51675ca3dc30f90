/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_HISTORY_H
#define EXPANSION_RECORD_HISTORY_H
/* The history P:{F}:history: a list of the last runs of a filter, newest first. finish.lua writes an entry in
 * the step that writes the end into the job's record, under the mutex. An entry is one line such as
 *   started_ms=1789 finished_ms=2345 outcome=done trigger=operator reason=asked%20for%20by%20an%20operator
 * with the names of history_fields; what a run did not come to know is not in it. A job that several drivers
 * drove is one run, with its first start, trigger and reason. Pure. */
#include <stdbool.h>
#include <stddef.h>

enum { HISTORY_ENTRIES_MAX = 100, HISTORY_VALUE_MAX = 1024 };

enum history_kind {
    HISTORY_TEXT,
    HISTORY_COUNT,
    HISTORY_DECIMAL,
    HISTORY_FLAG,
    HISTORY_TIME_MS, /* since 1970 */
    HISTORY_JOB_ID   /* without the filter's name */
};

struct history_field {
    const char *name;   /* in the entry */
    const char *record; /* in the job's record */
    const char *shown;  /* to users */
    enum history_kind kind;
    bool of_build; /* a run that only verified has none */
};

extern const struct history_field history_fields[];
extern const size_t history_field_count;

struct history_pair {
    const struct history_field *field;
    char value[HISTORY_VALUE_MAX]; /* decoded, cut where it is too long, NUL-terminated */
};

/* Read the next pair at *@at and move *@at behind it. False: there are no more. Names that are not known (of
 * a later version) are passed over. */
bool history_next(const char **at, const char *end, struct history_pair *out);
#endif
