/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_WINDOW_H
#define EXPANSION_DECIDE_WINDOW_H
/* The hours of the day in which expansions may start, by the local wall clock: "01:00-05:00", several
 * comma-separated, over midnight "22:00-02:00", to the end of the day "18:00-24:00". When clocks change, a
 * skipped part is omitted, and a repeated part is open twice. Pure. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"

enum { WINDOW_SPANS_MAX = 16 };

struct window {
    unsigned count; /* 0: always open */
    struct window_span {
        uint16_t from, to; /* minutes of the day; open in [from, to), over midnight if to <= from */
    } span[WINDOW_SPANS_MAX];
};

/* A blank text: always open. ERR_PARSE: the text names the invalid part. On error *@out is unchanged. */
MUST_CHECK enum err window_parse(struct window *out, const char *text, struct error *e);

bool window_is_open(const struct window *w, time_t now);
/* @now if the window is open, else the minute at which it opens next; 0: none within 3 days (as a calendar
 * may skip days). */
time_t window_next_open(const struct window *w, time_t now);

/* True if waiting for the window takes too long: by the time it opens, @items, growing by @items_per_second,
 * exceed @capacity. */
bool window_must_start_now(uint64_t items, uint64_t capacity, double items_per_second,
                           uint64_t seconds_until_open);

/* --- growth of a filter --- */

/* Two counts of items at different times. Zero-initialise. */
struct window_growth {
    uint64_t generation; /* the generation that was counted */
    struct {
        uint64_t items, at_us;
    } older, newer;
};

/* Record that @generation has @items at @now_us (clock_mono_us()). May be called at any rate. Returns the
 * items added per second over the last 5 to 10 minutes; 0: less than a minute was observed, or no growth. */
double window_growth_note(struct window_growth *g, uint64_t generation, uint64_t items, uint64_t now_us);
#endif
