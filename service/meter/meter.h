/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METER_METER_H
#define SERVICE_METER_METER_H
/* The counters of one event loop: requests by row (a command, a route) and column (an outcome, a status),
 * their durations, and replies by filter. One thread writes, without locks or locked instructions; any thread
 * may read. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/timing.h"

enum { METER_FILTERS_MAX = 1000, METER_LABELS = 2, METER_COLUMN_SIZE = 16 };
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

/* What is counted. The last row is what the table of commands, or of routes, does not have. */
enum meter_of { METER_OF_COMMANDS, METER_OF_ROUTES };

struct meter_kind {
    enum meter_of of;
    size_t rows, columns;
    unsigned labels; /* of a row; METER_LABELS at the most */
    const char *(*label)(size_t row, unsigned i);
    const char *(*column)(size_t column, char out[METER_COLUMN_SIZE]); /* its name; may be written to @out */
    bool (*is_of_keys)(size_t row);                                    /* it checks or adds keys */
    bool (*is_failure)(size_t column); /* an error that is not the client's rights */
};

struct meter;

/* @kind is borrowed. NULL: no memory. */
struct meter *meter_new(const struct meter_kind *kind);
void meter_free(struct meter *m);
const struct meter_kind *meter_kind(const struct meter *m);

/* The meters of this process, one for each event loop. A meter is added before its loop starts, in one
 * thread, and read by any until the loops are freed. */
enum { METERS_MAX = 257 };
struct meters {
    atomic_uint count;
    const struct meter *meter[METERS_MAX];
};
void meters_add(struct meters *all, const struct meter *m);

/* --- for the owning thread --- */
/* For @times requests of the same duration. */
void meter_count(struct meter *m, size_t row, size_t column, uint64_t us, uint64_t times);
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

/* --- clients' requests to this coordinator since it started: the sums of all event loops' counters, for the
 * dashboard. From any thread while workers and HTTP exist; never waits. --- */

/* Keys of requests that were replied to. */
struct traffic_keys {
    uint64_t checks; /* keys that were checked */
    uint64_t maybe;  /* checked keys reported "maybe present" */
    uint64_t adds;   /* keys whose adds were acknowledged */
};

/* Requests that check or add keys: BF.EXISTS, BF.ADD and the like, over RESP and HTTP. */
struct traffic {
    uint64_t requests;
    uint64_t failed;            /* with an error other than missing rights of the client */
    struct timing_figures took; /* times from a request's last byte to its reply */
    struct traffic_keys keys;
};

void traffic_read(const struct meters *all, struct traffic *out);
/* For one filter; zero if it had no requests, or is beyond METER_FILTERS_MAX. */
void traffic_of_filter(const struct meters *all, const char *name, size_t length, struct traffic_keys *out);
#endif
