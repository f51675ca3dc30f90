/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_SAMPLES_H
#define SERVICE_METRICS_SAMPLES_H
/* Samples of metrics, as text: gathered in any order, written in that of the table. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/timing.h"
#include "service/metrics/metrics_table.h"

enum exposition { EXPOSITION_PROMETHEUS, EXPOSITION_OPENMETRICS };

/* Which format a scraper with this header Accept (NULL: none) gets: OpenMetrics where it says so and likes
 * text/plain no better. */
enum exposition exposition_negotiate(const char *accept);
const char *exposition_type(enum exposition format);

/* The lines of each metric; zero-initialised there are none. */
struct samples {
    struct buffer of[METRIC_COUNT];
};

void samples_fini(struct samples *s);

/* A label's value, any bytes: what is no UTF-8 becomes U+FFFD. */
struct label {
    const char *bytes;
    size_t length;
};
struct label label(const char *text);

/* One sample; as many labels as the table says, in its order. */
void sample(struct samples *s, enum metric m, const struct label *labels, double value);
void sample_count(struct samples *s, enum metric m, const struct label *labels, uint64_t value);
/* The buckets, sum and count of a histogram. */
void sample_timing(struct samples *s, enum metric m, const struct label *labels,
                   const struct timing_figures *t);

/* Append all metrics that have samples in some of the @count parts; @parts may have NULLs. */
void samples_write(struct buffer *out, enum exposition format, const struct samples *const *parts,
                   size_t count);
#endif
