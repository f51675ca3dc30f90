/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_WINDOW_H
#define EXPANSION_DECIDE_WINDOW_H
/* The hours of the day in which expansions may start, by the local wall clock: "01:00-05:00", several with
 * commas, over midnight "22:00-02:00", to the end of the day "18:00-24:00". Where clocks are changed they are
 * followed: a part that is jumped over is left out, one that comes twice is open twice. Pure. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"

enum { WINDOW_SPANS_MAX = 16 };

struct window {
    unsigned count; /* 0: always open */
    struct window_span {
        uint16_t from, to; /* minutes of the day; open in [from, to), over midnight where to <= from */
    } span[WINDOW_SPANS_MAX];
};

/* Blanks only: always open. ERR_PARSE says which part is wrong. On error *@out is untouched. */
MUST_CHECK enum err window_parse(struct window *out, const char *text, struct error *e);

bool window_is_open(const struct window *w, time_t now);
/* @now where it is open, else the minute at which it opens next; 0 where none is found within 3 days (of a
 * calendar that leaves out days). */
time_t window_next_open(const struct window *w, time_t now);

/* What waits for the window would wait too long: by the time it opens @items, which grow by
 * @items_per_second, are more than @capacity. */
bool window_must_start_now(uint64_t items, uint64_t capacity, double items_per_second,
                           uint64_t seconds_until_open);

/* --- how fast a filter grows --- */

/* Two numbers of items, some time apart. Zero-initialise. */
struct window_growth {
    uint64_t generation; /* in which they were counted */
    struct {
        uint64_t items, at_us;
    } older, newer;
};

/* @items of @generation are there at @now_us (clock_mono_us()). Call as often as you like. Returns how many
 * came in a second, over the last 5 to 10 minutes; 0 before a minute was seen, or where there are not more.
 */
double window_growth_note(struct window_growth *g, uint64_t generation, uint64_t items, uint64_t now_us);
#endif
