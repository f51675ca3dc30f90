/* SPDX-License-Identifier: MIT */
#include "expansion/decide/window.h"

#include <string.h>

#include "base/span.h"

enum { MINUTE_SECONDS = 60, DAY_MINUTES = 24 * 60, QUARTER_MINUTES = 15, HORIZON_DAYS = 3 };

/* --- parsing --- */

/* Parse "HH:MM" with blanks around it; 24:00 is the end of the day. */
static bool parse_time(const char *text, size_t length, uint16_t *out)
{
    uint64_t hour, minute;
    while (length > 0 && (*text == ' ' || *text == '\t'))
        text++, length--;
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    if (length != 5 || text[2] != ':' || !number_u64(text, 2, &hour) || !number_u64(text + 3, 2, &minute) ||
        minute > 59 || hour * 60 + minute > DAY_MINUTES)
        return false;
    *out = (uint16_t)(hour * 60 + minute);
    return true;
}

static enum err parse_span(struct window_span *out, const char *text, size_t length, struct error *e)
{
    const char *dash = memchr(text, '-', length);
    int shown = (int)(length < 64 ? length : 64);
    if (dash == NULL || !parse_time(text, (size_t)(dash - text), &out->from) ||
        !parse_time(dash + 1, (size_t)(text + length - dash) - 1, &out->to))
        return error_set(e, ERR_PARSE, "\"%.*s\" is not a span of the day such as 22:00-06:00", shown, text);
    if (out->from == DAY_MINUTES)
        return error_set(e, ERR_PARSE, "\"%.*s\" begins at 24:00; write 00:00", shown, text);
    if (out->from == out->to)
        return error_set(e, ERR_PARSE, "\"%.*s\" is empty; for the whole day write 00:00-24:00", shown, text);
    return ERR_OK;
}

enum err window_parse(struct window *out, const char *text, struct error *e)
{
    struct window w = {0};
    if (text[strspn(text, " \t")] == '\0') {
        *out = w;
        return ERR_OK;
    }
    struct span rest = {text, strlen(text)}, piece;
    while (span_cut(&rest, ',', &piece)) {
        if (w.count == WINDOW_SPANS_MAX)
            return error_set(e, ERR_PARSE, "more than %d spans", WINDOW_SPANS_MAX);
        enum err code = parse_span(&w.span[w.count++], piece.at, piece.length, e);
        if (code != ERR_OK)
            return code;
    }
    *out = w;
    return ERR_OK;
}

/* --- the wall clock --- */

static bool minute_of_day(time_t t, unsigned *out)
{
    struct tm tm;
    if (localtime_r(&t, &tm) == NULL)
        return false;
    *out = (unsigned)(tm.tm_hour * 60 + tm.tm_min);
    return true;
}

static bool covers(const struct window_span *s, unsigned minute)
{
    return s->from < s->to ? minute >= s->from && minute < s->to : minute >= s->from || minute < s->to;
}

static bool is_open_at(const struct window *w, unsigned minute)
{
    for (unsigned i = 0; i < w->count; i++)
        if (covers(&w->span[i], minute))
            return true;
    return w->count == 0;
}

bool window_is_open(const struct window *w, time_t now)
{
    unsigned minute;
    return w->count == 0 || !minute_of_day(now, &minute) || is_open_at(w, minute);
}

/* Minutes from @minute to the next look: to the beginning of a span, but at most to the next quarter of an
 * hour, because clocks change at quarters. */
static unsigned until_next_look(const struct window *w, unsigned minute)
{
    unsigned best = QUARTER_MINUTES - minute % QUARTER_MINUTES;
    for (unsigned i = 0; i < w->count; i++) {
        unsigned away = (w->span[i].from + DAY_MINUTES - minute) % DAY_MINUTES;
        if (away != 0 && away < best)
            best = away;
    }
    return best;
}

time_t window_next_open(const struct window *w, time_t now)
{
    if (window_is_open(w, now))
        return now;
    const time_t horizon = now + (time_t)HORIZON_DAYS * DAY_MINUTES * MINUTE_SECONDS;
    unsigned minute;
    for (time_t t = now - now % MINUTE_SECONDS; t <= horizon && minute_of_day(t, &minute);
         t += (time_t)until_next_look(w, minute) * MINUTE_SECONDS)
        if (is_open_at(w, minute))
            return t;
    return 0;
}

bool window_must_start_now(uint64_t items, uint64_t capacity, double items_per_second,
                           uint64_t seconds_until_open)
{
    return (double)items + items_per_second * (double)seconds_until_open > (double)capacity;
}

/* --- growth --- */

enum { HALF_US = 5 * 60 * 1000 * 1000, LEAST_US = 60 * 1000 * 1000 };

double window_growth_note(struct window_growth *g, uint64_t generation, uint64_t items, uint64_t now_us)
{
    if (g->older.at_us == 0 || g->generation != generation) {
        g->generation = generation;
        g->older.items = g->newer.items = items;
        g->older.at_us = g->newer.at_us = now_us;
    }
    if (now_us - g->newer.at_us >= HALF_US) {
        g->older = g->newer;
        g->newer.items = items;
        g->newer.at_us = now_us;
    }
    uint64_t passed = now_us - g->older.at_us;
    if (passed < LEAST_US || items <= g->older.items)
        return 0;
    return (double)(items - g->older.items) * 1e6 / (double)passed;
}
