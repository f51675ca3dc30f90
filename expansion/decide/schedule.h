/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_SCHEDULE_H
#define EXPANSION_DECIDE_SCHEDULE_H
/* Cron syntax: minute hour day-of-month month day-of-week; *, lists, ranges, steps, names of months and days.
 * If both day fields are restricted, one of them must match, as in cron(8). Local time. Pure. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"

struct schedule {
    uint64_t minutes;
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday;
};

/* ERR_PARSE: the text names the invalid field. */
MUST_CHECK enum err schedule_parse(struct schedule *out, const char *text, struct error *e);
/* True if some minute in (after, until] matches. Of a span over 366 days only the last 366 are examined. */
bool schedule_due(const struct schedule *s, time_t after, time_t until);
/* The next matching minute after @after; 0: none within 5 years. */
time_t schedule_next(const struct schedule *s, time_t after);
#endif
