/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_FORECAST_H
#define EXPANSION_DECIDE_FORECAST_H
/* When the next expansion of a filter is to be expected, if all goes on as it does. Pure. */
#include <stdint.h>
#include <time.h>
#include "expansion/decide/schedule.h"
#include "expansion/decide/window.h"

struct forecast_input {
    uint64_t items; /* that it has, or the rows of its source where those are more */
    uint64_t capacity;
    double expand_at;                /* items / capacity; 0: never */
    double items_per_second;         /* see window_growth_note(); 0: unknown, or none */
    const struct schedule *schedule; /* NULL: none */
    const struct window *window;     /* NULL: always open */
};

enum forecast_reason { FORECAST_NONE, FORECAST_FILL, FORECAST_SCHEDULE };

/* Of the fill, whose growth is taken to be steady, and the schedule the one that comes first; not before the
 * window opens, unless the filter would be over its capacity by then. *@out is @now where it is due. What
 * lies further ahead than FORECAST_DAYS is not known: FORECAST_NONE, and 0. */
enum { FORECAST_DAYS = 3660 };
enum forecast_reason forecast_expansion(time_t *out, const struct forecast_input *in, time_t now);

const char *forecast_reason_name(enum forecast_reason reason); /* "", "fill", "schedule" */
#endif
