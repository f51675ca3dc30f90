/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "expansion/decide/window.h"

/* 02:00 becomes 03:00 on 2026-03-29, 03:00 becomes 02:00 on 2026-10-25, both at 01:00 UTC. */
#define BERLIN "CET-1CEST,M3.5.0,M10.5.0/3"
/* 02:00 becomes 02:30 on 2026-10-04, at 15:30 UTC of the day before. */
#define LORD_HOWE "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0"

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

static struct window parsed(const char *text)
{
    struct window w;
    struct error e = {""};
    if (window_parse(&w, text, &e) != ERR_OK)
        fail_msg("\"%s\": %s", text, e.text);
    return w;
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

static void assert_open(const char *window, const char *now, bool expected)
{
    struct window w = parsed(window);
    if (window_is_open(&w, utc(now)) != expected)
        fail_msg("\"%s\" at %s UTC is %s", window, now, expected ? "shut" : "open");
}

static void assert_opens(const char *window, const char *now, const char *expected)
{
    struct window w = parsed(window);
    time_t opens = window_next_open(&w, utc(now));
    char text[32] = "never";
    struct tm tm;
    if (opens != 0 && gmtime_r(&opens, &tm) != NULL)
        assert_true(strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm) > 0);
    if (strcmp(text, expected) != 0)
        fail_msg("\"%s\" after %s opens %s, expected %s", window, now, text, expected);
}

static void assert_refused(const char *text, const char *expected)
{
    struct window w = {.count = 7};
    struct error e = {""};
    assert_int_equal(window_parse(&w, text, &e), ERR_PARSE);
    assert_int_equal(w.count, 7);
    if (strstr(e.text, expected) == NULL)
        fail_msg("\"%s\": \"%s\" does not say \"%s\"", text, e.text, expected);
}

static void test_window_parse__reads_spans(void **state)
{
    (void)state;
    struct window w = parsed("01:00-05:30");
    assert_int_equal(w.count, 1);
    assert_int_equal(w.span[0].from, 60);
    assert_int_equal(w.span[0].to, 330);
    w = parsed("  22:00 - 02:00 ,00:00-24:00,\t07:59-08:00 ");
    assert_int_equal(w.count, 3);
    assert_int_equal(w.span[0].from, 22 * 60);
    assert_int_equal(w.span[0].to, 120);
    assert_int_equal(w.span[1].to, 1440);
    assert_int_equal(w.span[2].from, 479);
    assert_int_equal(parsed("").count, 0);
    assert_int_equal(parsed(" \t").count, 0);
}

static void test_window_parse__refuses_what_is_no_span(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "1:00-05:00",  "01:00", "01:00-",    "-05:00",      "01:00-05:60", "25:00-26:00",  "01:00-24:01",
        "01.00-05.00", "a",     "0100-0500", "+1:00-05:00", "01:0a-05:00", "01:00-05:00-", "01:00 05:00"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_refused(bad[i], "is not a span of the day");
    assert_refused("01:00-05:00,", "\"\" is not a span of the day");
    assert_refused(",01:00-05:00", "\"\" is not a span of the day");
    assert_refused("01:00-05:00, x", "\" x\" is not a span of the day");
    assert_refused("03:00-03:00", "is empty; for the whole day");
    assert_refused("24:00-03:00", "begins at 24:00");
    char many[16 * (WINDOW_SPANS_MAX + 1)] = "";
    for (int i = 0; i <= WINDOW_SPANS_MAX; i++)
        (void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "%s01:00-02:00", i == 0 ? "" : ",");
    assert_refused(many, "more than 16 spans");
    many[strlen(many) - strlen(",01:00-02:00")] = '\0';
    assert_int_equal(parsed(many).count, WINDOW_SPANS_MAX);
}

static void test_window_is_open__from_its_first_minute_to_before_its_end(void **state)
{
    (void)state;
    assert_open("01:00-05:00", "2026-06-01 00:59", false);
    assert_open("01:00-05:00", "2026-06-01 01:00", true);
    assert_open("01:00-05:00", "2026-06-01 04:59", true);
    assert_open("01:00-05:00", "2026-06-01 05:00", false);
    assert_open("18:00-24:00", "2026-06-01 23:59", true);
    assert_open("18:00-24:00", "2026-06-02 00:00", false);
    assert_open("00:00-24:00", "2026-06-02 00:00", true);
    assert_open("", "2026-06-02 00:00", true);
    assert_open("01:00-02:00, 03:00-04:00", "2026-06-01 02:30", false);
    assert_open("01:00-02:00, 03:00-04:00", "2026-06-01 03:30", true);
}

static void test_window_is_open__over_midnight(void **state)
{
    (void)state;
    assert_open("22:00-02:00", "2026-06-01 21:59", false);
    assert_open("22:00-02:00", "2026-06-01 22:00", true);
    assert_open("22:00-02:00", "2026-06-02 00:00", true);
    assert_open("22:00-02:00", "2026-06-02 01:59", true);
    assert_open("22:00-02:00", "2026-06-02 02:00", false);
    assert_open("22:00-00:00", "2026-06-01 23:59", true);
    assert_open("22:00-00:00", "2026-06-02 00:00", false);
}

