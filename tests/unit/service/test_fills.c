/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "service/meter/fills.h"

enum { START_S = 1700000000 };

static void note(struct fills *s, uint64_t incarnation, uint32_t at_s, uint64_t items)
{
    const struct fill one = {.at_s = at_s, .items = items, .capacity = 1000, .rate = 0.01f, .generation = 1};
    fills_note(s, incarnation, &one);
}

static void test_fills__are_no_closer_than_their_interval(void **state)
{
    (void)state;
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    assert_int_equal(fills_read(s, out), 0);
    for (uint32_t i = 0; i < 100; i++)
        note(s, 1, START_S + i, i);
    assert_int_equal(fills_read(s, out), 10);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(out[i].items, i * 10);
    free(s);
}

static void test_fills__of_a_day_are_in_order_and_bounded(void **state)
{
    (void)state;
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    for (uint32_t t = 0; t < 3 * 86400; t += FILLS_FINE_S)
        note(s, 1, START_S + t, t);
    size_t count = fills_read(s, out);
    assert_in_range(count, FILLS_FINE + FILLS_COARSE - 20, FILLS_MAX);
    for (size_t i = 1; i < count; i++)
        assert_true(out[i].at_s > out[i - 1].at_s);
    assert_int_equal(out[count - 1].at_s, START_S + 3 * 86400 - FILLS_FINE_S);
    assert_int_equal(out[count - FILLS_FINE].at_s, START_S + 3 * 86400 - 3600);
    assert_true(out[count - 1].at_s - out[0].at_s <= 86400);
    assert_true(out[count - 1].at_s - out[0].at_s >= 86400 - 2 * FILLS_COARSE_S);
    free(s);
}

static void test_fills__of_another_incarnation_are_another_filters(void **state)
{
    (void)state;
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    note(s, 1, START_S, 5);
    note(s, 2, START_S + 1, 0);
    assert_int_equal(fills_read(s, out), 1);
    assert_int_equal(out[0].items, 0);
    free(s);
}

static void test_fills__begin_anew_after_the_clock_was_set_back(void **state)
{
    (void)state;
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    note(s, 1, START_S, 1);
    note(s, 1, START_S - 5, 2); /* the clock was corrected */
    assert_int_equal(fills_read(s, out), 1);
    note(s, 1, START_S - 7200, 3);
    assert_int_equal(fills_read(s, out), 1);
    assert_int_equal(out[0].items, 3);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills__are_no_closer_than_their_interval),
        cmocka_unit_test(test_fills__of_a_day_are_in_order_and_bounded),
        cmocka_unit_test(test_fills__of_another_incarnation_are_another_filters),
        cmocka_unit_test(test_fills__begin_anew_after_the_clock_was_set_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
