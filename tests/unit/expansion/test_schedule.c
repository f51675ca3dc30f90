/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "expansion/decide/schedule.h"

static struct schedule parsed(const char *text)
{
    struct schedule s;
    struct error e = {""};
    if (schedule_parse(&s, text, &e) != ERR_OK)
        fail_msg("\"%s\": %s", text, e.text);
    return s;
}

static void zone(const char *tz)
{
    assert_int_equal(setenv("TZ", tz, 1), 0);
    tzset();
}

static int to_utc(void **state)
{
    (void)state;
    zone("UTC0");
    return 0;
}

/* Seconds since the epoch of a UTC time in the form 2026-03-29 01:00. */
static time_t utc(const char *text)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%d %H:%M", &tm);
    assert_non_null(end);
    assert_int_equal(*end, '\0');
    return timegm(&tm);
}

static void assert_next(const char *schedule, const char *after, const char *expected)
{
    struct schedule s = parsed(schedule);
    time_t next = schedule_next(&s, utc(after));
    char text[32] = "never";
    struct tm tm;
    if (next != 0 && gmtime_r(&next, &tm) != NULL)
        assert_true(strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm) > 0);
    if (strcmp(text, expected) != 0)
        fail_msg("\"%s\" after %s: %s, expected %s", schedule, after, text, expected);
}

static void assert_refused(const char *text, const char *expected)
{
    struct schedule s;
    struct error e = {""};
    assert_int_equal(schedule_parse(&s, text, &e), ERR_PARSE);
    if (strstr(e.text, expected) == NULL)
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, e.text, expected);
}

static void test_schedule_parse__reads_stars_lists_ranges_and_steps(void **state)
{
    (void)state;
    struct schedule s = parsed("*/15 1-5/2 1,15,31 * *");
    assert_true(s.minutes == (1ull | 1ull << 15 | 1ull << 30 | 1ull << 45));
    assert_int_equal(s.hours, 1 << 1 | 1 << 3 | 1 << 5);
    assert_int_equal(s.days, 1u << 1 | 1u << 15 | 1u << 31);
    assert_int_equal(s.months, 0x1ffe);
    assert_int_equal(s.weekdays, 0x7f);
    assert_false(s.any_day);
    assert_true(s.any_weekday);
    s = parsed(" 59\t23 */10,2 12 1 ");
    assert_true(s.minutes == 1ull << 59);
    assert_int_equal(s.days, 1 << 1 | 1 << 2 | 1 << 11 | 1 << 21 | 1u << 31);
    assert_true(s.any_day);
    assert_true(parsed("*/99 * * * *").minutes == 1);
    assert_true(parsed("7-59/18446744073709551615 * * * *").minutes == 1u << 7);
}

static void test_schedule_parse__reads_names_in_any_case(void **state)
{
    (void)state;
    struct schedule s = parsed("0 0 * Jan,mar-MAY,dec mon-FRI");
    assert_int_equal(s.months, 1 << 1 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 12);
    assert_int_equal(s.weekdays, 0x3e);
}

static void test_schedule_parse__takes_sunday_as_0_as_7_and_by_name(void **state)
{
    (void)state;
    assert_int_equal(parsed("0 0 * * 0").weekdays, 1);
    assert_int_equal(parsed("0 0 * * 7").weekdays, 1);
    assert_int_equal(parsed("0 0 * * sun").weekdays, 1);
    assert_int_equal(parsed("0 0 * * fri-sun").weekdays, 1 << 5 | 1 << 6 | 1);
    assert_int_equal(parsed("0 0 * * 5-7").weekdays, 1 << 5 | 1 << 6 | 1);
    assert_int_equal(parsed("0 0 * * sun-tue").weekdays, 7);
    assert_int_equal(parsed("0 0 * * *").weekdays, 0x7f);
}

