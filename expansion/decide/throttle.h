/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_THROTTLE_H
#define EXPANSION_DECIDE_THROTTLE_H
/* Controls the read rate of a build: slower while Redis replies slowly or the database's standbys lag, then
 * faster again step by step. Pure; no I/O, no clock. */
#include <stdbool.h>
#include <stdint.h>

enum {
    THROTTLE_FLOOR = 1000, /* rows per second; or unthrottled / 20, if that is more */
    THROTTLE_REASON_MAX = 96
};

/* Observations for a decision. A maximum of 0 disables its bound. */
struct throttle_input {
    double redis_p99_ms; /* negative: unknown, or not measured since the last decision */
    bool idle;           /* no request in the last second */
    double redis_p99_max_ms;
    double replication_lag_s; /* negative: unknown */
    double replication_lag_max_s;
    uint64_t operator_rows_per_second; /* 0: no limit */
    double measured_rows_per_second;   /* since the last decision */
    double elapsed_s;                  /* since the last decision */
};

/* State between decisions; zero-initialised: no limit. Private to throttle.c, except the two results. */
struct throttle {
    double rows_per_second;           /* result: the allowed rate; 0: no limit */
    char reason[THROTTLE_REASON_MAX]; /* result, for people; "": no limit */
    double limit;                     /* the throttle's own, without the operator's; 0: none */
    double unthrottled;               /* the highest measured rate, rows per second; 0: unknown */
    double p99_ms, lag_s;             /* values at the last decision */
    char excess[THROTTLE_REASON_MAX]; /* what caused the limit */
    bool for_standbys;                /* the limit protects standbys; false: requests */
};

/* Decide again; call it several times a second. While a bound is exceeded and the value is not falling, the
 * rate is halved every second, down to the floor (a throttled build must still finish, above all if it is not
 * what makes Redis slow). When all values are at or below four fifths of their bounds, the rate rises every
 * second by a twentieth of the unthrottled rate. Above that rate the limit is dropped; a limit that protects
 * requests is dropped as soon as there are none. The operator's limit always applies, and may be below the
 * floor. */
void throttle_decide(struct throttle *t, const struct throttle_input *in);

#endif
