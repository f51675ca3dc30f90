/* SPDX-License-Identifier: MIT */
#include "expansion/decide/throttle.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include "base/number.h"

/* A late decision changes the rate no more than a decision after this time. */
static const double ELAPSED_MAX_S = 2;
static const double HEALTHY = 0.8;   /* share of a bound: from here to the bound the rate is kept */
static const double STEP = 0.05;     /* share of the unthrottled rate */
static const double FORGET = 1.1;    /* times the unthrottled rate: above, the limit is dropped */
static const double FALLING = 0.999; /* share of the last value: a lower value is falling */

static bool exceeds(double value, double max)
{
    return max > 0 && value > max;
}

static bool falls(double value, double before)
{
    return value < before * FALLING;
}

/* Print whole units when they are precise enough. */
static void format_excess(char out[THROTTLE_REASON_MAX], const char *what, double value, double max,
                          const char *unit)
{
    (void)snprintf(out, THROTTLE_REASON_MAX, "%s %.*f %s > %.*f %s", what, value < 10 ? 1 : 0, value, unit,
                   max == floor(max) ? 0 : 1, max, unit);
}

/* The lowest rate, and the amount by which the rate is raised per second. */
static double floor_rate(const struct throttle *t)
{
    return fmax(t->unthrottled * STEP, THROTTLE_FLOOR);
}

static void brake(struct throttle *t, const struct throttle_input *in, double elapsed_s)
{
    double from = t->limit;
    if (from <= 0 || (in->measured_rows_per_second > 0 && in->measured_rows_per_second < from))
        from = in->measured_rows_per_second;
    if (from <= 0)
        return; /* nothing is being read, so there is nothing to slow down */
    t->limit = fmax(from * exp2(-elapsed_s), floor_rate(t));
}

static void recover(struct throttle *t, double elapsed_s)
{
    t->limit += floor_rate(t) * elapsed_s;
    if (t->unthrottled > 0 && t->limit > t->unthrottled * FORGET)
        t->limit = 0;
}

static void say(struct throttle *t, const struct throttle_input *in, bool excess)
{
    char rows[NUMBER_GROUPED_SIZE];
    uint64_t wanted = in->operator_rows_per_second;
    t->reason[0] = '\0';
    t->rows_per_second = t->limit;
    if (wanted > 0 && (t->limit <= 0 || (double)wanted < t->limit)) {
        t->rows_per_second = (double)wanted;
        (void)snprintf(t->reason, sizeof(t->reason), "throttled by an operator to %s rows/s",
                       number_grouped(wanted, rows));
    } else if (t->limit > 0) {
        (void)snprintf(t->reason, sizeof(t->reason), "%s%.80s", excess ? "" : "recovering: ", t->excess);
    }
}

void throttle_decide(struct throttle *t, const struct throttle_input *in)
{
    double elapsed_s = fmin(fmax(in->elapsed_s, 0), ELAPSED_MAX_S);
    bool slow = exceeds(in->redis_p99_ms, in->redis_p99_max_ms);
    bool behind = exceeds(in->replication_lag_s, in->replication_lag_max_s);
    bool healthy = !exceeds(in->redis_p99_ms, in->redis_p99_max_ms * HEALTHY) &&
                   !exceeds(in->replication_lag_s, in->replication_lag_max_s * HEALTHY);
    if (in->measured_rows_per_second > (t->rows_per_second <= 0 ? 0 : t->unthrottled))
        t->unthrottled = in->measured_rows_per_second;
    if (slow)
        format_excess(t->excess, "Redis p99", in->redis_p99_ms, in->redis_p99_max_ms, "ms");
    else if (behind)
        format_excess(t->excess, "replication lag", in->replication_lag_s, in->replication_lag_max_s, "s");
    /* The effect of a brake shows late, above all in a lag: while the value falls, do not brake again. */
    bool worse = (slow && !(t->limit > 0 && falls(in->redis_p99_ms, t->p99_ms))) ||
                 (behind && !(t->limit > 0 && falls(in->replication_lag_s, t->lag_s)));
    if (worse) {
        t->for_standbys = behind;
        brake(t, in, elapsed_s);
    } else if (in->idle && !t->for_standbys) {
        t->limit = 0;
    } else if (healthy && t->limit > 0) {
        recover(t, elapsed_s);
    }
    if (in->redis_p99_ms >= 0)
        t->p99_ms = in->redis_p99_ms;
    t->lag_s = in->replication_lag_s;
    say(t, in, slow || behind);
}
