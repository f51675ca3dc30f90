/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_THRESHOLD_H
#define EXPANSION_DECIDE_THRESHOLD_H
/* When a filter should grow. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "expansion/decide/window.h"

struct threshold_input {
    bool built;               /* the current generation was built whole */
    uint64_t lost_shards;     /* shards of the current generation that were found lost */
    uint64_t items;           /* in the current generation */
    uint64_t capacity;        /* of it */
    uint64_t source_rows;     /* estimate; 0: unknown, or none */
    bool rows_known;          /* they were counted, or come from statistics */
    uint64_t rows_margin;     /* by which they may well be wrong */
    uint64_t bytes;           /* memory of the current generation */
    double expand_at;         /* items / capacity */
    double expand_at_dead;    /* dead keys / items; 0: never */
    uint64_t dead_at_build;   /* keys that counted as dead when the generation was new; 0: unknown, or none */
    unsigned dead_looks;      /* of threshold_dead_look() */
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
    THRESHOLD_DEAD,     /* many of its keys have no row any more */
    THRESHOLD_TOTAL,
    THRESHOLD_BYTES,
    THRESHOLD_SCHEDULE
};

enum { THRESHOLD_DEAD_LOOKS = 2 };

/* Looks in a row at which too many keys were dead; zero-initialise. */
struct threshold_dead {
    uint64_t generation, look;
    unsigned looks;
};

/* Keys of the current generation that no row of the source has, by the counts of both. */
uint64_t threshold_dead_keys(const struct threshold_input *in);

/* Note what @in says of dead keys and return at how many looks in a row they were too many; below
 * THRESHOLD_DEAD_LOOKS they are no reason yet. Too many: beyond the margin of the rows, and beyond what
 * counted as dead when the generation was new, as what one rebuild did not take away (an estimate that is
 * always too low, keys that were counted twice) the next one would not either. @look numbers the looks at the
 * source, from 1. One counts once, however often it is noted; the one that was the last when @generation came
 * into use does not count, as it may be older. */
unsigned threshold_dead_look(struct threshold_dead *d, const struct threshold_input *in, uint64_t generation,
                             uint64_t look);

/* The first reason that holds, in the order of the enum; @text (for people, e.g. "1,000,000 of 800,000 items
 * (1.25) >= 0.80") is filled where it is not NONE. Total compares max(items, source_rows). Dead keys
 * come before what is full: the rebuild that leaves them out needs not grow. */
enum threshold_reason threshold_evaluate(const struct threshold_input *in, char *text, size_t text_size);

/* True where an expansion for @reason has to wait until @window opens: a filter that answers well enough may
 * be told to expand at some hours only. One that cannot say "no" (not built, or lost) does not wait, nor does
 * one that is over its planned capacity already (it has further layers) or would be by then
 * (@items_per_second: see window_growth_note()). */
bool threshold_waits(enum threshold_reason reason, const struct threshold_input *in,
                     const struct window *window, double items_per_second, time_t now);

/* "unbuilt", "lost", "overflow", "dead", "total", "bytes", "schedule". */
const char *threshold_name(enum threshold_reason reason);
#endif
