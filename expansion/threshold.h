/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_THRESHOLD_H
#define EXPANSION_THRESHOLD_H
/* When a filter should grow. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "expansion/window.h"

struct threshold_input {
    bool built;                  /* the current generation was built whole */
    uint64_t lost_shards;        /* shards of the current generation that were found lost */
    uint64_t items;              /* in the current generation */
    uint64_t capacity;           /* of it */
    uint64_t source_rows;        /* estimate; 0: unknown */
    const uint64_t *shard_items; /* of its written layer, one a shard; may be NULL */
    uint32_t shard_count;
    uint64_t shard_capacity;  /* capacity / shards of that layer */
    uint64_t bytes;           /* memory of the current generation */
    double expand_at;         /* items / capacity */
    uint64_t expand_at_bytes; /* 0: never */
    bool schedule_due;
    unsigned layers;   /* of the current generation */
    double rate_bound; /* false-positive rate that it may reach with its layers full */
};

enum threshold_reason {
    THRESHOLD_NONE,
    THRESHOLD_UNBUILT,
    THRESHOLD_LOST,
    THRESHOLD_OVERFLOW, /* it has got a further layer */
    THRESHOLD_TOTAL,
    THRESHOLD_SHARD,
    THRESHOLD_BYTES,
    THRESHOLD_SCHEDULE
};

/* The first reason that holds, in the order of the enum; @text (for people, e.g. "1,000,000 of 800,000 items
 * (1.25) >= 0.80") is filled where it is not NONE. Total compares max(items, source_rows). Small shards are
 * not judged by their random scatter: a shard counts as full when its items pass expand_at by more than 4
 * standard deviations. */
enum threshold_reason threshold_evaluate(const struct threshold_input *in, char *text, size_t text_size);

/* True where an expansion for @reason has to wait until @window opens: a filter that answers well enough may
 * be told to expand at some hours only. One that cannot say "no" (not built, or lost) does not wait, nor does
 * one that is over its planned capacity already (it has further layers) or would be by then
 * (@items_per_second: see window_growth_note()). */
bool threshold_waits(enum threshold_reason reason, const struct threshold_input *in,
                     const struct window *window, double items_per_second, time_t now);

/* "unbuilt", "lost", "overflow", "total", "shard", "bytes", "schedule". */
const char *threshold_name(enum threshold_reason reason);
#endif
