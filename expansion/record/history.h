/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_HISTORY_H
#define EXPANSION_RECORD_HISTORY_H
/* The history P:{F}:history: a list of a filter's last runs, newest first. Under the mutex, finish.lua writes
 * the end to the job's record and an entry to the history in one step. An entry is one line such as
 *   started_ms=1789 finished_ms=2345 outcome=done trigger=operator reason=asked%20for%20by%20an%20operator
 * with the names of history_fields; values that a run did not learn are missing. A job that several drivers
 * drove is one run, with its first start, trigger and reason. Pure. */
#include <stdbool.h>
#include <stddef.h>

enum { HISTORY_ENTRIES_MAX = 100, HISTORY_VALUE_MAX = 1024 };

enum history_kind {
    HISTORY_TEXT,
    HISTORY_COUNT,
    HISTORY_DECIMAL,
    HISTORY_FLAG,
    HISTORY_TIME_MS, /* Unix time, milliseconds */
    HISTORY_JOB_ID   /* shown without the filter's name */
};

struct history_field {
    const char *name;   /* name in the entry */
    const char *record; /* field of the job's record */
    const char *shown;  /* name for users */
    enum history_kind kind;
    bool of_build; /* missing for a run that only verified */
};

extern const struct history_field history_fields[];
extern const size_t history_field_count;

struct history_pair {
    const struct history_field *field;
    char value[HISTORY_VALUE_MAX]; /* decoded, cut if too long, NUL-terminated */
};

/* Read the next pair at *@at and move *@at behind it. False: there are no more. Unknown names (of a later
 * version) are skipped. */
bool history_next(const char **at, const char *end, struct history_pair *out);
#endif
