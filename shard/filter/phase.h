/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_PHASE_H
#define SHARD_FILTER_PHASE_H
/* What a filter is doing, as the status shows it. */
enum phase { PHASE_STEADY, PHASE_BUILDING, PHASE_SWITCHED, PHASE_OVERFLOW, PHASE_COUNT };

struct phase_row {
    const char *name;
    const char *summary; /* for people */
};

const struct phase_row *phase_row(enum phase phase);
/* The phase of a filter that has one generation, of @layers layers. */
enum phase phase_alone(unsigned layers);
#endif
