/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "expansion/decide/forecast.h"

enum { NOW = 1767225600 }; /* 2026-01-01 00:00 UTC */

static int to_utc(void **state)
{
    (void)state;
    assert_int_equal(setenv("TZ", "UTC0", 1), 0);
    tzset();
    return 0;
}

static struct forecast_input half_full(void)
{
    return (struct forecast_input){.items = 500, .capacity = 1000, .expand_at = 0.8, .items_per_second = 0.1};
}

static void expect(const struct forecast_input *in, enum forecast_reason reason, time_t at)
{
    time_t found = 1;
    assert_int_equal(forecast_expansion(&found, in, NOW), reason);
    assert_int_equal(found, at);
}

static void test_forecast__goes_on_at_the_present_rate(void **state)
{
    (void)state;
    struct forecast_input in = half_full();
    expect(&in, FORECAST_FILL, NOW + 3000);
}

static void test_forecast__knows_nothing_of_what_does_not_grow(void **state)
{
    (void)state;
    struct forecast_input in = half_full();
    in.items_per_second = 0;
    expect(&in, FORECAST_NONE, 0);
    in.items_per_second = 1e-9; /* not for thousands of years */
    expect(&in, FORECAST_NONE, 0);
    in = half_full();
    in.expand_at = 0;
    expect(&in, FORECAST_NONE, 0);
}

static void test_forecast__is_now_where_it_is_due(void **state)
{
    (void)state;
    struct forecast_input in = half_full();
    in.items = 800;
    expect(&in, FORECAST_FILL, NOW);
    in.items_per_second = 0;
    expect(&in, FORECAST_FILL, NOW);
}

static void test_forecast__takes_the_schedule_where_that_comes_first(void **state)
{
    (void)state;
    struct error e = {""};
    struct schedule at_half, at_three;
    assert_int_equal(schedule_parse(&at_half, "30 0 * * *", &e), ERR_OK);
    assert_int_equal(schedule_parse(&at_three, "0 3 * * *", &e), ERR_OK);
    struct forecast_input in = half_full();
    in.schedule = &at_half;
    expect(&in, FORECAST_SCHEDULE, NOW + 1800);
    in.schedule = &at_three;
    expect(&in, FORECAST_FILL, NOW + 3000);
    in.items_per_second = 0;
    expect(&in, FORECAST_SCHEDULE, NOW + 3 * 3600);
}

static void test_forecast__waits_for_the_window_unless_that_is_too_late(void **state)
{
    (void)state;
    struct error e = {""};
    struct window window;
    assert_int_equal(window_parse(&window, "01:00-02:00", &e), ERR_OK);
    struct forecast_input in = half_full();
    in.window = &window;
    /* The threshold is reached at 00:50. By 01:00, when the window opens, there are only 860 items. */
    expect(&in, FORECAST_FILL, NOW + 3600);
    in.items_per_second = 1; /* due at 00:05; full at 00:08, before the window opens */
    expect(&in, FORECAST_FILL, NOW + 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast__goes_on_at_the_present_rate),
        cmocka_unit_test(test_forecast__knows_nothing_of_what_does_not_grow),
        cmocka_unit_test(test_forecast__is_now_where_it_is_due),
        cmocka_unit_test(test_forecast__takes_the_schedule_where_that_comes_first),
        cmocka_unit_test(test_forecast__waits_for_the_window_unless_that_is_too_late),
    };
    return cmocka_run_group_tests(tests, to_utc, NULL);
}
