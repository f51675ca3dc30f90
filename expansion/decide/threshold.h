/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_THRESHOLD_H
#define EXPANSION_DECIDE_THRESHOLD_H
/* Decides when a filter should grow. Pure; no I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include "expansion/decide/window.h"
#include "shard/filter/generation.h"

struct threshold_input {
    bool built;               /* the current generation was built completely */
    uint64_t lost_shards;     /* of the current generation */
    unsigned older_looks;     /* result of threshold_older_look() */
    uint64_t items;           /* in the current generation */
    uint64_t capacity;        /* of the current generation */
    uint64_t source_rows;     /* estimate; 0: unknown, or none */
    bool rows_known;          /* counted, or from statistics */
    uint64_t rows_margin;     /* the likely error of source_rows */
    uint64_t bytes;           /* Redis memory of the current generation */
    double expand_at;         /* items / capacity */
    double expand_at_dead;    /* dead keys / items; 0: never */
    uint64_t dead_at_build;   /* keys considered dead when the generation was new; 0: unknown, or none */
    unsigned dead_looks;      /* result of threshold_dead_look() */
    uint64_t expand_at_bytes; /* 0: never */
    bool schedule_due;
    unsigned layers;   /* of the current generation */
    double rate_bound; /* false-positive rate with all layers full */
};

enum threshold_reason {
    THRESHOLD_NONE,
    THRESHOLD_UNBUILT,
    THRESHOLD_LOST,
    THRESHOLD_OLDER,    /* the database is in an earlier state than the last rebuild has read */
    THRESHOLD_OVERFLOW, /* it has more than one layer */
    THRESHOLD_DEAD,     /* many of its keys have no row any more */
    THRESHOLD_TOTAL,
    THRESHOLD_BYTES,
    THRESHOLD_SCHEDULE
};

enum { THRESHOLD_DEAD_LOOKS = 2, THRESHOLD_OLDER_LOOKS = 2 };

/* Counts consecutive looks with too many dead keys; zero-initialise. */
struct threshold_dead {
    uint64_t generation, look;
    unsigned looks;
};

/* Counts consecutive looks at a database that went back; zero-initialise. */
struct threshold_older {
    uint64_t read_upto, look;
    unsigned looks;
};

/* Return at how many consecutive looks the database had given ids to fewer transactions (@given; 0: unknown)
 * than the last rebuild has read (@read_upto): it may have rows again that were deleted before. @look numbers
 * the looks, from 1. The last look before a rebuild ended does not count, nor does one that was alone: `dsn`
 * may lead elsewhere for a moment. */
unsigned threshold_older_look(struct threshold_older *o, uint64_t given, uint64_t read_upto, uint64_t look);

/* Keys of the current generation without a row in the source: the difference of both counts. */
uint64_t threshold_dead_keys(const struct threshold_input *in);

/* Record the dead keys in @in, and return at how many consecutive looks there were too many; below
 * THRESHOLD_DEAD_LOOKS they are no reason to rebuild. "Too many" means more than the margin of the rows, and
 * more than were considered dead when the generation was new: what one rebuild did not remove (an estimate
 * that is always too low, keys counted twice) the next would not remove either. @look numbers the looks at
 * the source, from 1. A look counts once, however often it is reported. The last look before @generation came
 * into use does not count, as it may be older. */
unsigned threshold_dead_look(struct threshold_dead *d, const struct threshold_input *in, uint64_t generation,
                             uint64_t look);

/* Returns the first reason that holds, in the order of the enum. Fills @text for people unless it is NONE,
 * e.g. "1,000,000 of 800,000 items (1.25) >= 0.80". The total compares max(items, source_rows). Dead keys
 * come before fullness: the rebuild that removes them need not grow. */
enum threshold_reason threshold_evaluate(const struct threshold_input *in, char *text, size_t text_size);

/* True if an expansion for @reason must wait until @window opens. A filter that works well enough may be
 * restricted to certain hours. No wait if the filter cannot answer "absent" (unbuilt or lost) or may answer
 * it wrongly (older), is over its planned capacity (it has more layers), or would be by then
 * (@items_per_second: see window_growth_note()). */
bool threshold_waits(enum threshold_reason reason, const struct threshold_input *in,
                     const struct window *window, double items_per_second, time_t now);

/* When a job may be started after one that ended at @finished_ms, @wait_ms later; 0: now. Wall clocks, in
 * milliseconds. Whoever wrote @finished_ms may have had a clock that was ahead: the wait is never longer than
 * twice @wait_ms. */
uint64_t threshold_retry_at(uint64_t finished_ms, uint64_t wait_ms, uint64_t now_ms);

/* True if an expansion that began at @expanded_ms has served a schedule that was due at @due. An expansion
 * that begins in the future was noted by a clock that was ahead, and does not count. */
bool threshold_has_served(uint64_t expanded_ms, time_t due, time_t now);

/* "unbuilt", "lost", "older", "overflow", "dead", "total", "bytes", "schedule". */
const char *threshold_name(enum threshold_reason reason);

/* The highest false-positive rate of @g with all layers full: the sum of the layers' rates. */
double threshold_rate_bound(const struct generation *g);
#endif
