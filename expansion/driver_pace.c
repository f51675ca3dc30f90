/* SPDX-License-Identifier: MIT */
/* How fast a job reads rows. Once a second the throttle looks at what the readers of the filter and of the
 * database feel, and says how many rows a second are allowed; those who read them keep to it. */
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "expansion/driver_internal.h"

enum { DECIDE_US = 1000 * 1000 };
static const double LEAST_S = 0.2; /* in less a page more or less is no rate */

static double redis_p99(struct driver *d)
{
    struct latency_figures figures = {0};
    if (d->o->latency == NULL)
        return -1;
    latency_read(d->o->latency, &d->pace.latency, &figures);
    return figures.samples == 0 ? -1 : figures.p99_ms;
}

/* Negative: not known. A question that fails is no reason to stop the job. */
static double replication_lag(struct driver *d)
{
    double seconds = -1;
    struct error ignored;
    if (d->o->replication_lag_max_ms == 0)
        return -1;
    enum err code = ERR_OK;
    if (d->pace.source == NULL)
        code = driver_second_source(d, &d->pace.source, &ignored);
    if (code == ERR_OK)
        code = source_replication_lag(d->pace.source, &seconds, &ignored);
    if (code == ERR_OK)
        return seconds;
    source_close(d->pace.source);
    d->pace.source = NULL;
    return -1;
}

static uint64_t operator_limit(const struct driver *d)
{
    return d->control.rows_per_second != 0 ? d->control.rows_per_second : d->o->rows_per_second;
}

static void decide(struct driver *d, uint64_t now)
{
    double elapsed = (double)(now - d->pace.decided_at + 1) / 1e6;
    const struct throttle_input in = {
        .redis_p99_ms = redis_p99(d),
        .redis_p99_max_ms = (double)d->o->redis_p99_max_ms,
        .replication_lag_s = replication_lag(d),
        .replication_lag_max_s = (double)d->o->replication_lag_max_ms / 1000,
        .operator_rows_per_second = operator_limit(d),
        .measured_rows_per_second = elapsed < LEAST_S ? 0 : (double)d->pace.rows / elapsed,
        .elapsed_s = elapsed,
    };
    d->pace.operator_limit = in.operator_rows_per_second;
    bool was = d->pace.throttle.reason[0] != '\0';
    throttle_decide(&d->pace.throttle, &in);
    if (was != (d->pace.throttle.reason[0] != '\0'))
        log_info("throttle", "filter=%s rows_per_second=%.0f why=%s", log_quote(d->o->filter),
                 d->pace.throttle.rows_per_second, log_quote(d->pace.throttle.reason));
    d->pace.rows = 0;
    d->pace.decided_at = clock_mono_us();
}

static void decide_if_time(struct driver *d)
{
    uint64_t now = clock_mono_us();
    if (now - d->pace.decided_at >= DECIDE_US || operator_limit(d) != d->pace.operator_limit)
        decide(d, now);
}

const char *driver_pace_reason(const struct driver *d)
{
    return d->pace.throttle.reason;
}

void driver_pace_rows(struct driver *d, uint64_t rows)
{
    d->pace.rows += rows;
}

double driver_pace_limit(struct driver *d)
{
    if (d->pace.decided_at == 0) {
        (void)redis_p99(d); /* what was before says nothing of the job */
        d->pace.decided_at = clock_mono_us();
    }
    decide_if_time(d);
    return d->pace.throttle.rows_per_second;
}

void driver_pace_end(struct driver *d)
{
    source_close(d->pace.source);
    d->pace.source = NULL;
}
