/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_METER_H
#define SERVICE_METRICS_METER_H
/* The counters of one event loop: requests by row (a command, a route) and column (an outcome, a status),
 * their durations, and replies by filter. One thread writes, without locks or locked instructions; any thread
 * may read. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/timing.h"

enum { METER_FILTERS_MAX = 1000 };
#define METER_NO_ROW SIZE_MAX

/* Outcomes of commands, as columns. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_PARTIAL, /* some of its keys have an error */
    OUTCOME_ERROR,
    OUTCOME_DENIED,
    OUTCOME_TIMEOUT,
    OUTCOME_UNAVAILABLE,
    OUTCOME_CANCELLED, /* the client has gone */
    OUTCOME_COUNT
};
const char *outcome_name(enum outcome o);
/* The outcome that the beginning of a reply shows. */
enum outcome outcome_of_reply(const char *bytes, size_t length);
enum outcome outcome_of_error(enum err code);

/* Counters of one filter. */
struct meter_filter {
    char *name;
    size_t length;
    atomic_uint_fast64_t checks, positives, adds, added;
    struct meter_filter *next; /* list of all filters, the latest first */
    struct meter_filter *chain;
};

struct meter;

/* NULL: no memory. */
struct meter *meter_new(size_t rows, size_t columns);
void meter_free(struct meter *m);

/* --- for the owning thread --- */
void meter_count(struct meter *m, size_t row, size_t column, uint64_t us);
/* As meter_count(), for @times requests of the same duration. */
void meter_count_many(struct meter *m, size_t row, size_t column, uint64_t us, uint64_t times);
void meter_slow(struct meter *m);
/* The counters of a filter, made if needed; they live as long as the meter. If there are METER_FILTERS_MAX
 * already, or no memory, returns meter_others(). Only for filters that exist: names invented by clients get
 * no counters. */
struct meter_filter *meter_filter(struct meter *m, const char *name, size_t length);

/* Results for the keys of one request. */
struct meter_answers {
    uint64_t yes, no, other;
};
void meter_answered(struct meter_filter *f, bool is_check, const struct meter_answers *a);

/* --- for any thread --- */
uint64_t meter_read(const struct meter *m, size_t row, size_t column);
void meter_read_timing(const struct meter *m, size_t row, struct timing_figures *out);
uint64_t meter_read_slow(const struct meter *m);
/* The first filter's counters; follow `next`. NULL: there are none. */
const struct meter_filter *meter_filters(const struct meter *m);
/* The sums of all other filters. It has no name. */
const struct meter_filter *meter_others(const struct meter *m);
#endif
