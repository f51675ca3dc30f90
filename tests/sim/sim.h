/* SPDX-License-Identifier: MIT */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H
/* sim: a filter larger than any machine of the tests, with the real geometry, hash, names and placement. A
 * sample stands for the filter's keys, and the report says so. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"

struct sim {
    /* Keys of the filter; keys routed over all shards; keys put into dense shards. */
    uint64_t keys, sample, dense;
    double error_rate;
    struct geometry geometry;
    unsigned missed; /* figures that are out of their bounds */
};

/* Print a line of the report. A figure over its bound is counted in @s->missed. @bound is NAN if there is
 * none. */
void sim_heading(const char *title);
void sim_note(const char *format, ...) PRINTF_LIKE(1, 2);
void sim_figure(struct sim *s, const char *what, double value, double bound, const char *unit);

/* Make the generation of the filter, on @nodes nodes. */
void sim_generation(const struct sim *s, unsigned nodes, uint64_t number, struct generation *out);

/* Each prints its part of the report. A figure out of its bound is no error. */
MUST_CHECK enum err sim_route(struct sim *s, struct error *e); /* route.c: shards, blocks, nodes */
MUST_CHECK enum err sim_dense(struct sim *s, struct error *e); /* dense.c: fill and false positives */
#endif