static void test_window_next_open__is_now_or_the_next_minute_that_is_open(void **state)
{
    (void)state;
    assert_opens("01:00-05:00", "2026-06-01 03:17", "2026-06-01 03:17");
    assert_opens("", "2026-06-01 03:17", "2026-06-01 03:17");
    assert_opens("01:00-05:00", "2026-06-01 05:00", "2026-06-02 01:00");
    assert_opens("01:00-05:00", "2026-06-01 00:59", "2026-06-01 01:00");
    assert_opens("22:00-02:00", "2026-06-01 02:00", "2026-06-01 22:00");
    assert_opens("22:07-02:00", "2026-12-31 02:00", "2026-12-31 22:07");
    assert_opens("00:00-00:01", "2026-12-31 00:01", "2027-01-01 00:00");
    assert_opens("01:00-02:00, 13:13-13:14", "2026-06-01 02:00", "2026-06-01 13:13");
    struct window w = parsed("01:00-05:00");
    assert_int_equal(window_next_open(&w, utc("2026-06-01 00:59") + 59), utc("2026-06-01 01:00"));
    assert_int_equal(window_next_open(&w, utc("2026-06-01 01:00") + 59), utc("2026-06-01 01:00") + 59);
}

static void test_window__goes_by_local_time(void **state)
{
    (void)state;
    zone(BERLIN);
    assert_open("01:00-05:00", "2026-01-10 00:00", true);  /* 01:00 local time */
    assert_open("01:00-05:00", "2026-06-10 00:00", true);  /* 02:00 local time */
    assert_open("01:00-05:00", "2026-06-10 03:00", false); /* 05:00 local time */
    assert_opens("01:00-05:00", "2026-06-10 12:00", "2026-06-10 23:00");
}

static void test_window__on_the_day_that_clocks_go_forward(void **state)
{
    (void)state;
    zone(BERLIN);
    assert_opens("02:30-04:00", "2026-03-29 00:00", "2026-03-29 01:00"); /* at 03:00 */
    assert_opens("03:00-04:00", "2026-03-29 00:00", "2026-03-29 01:00");
    assert_opens("03:20-04:00", "2026-03-29 00:00", "2026-03-29 01:20");
    assert_opens("02:15-02:45", "2026-03-29 00:00", "2026-03-30 00:15"); /* that day has no such time */
    assert_opens("01:00-02:59", "2026-03-29 00:59", "2026-03-29 00:59");
    assert_open("01:00-02:59", "2026-03-29 01:00", false);
    zone(LORD_HOWE);
    assert_opens("02:10-02:50", "2026-10-03 12:00", "2026-10-03 15:30"); /* at 02:30 */
}

static void test_window__on_the_day_that_clocks_go_back(void **state)
{
    (void)state;
    zone(BERLIN);
    assert_opens("02:15-02:45", "2026-10-24 23:00", "2026-10-25 00:15");
    assert_open("02:15-02:45", "2026-10-25 00:44", true);
    assert_open("02:15-02:45", "2026-10-25 00:45", false);
    assert_opens("02:15-02:45", "2026-10-25 00:45", "2026-10-25 01:15"); /* the window opens a second time */
    assert_opens("02:15-02:45", "2026-10-25 01:45", "2026-10-26 01:15");
    assert_open("22:00-03:00", "2026-10-25 01:59", true);
    assert_open("22:00-03:00", "2026-10-25 02:00", false);
}

static void test_window_must_start_now__where_the_capacity_is_passed_before_it_opens(void **state)
{
    (void)state;
    assert_false(window_must_start_now(800, 1000, 0, 36000));
    assert_false(window_must_start_now(1000, 1000, 0, 36000));
    assert_true(window_must_start_now(1001, 1000, 0, 36000));
    assert_false(window_must_start_now(800, 1000, 1, 200));
    assert_true(window_must_start_now(800, 1000, 1, 201));
    assert_true(window_must_start_now(0, 1000, 0.5, 2001));
}

#define SECONDS(n) ((n)*UINT64_C(1000000))

static void test_window_growth__is_what_came_in_a_second(void **state)
{
    (void)state;
    struct window_growth g = {0};
    const uint64_t t = SECONDS(12345);
    assert_true(window_growth_note(&g, 2, 1000, t) == 0);
    assert_true(window_growth_note(&g, 2, 2000, t + SECONDS(59)) == 0); /* too early to measure */
    assert_true(window_growth_note(&g, 2, 4000, t + SECONDS(100)) == 30);
    assert_true(window_growth_note(&g, 2, 7000, t + SECONDS(300)) == 20);
    /* No growth in the last five minutes. */
    assert_true(window_growth_note(&g, 2, 7000, t + SECONDS(600)) == 0);
    assert_true(window_growth_note(&g, 2, 10000, t + SECONDS(900)) == 10);
    /* The number of keys fell. */
    assert_true(window_growth_note(&g, 2, 5000, t + SECONDS(950)) == 0);
    /* Another generation: the measurement starts again. */
    assert_true(window_growth_note(&g, 3, 90000, t + SECONDS(1000)) == 0);
    assert_true(window_growth_note(&g, 3, 90100, t + SECONDS(1100)) == 1);
}

#define TEST(name) cmocka_unit_test_setup(name, to_utc)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_window_parse__reads_spans),
        TEST(test_window_parse__refuses_what_is_no_span),
        TEST(test_window_is_open__from_its_first_minute_to_before_its_end),
        TEST(test_window_is_open__over_midnight),
        TEST(test_window_next_open__is_now_or_the_next_minute_that_is_open),
        TEST(test_window__goes_by_local_time),
        TEST(test_window__on_the_day_that_clocks_go_forward),
        TEST(test_window__on_the_day_that_clocks_go_back),
        TEST(test_window_must_start_now__where_the_capacity_is_passed_before_it_opens),
        TEST(test_window_growth__is_what_came_in_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
