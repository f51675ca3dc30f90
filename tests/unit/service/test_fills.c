/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
    fills_free(s);
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
    fills_free(s);
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
    fills_free(s);
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
    fills_free(s);
}

/* A filter that nobody asks for, between two changes: its samples are those that were noted, however they are
 * kept. */
static void test_fills__that_say_the_same_are_all_told(void **state)
{
    (void)state;
    enum { NOTED = 300, FLAT_FROM = 100, FLAT_TO = 200 };
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    for (uint32_t i = 0; i < NOTED; i++)
        note(s, 1, START_S + i * FILLS_FINE_S, i < FLAT_FROM ? i : i < FLAT_TO ? FLAT_FROM : i);
    assert_int_equal(fills_read(s, out), NOTED);
    for (uint32_t i = 0; i < NOTED; i++) {
        assert_int_equal(out[i].at_s, START_S + i * FILLS_FINE_S);
        assert_int_equal(out[i].items, i < FLAT_FROM ? i : i < FLAT_TO ? FLAT_FROM : i);
    }
    fills_free(s);
}

/* Looks are later than their interval by turns: the last of those that say the same has its own time, as
 * rates are told from there on. */
static void test_fills__that_say_the_same_end_when_the_last_was_noted(void **state)
{
    (void)state;
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    for (uint32_t i = 0; i <= 9; i++)
        note(s, 1, START_S + i * (FILLS_FINE_S + 1), 5);
    note(s, 1, START_S + 110, 6);
    size_t count = fills_read(s, out);
    assert_int_equal(out[0].at_s, START_S);
    for (size_t i = 1; i < count; i++)
        assert_in_range(out[i].at_s - out[i - 1].at_s, FILLS_FINE_S, 2 * FILLS_FINE_S - 1);
    assert_int_equal(out[count - 2].at_s, START_S + 99);
    assert_int_equal(out[count - 2].items, 5);
    assert_int_equal(out[count - 1].at_s, START_S + 110);
    assert_int_equal(out[count - 1].items, 6);
    fills_free(s);
}

static void test_fills__of_two_days_without_a_change_are_those_of_one_day(void **state)
{
    (void)state;
    struct fill out[FILLS_MAX];
    struct fills *s = fills_new();
    uint32_t last = START_S + 2 * 86400;
    for (uint32_t t = START_S; t <= last; t += FILLS_FINE_S)
        note(s, 1, t, 5);
    size_t count = fills_read(s, out);
    assert_in_range(count, FILLS_FINE + FILLS_COARSE - 20, FILLS_MAX);
    for (size_t i = 1; i < count; i++)
        if (i != count - FILLS_FINE) /* there the finer ones begin */
            assert_int_equal(out[i].at_s - out[i - 1].at_s,
                             i < count - FILLS_FINE ? FILLS_COARSE_S : FILLS_FINE_S);
    assert_int_equal(out[count - 1].at_s, last);
    assert_int_equal(out[count - FILLS_FINE].at_s, last - 3600 + FILLS_FINE_S);
    assert_in_range(last - out[0].at_s, 86400 - 2 * FILLS_COARSE_S, 86400);
    fills_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fills__are_no_closer_than_their_interval),
        cmocka_unit_test(test_fills__of_a_day_are_in_order_and_bounded),
        cmocka_unit_test(test_fills__of_another_incarnation_are_another_filters),
        cmocka_unit_test(test_fills__begin_anew_after_the_clock_was_set_back),
        cmocka_unit_test(test_fills__that_say_the_same_are_all_told),
        cmocka_unit_test(test_fills__that_say_the_same_end_when_the_last_was_noted),
        cmocka_unit_test(test_fills__of_two_days_without_a_change_are_those_of_one_day),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
