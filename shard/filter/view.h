/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_VIEW_H
#define SHARD_FILTER_VIEW_H
/* The view of a filter (shard/view/log_view.h) as a summary, for code that does not follow the log:
 * administration, plans, jobs, status. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "shard/filter/generation.h"

/* The format of views. Fields that a coordinator may ignore without harm can be added at any time: unknown
 * fields are skipped, and stay in Redis. Anything else needs a new format: a coordinator that meets another
 * format neither answers from the filter nor changes it. Formats 1 and 2 had shards only. */
enum { VIEW_FORMAT = 3 };

/* What a filter is doing, as the status shows it. */
enum phase {
    PHASE_STEADY,   /* one generation, of one layer */
    PHASE_BUILDING, /* another generation is being built */
    PHASE_SWITCHED, /* the new generation is read; the one before it is kept, for the way back */
    PHASE_OVERFLOW, /* one generation, of several layers */
    PHASE_COUNT
};
const char *phase_name(enum phase phase);

struct view {
    uint64_t incarnation;
    uint64_t epoch; /* the view's version */
    enum phase phase;
    bool current;              /* bloom_filter_current_index: the slot, 0 or 1, of the generation that is
                                * read */
    struct generation slot[2]; /* generation g is in slot g % 2 */
    uint64_t last_generation;  /* the highest generation number so far; numbers are never used again */
    uint32_t expansion;        /* growth factor of layers; 0: non-scaling */
    bool sourced;              /* has a Postgres source */
    bool degraded;             /* acknowledged keys may be missing */
    bool deleting;
    uint64_t expire_at_ms; /* wall clock; 0: never */
    uint64_t healthy_ms;   /* when the filter became healthy last (wall clock, ms; 0: unknown) */
    uint64_t keys[2];      /* keys folded so far into the generation in each slot */
};

const struct generation *view_current(const struct view *v);
/* The generation of the other slot, or NULL if that slot is empty. */
const struct generation *view_alternate(const struct view *v);
/* What the generations of @v say that the filter is doing. */
enum phase view_phase(const struct view *v);
#endif
