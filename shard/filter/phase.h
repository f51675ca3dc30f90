/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_PHASE_H
#define SHARD_FILTER_PHASE_H
/* What a filter is doing, as the status shows it. */
enum phase {
    PHASE_STEADY,   /* one generation, of one layer */
    PHASE_BUILDING, /* another generation is being built */
    PHASE_SWITCHED, /* the new generation is read; the one before it is kept, for the way back */
    PHASE_OVERFLOW, /* one generation, of several layers */
    PHASE_COUNT
};

struct phase_row {
    const char *name;
};

const struct phase_row *phase_row(enum phase phase);
#endif
