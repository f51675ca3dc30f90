/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>
#include "deploy/stalls.h"

static void test_stalls__belong_to_every_slice_that_the_request_was_under_way_in(void **state)
{
    (void)state;
    struct stalls *s = calloc(1, sizeof(*s));
    assert_non_null(s);
    s->start_us = 1000000;
    stalls_record(s, 1050000, 1095000); /* slices 5 to 9 */
    stalls_record(s, 1200000, 1200300);
    assert_int_equal(stalls_worst(s, 1000000, 1049999), 0);
    assert_int_equal(stalls_worst(s, 1000000, 1050000), 45000);
    assert_int_equal(stalls_worst(s, 1070000, 1075000), 45000);
    assert_int_equal(stalls_worst(s, 1100000, 1300000), 300);
    stalls_record(s, 0, UINT64_MAX); /* both times are outside the table */
    assert_int_equal(stalls_worst(s, 1100000, 1300000), UINT32_MAX);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stalls__belong_to_every_slice_that_the_request_was_under_way_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
