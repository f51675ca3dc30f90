/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_FORECAST_H
#define EXPANSION_DECIDE_FORECAST_H
/* Forecasts a filter's next expansion from its present growth. Pure. */
#include <stdint.h>
#include <time.h>
#include "expansion/decide/schedule.h"
#include "expansion/decide/window.h"

struct forecast_input {
    uint64_t items; /* items in the filter, or the rows of its source if there are more */
    uint64_t capacity;
    double expand_at;                /* items / capacity; 0: never */
    double items_per_second;         /* see window_growth_note(); 0: unknown, or none */
    const struct schedule *schedule; /* NULL: none */
    const struct window *window;     /* NULL: always open */
};

enum forecast_reason { FORECAST_NONE, FORECAST_FILL, FORECAST_SCHEDULE };

/* The earlier of two times: when the fill reaches expand_at at steady growth, and when the schedule is due.
 * Not before the window opens, unless the filter would be over its capacity by then. *@out is @now if an
 * expansion is due. A time more than FORECAST_DAYS ahead gives FORECAST_NONE and 0. */
enum { FORECAST_DAYS = 3660 };
enum forecast_reason forecast_expansion(time_t *out, const struct forecast_input *in, time_t now);

const char *forecast_reason_name(enum forecast_reason reason); /* "", "fill", "schedule" */
#endif
