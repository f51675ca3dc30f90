/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_SCHEDULE_H
#define EXPANSION_DECIDE_SCHEDULE_H
/* Cron form: minute hour day-of-month month day-of-week; *, lists, ranges, steps, names of months and days;
 * day fields combine as in cron(8): if both are restricted either may match. Local time. Pure. */
#include <stdbool.h>
#include <stdint.h>
#include <time.h>
#include "base/error.h"

struct schedule {
    uint64_t minutes;
    uint32_t hours, days, months, weekdays;
    bool any_day, any_weekday;
};

/* ERR_PARSE names the field that is wrong. */
MUST_CHECK enum err schedule_parse(struct schedule *out, const char *text, struct error *e);
/* True if some minute in (after, until] matches. Spans over 366 days are cut to the last 366. */
bool schedule_due(const struct schedule *s, time_t after, time_t until);
/* The next matching minute after @after; 0 if none within 5 years. */
time_t schedule_next(const struct schedule *s, time_t after);
#endif