static void test_schedule_parse__names_the_field_that_is_wrong(void **state)
{
    (void)state;
    assert_refused("", "minute is missing");
    assert_refused("0 3 * *", "day of week is missing");
    assert_refused("60 * * * *", "minute \"60\": expected *, or 0 to 59");
    assert_refused("* 24 * * *", "hour \"24\"");
    assert_refused("* * 0 * *", "day of month \"0\"");
    assert_refused("* * 32 * *", "day of month");
    assert_refused("* * * 13 *", "month \"13\": expected *, or a name, or 1 to 12");
    assert_refused("* * * * 8", "day of week \"8\"");
    assert_refused("* * * mon *", "month \"mon\"");
    assert_refused("* * * janu *", "month \"janu\"");
    assert_refused("jan * * * *", "minute \"jan\"");
    assert_refused("*/0 * * * *", "minute \"*/0\": the step");
    assert_refused("*/ * * * *", "the step");
    assert_refused("5/2 * * * *", "needs * or a range");
    assert_refused("30-10 * * * *", "backwards");
    assert_refused("1,,2 * * * *", "element of the list is empty");
    assert_refused("1, * * * *", "element of the list is empty");
    assert_refused("- * * * *", "minute \"-\"");
    assert_refused("1-2-3 * * * *", "minute \"1-2-3\"");
    assert_refused("** * * * *", "minute \"**\"");
    assert_refused("-1 * * * *", "minute \"-1\"");
    assert_refused("0 0 30 2 *", "no month of the schedule has such a day");
    assert_refused("0 0 31 feb,4,jun,9,11 *", "no month");
    assert_refused("* * * * * root", "\"root\" after the five fields");
    assert_refused("99999999999999999999999 * * * *", "minute");
}

static void test_schedule_next__finds_the_minute_strictly_after(void **state)
{
    (void)state;
    assert_next("30 3 * * *", "2026-11-20 03:29", "2026-11-20 03:30");
    assert_next("30 3 * * *", "2026-11-20 03:30", "2026-11-21 03:30");
    assert_next("* * * * *", "2026-12-31 23:59", "2027-01-01 00:00");
    assert_next("*/15 * * * *", "2026-11-20 10:46", "2026-11-20 11:00");
    assert_next("0 12 1 jan *", "2026-01-01 12:00", "2027-01-01 12:00");
    struct schedule s = parsed("30 3 * * *");
    assert_true(schedule_next(&s, utc("2026-11-20 03:29") + 59) == utc("2026-11-20 03:30"));
}

static void test_schedule_next__knows_leap_days(void **state)
{
    (void)state;
    assert_next("0 0 29 2 *", "2026-01-01 00:00", "2028-02-29 00:00");
    assert_next("0 0 31 4,5,6 *", "2026-01-01 00:00", "2026-05-31 00:00");
    assert_next("0 0 30 2 mon", "2026-02-01 00:00", "2026-02-02 00:00"); /* either day field */
    assert_next("0 0 29 2 *", "2097-01-01 00:00", "never");
}

static void test_schedule_next__takes_either_day_field_if_both_are_restricted(void **state)
{
    (void)state;
    /* 2026-11-20 is a Friday. */
    assert_next("0 0 13 * fri", "2026-11-20 00:00", "2026-11-27 00:00");
    assert_next("0 0 25 * fri", "2026-11-20 00:00", "2026-11-25 00:00");
    /* If one of the two fields begins with a star, both must match. */
    assert_next("0 0 13 * *", "2026-11-20 00:00", "2026-12-13 00:00");
    assert_next("0 0 * * mon", "2026-11-20 00:00", "2026-11-23 00:00");
    assert_next("0 0 */2 * tue", "2026-11-20 00:00", "2026-12-01 00:00");
}

static void test_schedule_next__runs_a_time_that_clocks_jump_over_after_the_jump(void **state)
{
    (void)state;
    zone("CET-1CEST,M3.5.0,M10.5.0/3"); /* 2026-03-29 02:00 becomes 03:00, at 01:00 UTC */
    assert_next("30 2 * * *", "2026-03-28 12:00", "2026-03-29 01:00");
    assert_next("30 2 * * *", "2026-03-29 01:00", "2026-03-30 00:30");
    assert_next("30 2 29 3 *", "2026-03-29 00:00", "2026-03-29 01:00");
    assert_next("30 * * * *", "2026-03-29 00:30", "2026-03-29 01:30");
    assert_next("30 4 * * *", "2026-03-28 12:00", "2026-03-29 02:30");
}

