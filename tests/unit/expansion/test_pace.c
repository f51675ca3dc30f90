/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "expansion/job/driver_internal.h"

enum { READERS = 5, HALF = 3, ALL = 0 };

static struct driver *driver;

static int setup(void **state)
{
    (void)state;
    static struct driver_options options = {.readers = READERS};
    driver = calloc(1, sizeof(*driver));
    if (driver == NULL)
        return -1;
    driver->o = &options;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(driver);
    return 0;
}

static unsigned at_once(enum job_step step, bool requests, bool others)
{
    driver->step = step;
    driver->view.degraded = false;
    driver->pace.beside_requests = requests;
    driver->pace.yield.rests = others;
    return driver_pace_at_once(driver);
}

static void test_driver_pace_at_once__a_rebuild_reads_with_half_beside_requests(void **state)
{
    (void)state;
    static const enum job_step steps[] = {STEP_SCAN, STEP_CATCH_UP, STEP_VERIFY, STEP_CONFIRM, STEP_CHECK};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(at_once(steps[i], false, false), ALL);
        assert_int_equal(at_once(steps[i], true, false), HALF);
    }
}

/* While the filter is degraded, no key can be reported absent, so the rebuild that repairs it does not yield
 * to requests. */
static void test_driver_pace_at_once__one_that_heals_reads_with_all_beside_requests(void **state)
{
    (void)state;
    assert_int_equal(at_once(STEP_SCAN, true, false), HALF);
    driver->view.degraded = true;
    assert_int_equal(driver_pace_at_once(driver), ALL);
    assert_string_equal(driver_pace_throttle(driver), "");
}

static void test_driver_pace_at_once__half_rest_for_others_who_use_the_database(void **state)
{
    (void)state;
    assert_int_equal(at_once(STEP_SCAN, false, true), HALF);
    assert_int_equal(at_once(STEP_SCAN, true, true), HALF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_driver_pace_at_once__a_rebuild_reads_with_half_beside_requests),
        cmocka_unit_test(test_driver_pace_at_once__one_that_heals_reads_with_all_beside_requests),
        cmocka_unit_test(test_driver_pace_at_once__half_rest_for_others_who_use_the_database),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
