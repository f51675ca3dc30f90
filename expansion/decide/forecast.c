/* SPDX-License-Identifier: MIT */
#include "expansion/decide/forecast.h"

/* When the fill reaches its threshold; 0: unknown. */
static time_t by_fill(const struct forecast_input *in, time_t now)
{
    double target = in->expand_at * (double)in->capacity;
    if (!(target > 0))
        return 0;
    if ((double)in->items >= target)
        return now;
    double seconds = in->items_per_second > 0 ? (target - (double)in->items) / in->items_per_second : -1;
    return seconds >= 0 && seconds <= FORECAST_DAYS * 86400.0 ? now + (time_t)seconds : 0;
}

/* When an expansion that is due at @at may begin; 0: the window never opens. */
static time_t opened(const struct forecast_input *in, time_t at, time_t now)
{
    if (in->window == NULL)
        return at;
    time_t open = window_next_open(in->window, at);
    uint64_t items = in->items + (uint64_t)(in->items_per_second * (double)(at - now));
    if (open <= at)
        return open;
    return window_must_start_now(items, in->capacity, in->items_per_second, (uint64_t)(open - at)) ? at
                                                                                                   : open;
}

enum forecast_reason forecast_expansion(time_t *out, const struct forecast_input *in, time_t now)
{
    time_t fill = by_fill(in, now), due = in->schedule == NULL ? 0 : schedule_next(in->schedule, now);
    if (fill != 0)
        fill = opened(in, fill, now);
    if (due != 0)
        due = opened(in, due, now);
    bool scheduled = due != 0 && (fill == 0 || due < fill);
    *out = scheduled ? due : fill;
    return scheduled ? FORECAST_SCHEDULE : fill != 0 ? FORECAST_FILL : FORECAST_NONE;
}

const char *forecast_reason_name(enum forecast_reason reason)
{
    return reason == FORECAST_FILL ? "fill" : reason == FORECAST_SCHEDULE ? "schedule" : "";
}
