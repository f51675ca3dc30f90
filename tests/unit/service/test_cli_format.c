/* SPDX-License-Identifier: MIT */
/* Numbers and times for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <time.h>

#include "service/cli/common/cli_output.h"

static void test_output_when__is_a_moment_and_how_far_it_is(void **state)
{
    (void)state;
    char out[OUTPUT_TEXT_SIZE];
    const uint64_t now = 1767225600; /* 2026-01-01 00:00 UTC */
    assert_int_equal(setenv("TZ", "UTC0", 1), 0);
    tzset();
    assert_string_equal(output_when(now - 5, now, out), "now");
    assert_string_equal(output_when(now, now, out), "now");
    assert_string_equal(output_when(now + 42, now, out), "00:00, in 42s");
    assert_string_equal(output_when(now + 6180, now, out), "01:43, in 1h 43m");
    assert_string_equal(output_when(now + 3 * 86400 + 14400, now, out), "Jan 04 04:00, in 3d 04h");
    assert_string_equal(output_when(now + UINT64_C(400) * 86400, now, out), "2027-02-05, in 400d 00h");
    assert_non_null(output_when(UINT64_MAX, now, out)); /* the text stays within its buffer */
}

static void test_output_count__is_short(void **state)
{
    (void)state;
    char out[OUTPUT_TEXT_SIZE];
    assert_string_equal(output_count(0, out), "0");
    assert_string_equal(output_count(999, out), "999");
    assert_string_equal(output_count(1000, out), "1.0K");
    assert_string_equal(output_count(99949, out), "99.9K");
    assert_string_equal(output_count(195997, out), "196K");
    assert_string_equal(output_count(999499, out), "999K");
    assert_string_equal(output_count(999500, out), "1.0M");
    assert_string_equal(output_count(UINT64_C(30000000000), out), "30.0G");
    assert_string_equal(output_count(UINT64_MAX, out), "18.4E");
}

static void test_output_latency__keeps_what_matters(void **state)
{
    (void)state;
    char out[OUTPUT_TEXT_SIZE];
    assert_string_equal(output_latency(0, out), "0us");
    assert_string_equal(output_latency(999, out), "999us");
    assert_string_equal(output_latency(1234, out), "1.23ms");
    assert_string_equal(output_latency(123456, out), "123ms");
    assert_string_equal(output_latency(2100000, out), "2.10s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_when__is_a_moment_and_how_far_it_is),
        cmocka_unit_test(test_output_count__is_short),
        cmocka_unit_test(test_output_latency__keeps_what_matters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
