/* SPDX-License-Identifier: MIT */
/* Expansions wait for a window that is shut now. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

/* The first generation is planned for 1.3 keys a row: 3900, so that 0.8 of it are 3120. */
enum { ROWS = 3000, CAPACITY = 3900, MORE = 300, STEADY_MS = 60000, OPENS_IN = 2 * 3600 };

static struct fixture fixture;
static time_t opens;
static char spans[32];
static char line[64];

static void hour_and_minute(time_t t, char out[8])
{
    struct tm tm;
    assert_non_null(localtime_r(&t, &tm));
    assert_true(strftime(out, 8, "%H:%M", &tm) > 0);
}

static int setup(void **state)
{
    (void)state;
    char from[8], to[8];
    assert_int_equal(setenv("TZ", "UTC0", 1), 0); /* also for the daemon */
    opens = time(NULL) + OPENS_IN;
    opens -= opens % 60;
    hour_and_minute(opens, from);
    hour_and_minute(opens + 3600, to);
    (void)snprintf(spans, sizeof(spans), "%s-%s", from, to);
    (void)snprintf(line, sizeof(line), "window = %s\n", spans);
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1,
                                                             .daemons = 1,
                                                             .postgres = true,
                                                             .rows = ROWS,
                                                             .capacity = CAPACITY,
                                                             .rate = "0.01",
                                                             .service = "check_interval = 100ms\n",
                                                             .filter = line});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static void expect(const char *field, const char *value)
{
    struct error e = {""};
    char text[512];
    must(client_status(&fixture.client[0], FILTER, field, text, sizeof(text), &e), e);
    assert_string_equal(text, value);
}

static void expect_no(const char *field)
{
    struct error e = {""};
    char text[512];
    assert_int_equal(client_status(&fixture.client[0], FILTER, field, text, sizeof(text), &e), ERR_NOT_FOUND);
}

static void add(uint64_t first, uint64_t count)
{
    struct error e = {""};
    must(client_madd(&fixture.client[0], FILTER, fixture_code, first, count, &e), e);
    fixture_insert(fixture.db, first, count);
}

/* fixture_start() has waited for the first build. */
static void test_window__does_not_hold_the_first_build(void **state)
{
    (void)state;
    expect("built", "1");
    expect("window", spans);
    expect("job_trigger", "unbuilt");
    expect_no("waiting_reason");
}

static void test_window__holds_what_a_threshold_wants_and_status_says_so(void **state)
{
    (void)state;
    struct error e = {""};
    char text[512] = "";
    int64_t when = 0;
    int64_t before = fixture_generation(&fixture, 0);
    uint64_t until = clock_mono_us() + 10 * 1000 * 1000;
    add(ROWS, MORE);
    while (client_status(&fixture.client[0], FILTER, "waiting_reason", text, sizeof(text), &e) != ERR_OK) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
    }
    assert_non_null(strstr(text, "of the capacity 3,900 (expand_at"));
    must(client_status_number(&fixture.client[0], FILTER, "window_opens_at", &when, &e), e);
    assert_int_equal(when / 1000, opens); /* in ms */
    clock_sleep_us(1000 * 1000);          /* ten looks of the controller */
    assert_int_equal(fixture_generation(&fixture, 0), before);
    expect("phase", "STEADY");
    expect("job_trigger", "unbuilt");
    fixture_all_present(&fixture, 0, 0, ROWS + MORE);
}

static void test_window__does_not_hold_an_operator(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER " CAPACITY 4000"), e);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", "done", STEADY_MS, &e), e);
    expect("job_trigger", "operator");
    fixture_all_present(&fixture, 0, 0, ROWS + MORE);
}

/* 3300 of 4000 keys: the expansion waits again, until there are more keys than capacity. Then the filter gets
 * a layer at once, and the expansion does not wait. */
static void test_window__does_not_hold_a_filter_that_is_over_its_capacity(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    clock_sleep_us(1000 * 1000);
    assert_int_equal(fixture_generation(&fixture, 0), before);
    add(ROWS + MORE, 1000);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", "done", STEADY_MS, &e), e);
    expect("job_trigger", "overflow");
    expect("layers", "1");
    clock_sleep_us(300 * 1000);
    expect_no("waiting_reason");
    fixture_all_present(&fixture, 0, 0, ROWS + MORE + 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window__does_not_hold_the_first_build),
        cmocka_unit_test(test_window__holds_what_a_threshold_wants_and_status_says_so),
        cmocka_unit_test(test_window__does_not_hold_an_operator),
        cmocka_unit_test(test_window__does_not_hold_a_filter_that_is_over_its_capacity),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
