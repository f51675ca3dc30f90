/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shard/resident/budget.h"

static void test_budget_take__never_passes_the_limit(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 100);
    assert_true(budget_take(&b, 60));
    assert_false(budget_take(&b, 41));
    assert_false(budget_take(&b, UINT64_MAX));
    assert_true(budget_take(&b, 40));
    b.limit = 50;
    budget_give(&b, 60);
    assert_false(budget_take(&b, 11));
    assert_true(budget_take(&b, 10));
    budget_init(&b, 0);
    assert_false(budget_take(&b, 1));
}

/* Returns how many bytes loads request within @us from @from on, if each load begins as early as it may. */
static uint64_t asked_in(struct budget *b, uint64_t from, uint64_t us)
{
    uint64_t asked = 0, now = from;
    while ((now = budget_load_at(b, now, 1000)) < from + us)
        asked += 1000;
    return asked;
}

static void test_budget_load_at__keeps_to_the_rate(void **state)
{
    (void)state;
    struct budget b;
    budget_init(&b, 100);
    assert_int_equal(b.load_rate, BUDGET_LOAD_RATE);
    b.load_rate = 1000000;
    assert_in_range(asked_in(&b, 1000000, 1000000), 1000000, 1000000 + BUDGET_LOAD_LATE_US + 1000);
    /* After a pause, no more is made up for. */
    assert_in_range(asked_in(&b, 9000000, 1000000), 1000000, 1000000 + BUDGET_LOAD_LATE_US + 1000);
    b.load_rate = 0;
    assert_true(budget_load_at(&b, 5, UINT32_MAX) == 5 && budget_load_at(&b, 5, UINT32_MAX) == 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_budget_take__never_passes_the_limit),
        cmocka_unit_test(test_budget_load_at__keeps_to_the_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
