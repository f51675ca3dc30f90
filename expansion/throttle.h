/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_THROTTLE_H
#define EXPANSION_THROTTLE_H
/* How fast a build may read: slower while Redis answers slowly or the database's standbys fall behind, faster
 * again step by step. Pure; no I/O, no clock. */
#include <stdbool.h>
#include <stdint.h>

enum {
    THROTTLE_FLOOR =
        1000, /* rows per second, or a twentieth of the unthrottled rate if that is more: a build that is
               * held back still comes to its end, above all where it is not what makes Redis slow */
    THROTTLE_COURTESY =
        500 * 1000, /* rows per second, or two fifths of the unthrottled rate if that is more, below which a
                     * build is not held for the sake of a bound that follows from what requests had before */
    THROTTLE_BEGIN = 2 * THROTTLE_COURTESY, /* at which it begins beside requests */
    THROTTLE_REASON_MAX = 96
};

/* What is seen at the time of a decision. A maximum of 0 switches its bound off. */
struct throttle_input {
    double redis_p99_ms; /* negative: unknown, or not anew since the last decision */
    bool idle;           /* there was no request in the last second */
    double redis_p99_max_ms;
    double replication_lag_s; /* negative: unknown */
    double replication_lag_max_s;
    uint64_t operator_rows_per_second; /* 0: none */
    double measured_rows_per_second;   /* since the last decision */
    double elapsed_s;                  /* since the last decision */
};

/* For whose sake there is a limit: that of the database's standbys, of all requests by the absolute bound, or
 * of those that were there at the beginning. */
enum throttle_for { THROTTLE_FOR_STANDBYS, THROTTLE_FOR_REQUESTS, THROTTLE_FOR_COURTESY };

/* Between decisions; zero-initialised it knows nothing and limits nothing. For throttle.c, but for the two
 * results. */
struct throttle {
    double rows_per_second;           /* result: what is allowed; 0: no limit */
    char reason[THROTTLE_REASON_MAX]; /* result, for people: "" where there is no limit */
    double limit;                     /* our own, without the operator's; 0: none */
    double unthrottled;               /* the most rows per second that were measured; 0: unknown */
    double p99_ms, lag_s;             /* of the last decision */
    char excess[THROTTLE_REASON_MAX]; /* what made the limit */
    double p99_bound_ms;              /* by what it was before; 0: none */
    bool rising;                      /* from the beginning on nothing was exceeded */
    double rising_s;                  /* for so long, with rows that were read */
    enum throttle_for made_for;       /* the limit */
};

/* At the beginning of a build, beside requests whose replies of Redis had this p99 just before (0 or less:
 * there were none): it begins slowly, and the p99 is to stay below @factor times as much. 0: no such bound.
 */
void throttle_begin(struct throttle *t, double p99_before_ms, double factor);

/* Decide anew; several times a second. While a bound is exceeded and what exceeds it is not falling already,
 * the rate is halved every second, down to the floor. When all is at four fifths of its bound or below it is
 * raised every second by a twentieth of the unthrottled rate, or by a quarter where the bound is that of
 * throttle_begin(); or doubled by each decision, while nothing was exceeded since the beginning: so the full
 * rate is reached within a second. Above it the limit is forgotten, and where it was for the sake of requests
 * it is forgotten as soon as there are none. The operator's limit holds in any case, and may be below the
 * floor. */
void throttle_decide(struct throttle *t, const struct throttle_input *in);

#endif
