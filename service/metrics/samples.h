/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_METRICS_SAMPLES_H
#define SERVICE_METRICS_SAMPLES_H
/* Samples of metrics as text: added in any order, written in the order of the table. Pure. */
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/timing.h"
#include "service/metrics/metrics_table.h"

enum exposition { EXPOSITION_PROMETHEUS, EXPOSITION_OPENMETRICS };

/* The format for a scraper with this Accept header (NULL: none): OpenMetrics if the header names it with at
 * least the weight of text/plain. */
enum exposition exposition_negotiate(const char *accept);
const char *exposition_type(enum exposition format);

/* The lines of each metric; zero-initialised: none. */
struct samples {
    struct buffer of[METRIC_COUNT];
};

void samples_fini(struct samples *s);

/* The value of a label: any bytes; invalid UTF-8 becomes U+FFFD. */
struct label {
    const char *bytes;
    size_t length;
};
struct label label(const char *text);

/* Add a sample; @labels are as many as the table names, in its order. */
void sample(struct samples *s, enum metric m, const struct label *labels, double value);
void sample_count(struct samples *s, enum metric m, const struct label *labels, uint64_t value);
/* Add the buckets, sum and count of a histogram. */
void sample_timing(struct samples *s, enum metric m, const struct label *labels,
                   const struct timing_figures *t);

/* Append all metrics with samples in any of the @count parts; entries of @parts may be NULL. */
void samples_write(struct buffer *out, enum exposition format, const struct samples *const *parts,
                   size_t count);
#endif
