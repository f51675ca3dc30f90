/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H
/* sim: a filter larger than any machine of the tests, by the real geometry, hash, names and placement; what
 * cannot be had here (its keys, its nodes) by a sample, and said so. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"

struct sim {
    uint64_t keys, sample, dense; /* of the filter; routed over all of it; put into shards that are as full */
    double error_rate;
    struct geometry geometry;
    unsigned missed; /* figures that are out of their bounds */
};

/* A line of the report. A figure over its bound is counted in @s->missed; @bound NAN: it has none. */
void sim_heading(const char *title);
void sim_note(const char *format, ...) PRINTF_LIKE(1, 2);
void sim_figure(struct sim *s, const char *what, double value, double bound, const char *unit);

/* The generation of the filter, over @nodes nodes. */
void sim_generation(const struct sim *s, unsigned nodes, uint64_t number, struct generation *out);

/* Each prints its part. What went wrong is an error; what is out of bounds is not. */
MUST_CHECK enum err sim_route(struct sim *s, struct error *e); /* route.c: shards, blocks, nodes */
MUST_CHECK enum err sim_dense(struct sim *s, struct error *e); /* dense.c: fill and false positives */
#endif
