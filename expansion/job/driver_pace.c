/* SPDX-License-Identifier: MIT */
/* Controls the read rate of a job. Several times a second the throttle examines how Redis and the database
 * serve others, and decides how many rows per second are allowed; the readers keep to it. */
#include <stdio.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/job/driver_internal.h"

enum {
    DECIDE_US = 250 * 1000,
    ASK_US = 1000 * 1000, /* between questions to the database */
    ASIDE_MS = 2000,      /* for their answers */
    SAMPLES = 100         /* the p99 of fewer is a single one of them: judged once a second */
};
static const double LEAST_S = 0.2; /* shortest time for a rate: one page must not change it too much */

/* The p99 since the last time that it was known. Negative: not known yet. */
static double redis_p99(struct driver *d, uint64_t now)
{
    struct latency_figures figures;
    if (d->o->latency == NULL)
        return -1;
    struct latency_reader next = d->pace.latency;
    latency_read(d->o->latency, &next, &figures);
    if (figures.samples < SAMPLES && now - d->pace.p99_at < LATENCY_RECENT_US)
        return -1;
    d->pace.latency = next;
    d->pace.p99_at = now;
    return figures.samples == 0 ? -1 : figures.p99_ms;
}

/* A connection for these questions, which nothing watches; NULL: a failed question must not stop the job. */
static struct source *aside(struct driver *d)
{
    struct error ignored;
    struct source_config config = d->o->source;
    config.application = "twinbloom throttle";
    unsigned timeout = d->o->postgres_timeout_ms < ASIDE_MS ? d->o->postgres_timeout_ms : ASIDE_MS;
    if (d->pace.source == NULL && source_open(&d->pace.source, &config, timeout, &ignored) != ERR_OK)
        d->pace.source = NULL;
    return d->pace.source;
}

void driver_pace_end(struct driver *d)
{
    source_drop(&d->pace.source);
}

/* Negative: unknown. */
static double replication_lag(struct driver *d)
{
    double seconds = -1;
    struct error ignored;
    if (d->o->replication_lag_max_ms == 0 || aside(d) == NULL)
        return -1;
    if (source_replication_lag(d->pace.source, &seconds, &ignored) == ERR_OK)
        return seconds;
    driver_pace_end(d); /* the next question connects again */
    return -1;
}

/* Not for a standby that rows are read from: that is its purpose. Our own pages are few transactions. */
static void look_at_others(struct driver *d)
{
    uint64_t now = clock_mono_us(), count = 0;
    struct error ignored;
    double seconds = (double)(now - d->pace.counted_at) / 1e6;
    if (d->o->yield_at <= 0 || d->o->read_dsn[0] != '\0' || aside(d) == NULL)
        return;
    if (source_transactions(d->pace.source, &count, &ignored) != ERR_OK) {
        driver_pace_end(d); /* the next question connects again */
        return;
    }
    bool known = d->pace.counted_at != 0 && count >= d->pace.transactions && seconds >= LEAST_S;
    struct yield *y = &d->pace.yield;
    bool rested = y->rests;
    if (known && !d->pace.beside_requests)
        yield_look(y, (double)(count - d->pace.transactions), seconds, d->o->yield_at);
    if (y->rests != rested)
        log_info("yield_changed",
                 "filter=%s half_of_readers=%d others_per_second_all=%.0f others_per_second_half=%.0f",
                 log_quote(d->o->filter), y->rests, y->beside_all, y->beside_half);
    if (y->rests != rested)
        (void)snprintf(d->pace.yield_reason, sizeof(d->pace.yield_reason), "half of the readers pause%s",
                       y->tries ? ", to see whether it helps others" : ": others end more transactions then");
    d->pace.transactions = count;
    d->pace.counted_at = now;
}

/* A lower rate would not help requests: between its pauses each page still takes all processors. */
static void look_at_requests(struct driver *d, uint64_t now)
{
    d->pace.beside_requests = d->o->latency != NULL && latency_is_used(d->o->latency, now);
}

static uint64_t operator_limit(const struct driver *d)
{
    return d->control.rows_per_second != 0 ? d->control.rows_per_second : d->o->rows_per_second;
}

static void decide(struct driver *d, uint64_t now)
{
    double elapsed = (double)(now - d->pace.decided_at + 1) / 1e6;
    look_at_requests(d, now);
    if (now - d->pace.asked_at >= ASK_US) {
        d->pace.asked_at = now;
        d->pace.lag_s = replication_lag(d);
        look_at_others(d);
    }
    const struct throttle_input in = {
        .redis_p99_ms = redis_p99(d, now),
        .idle = !d->pace.beside_requests,
        .redis_p99_max_ms = (double)d->o->redis_p99_max_ms,
        .replication_lag_s = d->pace.lag_s,
        .replication_lag_max_s = (double)d->o->replication_lag_max_ms / 1000,
        .operator_rows_per_second = operator_limit(d),
        .measured_rows_per_second = elapsed < LEAST_S ? 0 : (double)d->pace.rows / elapsed,
        .elapsed_s = elapsed,
    };
    d->pace.operator_limit = in.operator_rows_per_second;
    bool was = d->pace.throttle.reason[0] != '\0';
    throttle_decide(&d->pace.throttle, &in);
    if (was != (d->pace.throttle.reason[0] != '\0'))
        log_info("throttle_changed", "filter=%s rows_per_second=%.0f reason=%s", log_quote(d->o->filter),
                 d->pace.throttle.rows_per_second, log_quote(d->pace.throttle.reason));
    d->pace.rows = 0;
    d->pace.decided_at = clock_mono_us();
}

/* Keys may be missing until the job ends: wrong answers cost more than slow ones. */
static bool heals(const struct driver *d)
{
    return d->view.degraded;
}

const char *driver_pace_throttle(const struct driver *d)
{
    const char *reason = heals(d) ? "" : d->pace.throttle.reason;
    if (reason[0] == '\0' && d->pace.yield.rests)
        reason = d->pace.yield_reason;
    return reason[0] == '\0' && d->pace.beside_requests && !heals(d) && d->readers != NULL &&
                   d->o->readers > 1
               ? "half of the readers pause: clients are active"
               : reason;
}

void driver_pace_begin(struct driver *d)
{
    if (d->pace.decided_at != 0)
        return;
    look_at_others(d);
    d->pace.lag_s = -1;
    d->pace.asked_at = d->pace.decided_at = clock_mono_us();
    look_at_requests(d, d->pace.decided_at);
}

double driver_pace_limit(struct driver *d)
{
    driver_pace_begin(d);
    if (heals(d))
        return (double)operator_limit(d);
    uint64_t now = clock_mono_us();
    if (now - d->pace.decided_at >= DECIDE_US || operator_limit(d) != d->pace.operator_limit)
        decide(d, now);
    return d->pace.throttle.rows_per_second;
}

unsigned driver_pace_at_once(const struct driver *d)
{
    bool pauses = d->pace.yield.rests || (d->pace.beside_requests && !heals(d));
    return pauses ? (d->o->readers + 1) / 2 : 0;
}

void driver_pace_readers(struct driver *d)
{
    double limit = driver_pace_limit(d); /* decides again, if that is due */
    readers_pace(d->readers, limit, driver_pace_at_once(d));
}
