/* SPDX-License-Identifier: MIT */
#include "expansion/decide/schedule.h"

#include <string.h>
#include <strings.h>

#include "base/span.h"

/* --- parsing --- */

struct field {
    const char *name;
    unsigned first, last;
    const char *names; /* names of three letters for the values from @first on; "": none */
};

enum { MINUTE, HOUR, DAY, MONTH, WEEKDAY, FIELDS };

static const struct field fields[FIELDS] = {
    [MINUTE] = {"minute", 0, 59, ""},
    [HOUR] = {"hour", 0, 23, ""},
    [DAY] = {"day of month", 1, 31, ""},
    [MONTH] = {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    [WEEKDAY] = {"day of week", 0, 7, "sunmontuewedthufrisatsun"},
};

static enum err bad(const struct field *f, struct span s, const char *why, struct error *e)
{
    return error_set(e, ERR_PARSE, "%s \"%.*s\": %s", f->name, (int)(s.length < 64 ? s.length : 64), s.at,
                     why);
}

/* A name that stands for two values (sun) means the first of them that is at least @not_before. */
static bool parse_value(const struct field *f, struct span s, unsigned not_before, unsigned *out)
{
    uint64_t number;
    if (s.length <= 4 && number_u64(s.at, s.length, &number)) {
        *out = (unsigned)number;
        return number >= f->first && number <= f->last;
    }
    size_t count = strlen(f->names) / 3;
    bool found = false;
    for (unsigned i = 0; s.length == 3 && i < count; i++) {
        if (strncasecmp(f->names + (size_t)3 * i, s.at, 3) != 0 || (found && *out >= not_before))
            continue;
        *out = f->first + i;
        found = true;
    }
    return found;
}

/* Parse one element of a list: *, value, from-to; all but a single value may have a /step. */
static enum err parse_element(const struct field *f, struct span element, uint64_t *bits, struct error *e)
{
    struct span step_text = element, range, to_text, value;
    uint64_t step = 1;
    (void)span_cut(&step_text, '/', &range);
    bool stepped = step_text.at != NULL;
    if (stepped && (!number_u64(step_text.at, step_text.length, &step) || step == 0))
        return bad(f, element, "the step must be a number from 1", e);

    unsigned from = f->first;
    unsigned to = f->last;
    if (range.length != 1 || range.at[0] != '*') {
        to_text = range;
        (void)span_cut(&to_text, '-', &value);
        bool ranged = to_text.at != NULL;
        if (!parse_value(f, value, f->first, &from) || (ranged && !parse_value(f, to_text, from, &to)))
            return error_set(e, ERR_PARSE, "%s \"%.*s\": expected *, or %s%u to %u, or a range of these",
                             f->name, (int)(element.length < 64 ? element.length : 64), element.at,
                             f->names[0] == '\0' ? "" : "a name, or ", f->first, f->last);
        if (stepped && !ranged)
            return bad(f, element, "a step needs * or a range before it", e);
        if (!ranged)
            to = from;
        if (from > to)
            return bad(f, element, "the range runs backwards", e);
    }
    for (uint64_t v = from; v <= to; v += step) {
        *bits |= UINT64_C(1) << v;
        if (step > f->last)
            break;
    }
    return ERR_OK;
}

static enum err parse_field(const struct field *f, struct span text, uint64_t *bits, struct error *e)
{
    struct span rest = text, element;
    enum err code = ERR_OK;
    *bits = 0;
    while (code == ERR_OK && span_cut(&rest, ',', &element))
        code = element.length == 0 ? bad(f, text, "an element of the list is empty", e)
                                   : parse_element(f, element, bits, e);
    return code;
}

enum err schedule_parse(struct schedule *out, const char *text, struct error *e)
{
    static const char blanks[] = " \t";
    uint64_t bits[FIELDS];
    bool star[FIELDS];
    const char *at = text;
    for (int i = 0; i < FIELDS; i++) {
        at += strspn(at, blanks);
        struct span s = {at, strcspn(at, blanks)};
        if (s.length == 0)
            return error_set(e, ERR_PARSE,
                             "%s is missing: a schedule is \"minute hour day-of-month month day-of-week\"",
                             fields[i].name);
        enum err rc = parse_field(&fields[i], s, &bits[i], e);
        if (rc != ERR_OK)
            return rc;
        star[i] = s.at[0] == '*';
        at += s.length;
    }
    at += strspn(at, blanks);
    if (*at != '\0')
        return error_set(e, ERR_PARSE, "\"%.64s\" after the five fields of a schedule", at);

    bool comes = !star[DAY] && !star[WEEKDAY]; /* then a day of the week is enough */
    for (unsigned m = 1; m <= 12; m++) {
        unsigned last = m == 2 ? 29 : 30 + (m + m / 8) % 2;
        comes |= (bits[MONTH] >> m & 1u) != 0 && (bits[DAY] & ((UINT64_C(2) << last) - 1)) != 0;
    }
    if (!comes)
        return error_set(e, ERR_PARSE, "no month of the schedule has such a day");

    if ((bits[WEEKDAY] & (1u << 7)) != 0) /* Sunday is 0 and 7 */
        bits[WEEKDAY] = (bits[WEEKDAY] & 0x7fu) | 1u;
    *out = (struct schedule){.minutes = bits[MINUTE],
                             .hours = (uint32_t)bits[HOUR],
                             .days = (uint32_t)bits[DAY],
                             .months = (uint32_t)bits[MONTH],
                             .weekdays = (uint32_t)bits[WEEKDAY],
                             .any_day = star[DAY],
                             .any_weekday = star[WEEKDAY]};
    return ERR_OK;
}

/* --- matching --- */

enum { MINUTE_SECONDS = 60, QUARTER = 900, HOUR_SECONDS = 3600, LARGEST_SHIFT = 3 * HOUR_SECONDS };
enum { EVERY_HOUR = 0xffffff };

static bool day_matches(const struct schedule *s, const struct tm *tm)
{
    if ((s->months >> (tm->tm_mon + 1) & 1u) == 0)
        return false;
    bool day = (s->days >> tm->tm_mday & 1u) != 0;
    bool weekday = (s->weekdays >> tm->tm_wday & 1u) != 0;
    return s->any_day || s->any_weekday ? day && weekday : day || weekday;
}

static bool wall_matches(const struct schedule *s, const struct tm *tm)
{
    return (s->minutes >> tm->tm_min & 1u) != 0 && (s->hours >> tm->tm_hour & 1u) != 0 && day_matches(s, tm);
}

static long offset_at(time_t t)
{
    struct tm tm;
    return localtime_r(&t, &tm) == NULL ? 0 : tm.tm_gmtoff;
}

/* True if a matching minute of the wall clock was skipped just before @t (clocks went forward). */
static bool skipped_matches(const struct schedule *s, time_t t, long before, long now)
{
    if (now <= before || now - before > LARGEST_SHIFT)
        return false;
    for (time_t wall = t + before; wall < t + now; wall += MINUTE_SECONDS) {
        struct tm tm;
        if (gmtime_r(&wall, &tm) != NULL && wall_matches(s, &tm))
            return true;
    }
    return false;
}

/* True if the wall clock has shown the minute of @t before (clocks went back). */
static bool is_repeated(time_t t, long now)
{
    long earlier = offset_at(t - LARGEST_SHIFT);
    return earlier > now && offset_at(t + now - earlier) == earlier;
}

/* A schedule that names its hours runs once when clocks change: a skipped time is due after the change, a
 * repeated time is due at its first occurrence. A schedule for every hour follows the clock. */
static bool minute_matches(const struct schedule *s, time_t t, const struct tm *tm)
{
    bool match = wall_matches(s, tm);
    if (s->hours == EVERY_HOUR)
        return match;
    if (match)
        return !is_repeated(t, tm->tm_gmtoff);
    return t % QUARTER == 0 && skipped_matches(s, t, offset_at(t - MINUTE_SECONDS), tm->tm_gmtoff);
}

/* The next time to examine after @t, which does not match. Clocks change at quarters of an hour, so stop at
 * each quarter; of a day that does not match, skip most. */
static time_t advance(const struct schedule *s, time_t t, const struct tm *tm)
{
    if (day_matches(s, tm) && (s->hours >> tm->tm_hour & 1u) != 0)
        return t + MINUTE_SECONDS;
    if (!day_matches(s, tm) && tm->tm_hour < 20)
        t += (time_t)(20 - tm->tm_hour) * HOUR_SECONDS - QUARTER;
    return t - t % QUARTER + QUARTER;
}

/* Find the first matching minute in (after, until]; false: there is none. */
static bool first_match(const struct schedule *s, time_t after, time_t until, time_t *out)
{
    for (time_t t = after - after % MINUTE_SECONDS + MINUTE_SECONDS; t <= until;) {
        struct tm tm;
        if (localtime_r(&t, &tm) == NULL)
            return false;
        if (minute_matches(s, t, &tm)) {
            *out = t;
            return true;
        }
        t = advance(s, t, &tm);
    }
    return false;
}

bool schedule_due(const struct schedule *s, time_t after, time_t until)
{
    static const time_t longest = (time_t)366 * 24 * HOUR_SECONDS;
    if (until - longest > after)
        after = until - longest;
    time_t match;
    return after >= 0 && first_match(s, after, until, &match);
}

time_t schedule_next(const struct schedule *s, time_t after)
{
    static const time_t horizon = (time_t)(5 * 366) * 24 * HOUR_SECONDS;
    time_t match;
    return after >= 0 && first_match(s, after, after + horizon, &match) ? match : 0;
}
