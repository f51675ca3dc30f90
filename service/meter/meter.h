/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_METER_H
#define SERVICE_METRICS_METER_H
/* What one event loop counts: requests by row (a command, a route) and column (an outcome, a status), how
 * long they took, and answers by filter. One thread writes, without locks and bus locks; anybody may read. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/timing.h"

enum { METER_FILTERS_MAX = 1000 };
#define METER_NO_ROW SIZE_MAX

/* Outcomes of commands. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_PARTIAL, /* some keys of it have an error */
    OUTCOME_ERROR,
    OUTCOME_DENIED,
    OUTCOME_TIMEOUT,
    OUTCOME_UNAVAILABLE,
    OUTCOME_CANCELLED, /* whoever asked is gone */
    OUTCOME_COUNT
};
const char *outcome_name(enum outcome o);
/* By how a reply begins. */
enum outcome outcome_of_reply(const char *bytes, size_t length);
enum outcome outcome_of_error(enum err code);

/* Of one filter. */
struct meter_filter {
    char *name;
    size_t length;
    atomic_uint_fast64_t checks, positives, adds, added;
    struct meter_filter *next; /* of those made before */
    struct meter_filter *chain;
};

struct meter;

/* NULL: no memory. */
struct meter *meter_new(size_t rows, size_t columns);
void meter_free(struct meter *m);

/* --- by the thread whose it is --- */
void meter_count(struct meter *m, size_t row, size_t column, uint64_t us);
/* @times that took the same time. */
void meter_count_many(struct meter *m, size_t row, size_t column, uint64_t us, uint64_t times);
void meter_slow(struct meter *m);
/* The counters of a filter, made if needed; they live as long as the meter. Where there are as many as there
 * may be, or no memory, those of all others together (meter_others()). Only for filters that exist: names
 * that clients make up have none. */
struct meter_filter *meter_filter(struct meter *m, const char *name, size_t length);

/* What became of the keys of one request. */
struct meter_answers {
    uint64_t yes, no, other;
};
void meter_answered(struct meter_filter *f, bool is_check, const struct meter_answers *a);

/* --- by anybody --- */
uint64_t meter_read(const struct meter *m, size_t row, size_t column);
void meter_read_timing(const struct meter *m, size_t row, struct timing_figures *out);
uint64_t meter_read_slow(const struct meter *m);
/* From one to the next by `next`. NULL: there is none. */
const struct meter_filter *meter_filters(const struct meter *m);
/* Of the filters that are not among those. It has no name. */
const struct meter_filter *meter_others(const struct meter *m);
#endif
