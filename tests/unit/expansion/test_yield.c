/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "expansion/decide/yield.h"

/* Transactions per second of others, beside all readers and beside half of them. */
struct others {
    double all, half;
};

/* Returns the share of @seconds in which half of the readers paused. yield_look() is called four times a
 * second. */
static double rested(struct yield *y, struct others others, unsigned seconds, double share)
{
    unsigned resting = 0;
    for (unsigned i = 0; i < seconds * 4; i++) {
        resting += y->rests;
        yield_look(y, (y->rests ? others.half : others.all) / 4, 0.25, share);
    }
    return resting / (seconds * 4.0);
}

static void test_yield_look__rests_where_that_helps_others(void **state)
{
    (void)state;
    struct yield y = {.rests = false};
    const struct others harmed = {.all = 500, .half = 1000};
    assert_true(rested(&y, harmed, 3, 0.8) == 0); /* the first seconds are for counting */
    assert_true(rested(&y, harmed, 600, 0.8) > 0.9);
    assert_true(rested(&y, (struct others){.all = 50, .half = 100}, 600, 0.8) > 0.9);
}

static void test_yield_look__reads_on_where_it_does_not(void **state)
{
    (void)state;
    struct yield y = {.rests = false};
    assert_true(rested(&y, (struct others){.all = 950, .half = 1000}, 600, 0.8) < 0.1);
    y = (struct yield){.rests = false};
    assert_true(rested(&y, (struct others){.all = 1000, .half = 1000}, 600, 1) < 0.1);
}

/* In an idle database the readers never pause, nor do they with a share of 0. */
static void test_yield_look__does_not_try_for_nobody(void **state)
{
    (void)state;
    struct yield y = {.rests = false};
    assert_true(rested(&y, (struct others){.all = 5, .half = 49}, 600, 0.8) == 0);
    assert_true(rested(&y, (struct others){.all = 1, .half = 1000}, 600, 0) == 0);
}

/* The load of others changes by itself. A lower load is not taken for harm, and the end of harm is
 * noticed. */
static void test_yield_look__tries_anew(void **state)
{
    (void)state;
    struct yield y = {.rests = false};
    assert_true(rested(&y, (struct others){.all = 500, .half = 1000}, 600, 0.8) > 0.9);
    /* A result holds for at most 160 s. */
    (void)rested(&y, (struct others){.all = 1000, .half = 1000}, 170, 0.8);
    assert_true(rested(&y, (struct others){.all = 1000, .half = 1000}, 600, 0.8) < 0.1);
    assert_true(rested(&y, (struct others){.all = 100, .half = 100}, 600, 0.8) < 0.1);
    (void)rested(&y, (struct others){.all = 100, .half = 200}, 170, 0.8);
    assert_true(rested(&y, (struct others){.all = 100, .half = 200}, 600, 0.8) > 0.9);
    (void)rested(&y, (struct others){.all = 0, .half = 0}, 170, 0.8);
    assert_true(rested(&y, (struct others){.all = 0, .half = 0}, 600, 0.8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_yield_look__rests_where_that_helps_others),
        cmocka_unit_test(test_yield_look__reads_on_where_it_does_not),
        cmocka_unit_test(test_yield_look__does_not_try_for_nobody),
        cmocka_unit_test(test_yield_look__tries_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
