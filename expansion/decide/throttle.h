/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_THROTTLE_H
#define EXPANSION_DECIDE_THROTTLE_H
/* How fast a build may read: slower while Redis answers slowly or the database's standbys fall behind, faster
 * again step by step. Pure; no I/O, no clock. */
#include <stdbool.h>
#include <stdint.h>

enum {
    THROTTLE_FLOOR =
        1000, /* rows per second, or a twentieth of the unthrottled rate if that is more: a build that is
               * held back still comes to its end, above all where it is not what makes Redis slow */
    THROTTLE_REASON_MAX = 96
};

/* What is seen at the time of a decision. A maximum of 0 switches its bound off. */
struct throttle_input {
    double redis_p99_ms; /* negative: unknown, or not again since the last decision */
    bool idle;           /* there was no request in the last second */
    double redis_p99_max_ms;
    double replication_lag_s; /* negative: unknown */
    double replication_lag_max_s;
    uint64_t operator_rows_per_second; /* 0: none */
    double measured_rows_per_second;   /* since the last decision */
    double elapsed_s;                  /* since the last decision */
};

/* Between decisions; zero-initialised it knows nothing and limits nothing. For throttle.c, but for the two
 * results. */
struct throttle {
    double rows_per_second;           /* result: what is allowed; 0: no limit */
    char reason[THROTTLE_REASON_MAX]; /* result, for people: "" where there is no limit */
    double limit;                     /* our own, without the operator's; 0: none */
    double unthrottled;               /* the most rows per second that were measured; 0: unknown */
    double p99_ms, lag_s;             /* of the last decision */
    char excess[THROTTLE_REASON_MAX]; /* what made the limit */
    bool for_standbys;                /* the limit is; otherwise it is for requests */
};

/* Decide again; several times a second. While a bound is exceeded and what exceeds it is not falling already,
 * the rate is halved every second, down to the floor. When all is at four fifths of its bound or below it is
 * raised every second by a twentieth of the unthrottled rate. Above that rate the limit is forgotten, and
 * where it was for the sake of requests it is forgotten as soon as there are none. The operator's limit holds
 * in any case, and may be below the floor. */
void throttle_decide(struct throttle *t, const struct throttle_input *in);

#endif