static void test_schedule_next__runs_a_time_that_comes_twice_once(void **state)
{
    (void)state;
    zone("CET-1CEST,M3.5.0,M10.5.0/3"); /* 2026-10-25 03:00 becomes 02:00, at 01:00 UTC */
    assert_next("30 2 * * *", "2026-10-24 12:00", "2026-10-25 00:30");
    assert_next("30 2 * * *", "2026-10-25 00:30", "2026-10-26 01:30");
    assert_next("30 3 * * *", "2026-10-24 12:00", "2026-10-25 02:30");
    /* A schedule for every hour follows the clock. */
    assert_next("30 * * * *", "2026-10-25 00:30", "2026-10-25 01:30");
}

static void test_schedule_next__counts_in_local_time(void **state)
{
    (void)state;
    zone("IST-5:30");
    assert_next("0 0 * * *", "2026-11-20 00:00", "2026-11-20 18:30");
    assert_next("0 0 * * sat", "2026-11-20 00:00", "2026-11-20 18:30");
}

static void test_schedule_due__includes_the_end_but_not_the_start(void **state)
{
    (void)state;
    struct schedule s = parsed("30 3 * * *");
    time_t at = utc("2026-11-20 03:30");
    assert_true(schedule_due(&s, at - 1, at));
    assert_true(schedule_due(&s, at - 3600, at + 3600));
    assert_false(schedule_due(&s, at, at + 60));
    assert_false(schedule_due(&s, at - 60, at - 1));
    assert_false(schedule_due(&s, at, at));
    assert_false(schedule_due(&s, at + 10, at - 10));
}

static void test_schedule_due__looks_back_a_year_at_most(void **state)
{
    (void)state;
    struct schedule s = parsed("0 0 29 2 *");
    assert_true(schedule_due(&s, utc("2028-01-01 00:00"), utc("2028-03-01 00:00")));
    assert_false(schedule_due(&s, utc("2028-01-01 00:00"), utc("2030-01-01 00:00")));
}

/* The search skips ahead. The test tries every minute instead. */
static void test_schedule_next__agrees_with_trying_every_minute(void **state)
{
    (void)state;
    static const char *const zones[] = {"UTC0", "NZST-12NZDT,M9.5.0,M4.1.0/3",
                                        "<+0330>-3:30<+0430>,J79/24,J263/24",
                                        "LHST-10:30LHDT-11,M10.1.0,M4.1.0", "CLT4CLST,M9.1.6/24,M4.1.6/24"};
    static const char *const texts[] = {"17 0 * * *", "0 0 1 * *", "45 23 * * sun", "*/20 2 */9 * *"};
    for (size_t z = 0; z < sizeof(zones) / sizeof(zones[0]); z++)
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
            zone(zones[z]);
            struct schedule s = parsed(texts[i]);
            time_t expected = utc("2026-08-30 00:00");
            time_t skipping = expected;
            for (int round = 0; round < 8; round++) {
                do
                    expected += 60;
                while (!schedule_due(&s, expected - 60, expected));
                skipping = schedule_next(&s, skipping);
                if (skipping != expected)
                    fail_msg("%s in %s: %ld, expected %ld", texts[i], zones[z], (long)skipping,
                             (long)expected);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_parse__reads_stars_lists_ranges_and_steps),
        cmocka_unit_test(test_schedule_parse__reads_names_in_any_case),
        cmocka_unit_test(test_schedule_parse__takes_sunday_as_0_as_7_and_by_name),
        cmocka_unit_test(test_schedule_parse__names_the_field_that_is_wrong),
        cmocka_unit_test_setup(test_schedule_next__finds_the_minute_strictly_after, to_utc),
        cmocka_unit_test_setup(test_schedule_next__knows_leap_days, to_utc),
        cmocka_unit_test_setup(test_schedule_next__takes_either_day_field_if_both_are_restricted, to_utc),
        cmocka_unit_test(test_schedule_next__runs_a_time_that_clocks_jump_over_after_the_jump),
        cmocka_unit_test(test_schedule_next__runs_a_time_that_comes_twice_once),
        cmocka_unit_test(test_schedule_next__counts_in_local_time),
        cmocka_unit_test_setup(test_schedule_due__includes_the_end_but_not_the_start, to_utc),
        cmocka_unit_test_setup(test_schedule_due__looks_back_a_year_at_most, to_utc),
        cmocka_unit_test(test_schedule_next__agrees_with_trying_every_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
