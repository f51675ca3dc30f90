/* SPDX-License-Identifier: MIT */
/* What a view that went back becomes, by what was found of its shards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shard/reconcile.h"

static struct view v, out; /* large: kept off the stack */

static void two_generations(enum phase phase)
{
    v = (struct view){
        .incarnation = 5, .epoch = 7, .fenced_epoch = 7, .phase = phase, .current = 1, .last_generation = 4};
    v.slot[1] = (struct generation){.number = 3, .built = true, .layer_count = 1};
    v.slot[0] = (struct generation){.number = 4, .built = false, .layer_count = 2};
}

static void test_reconcile_is_due__where_shards_lie_under_later_epochs(void **state)
{
    (void)state;
    two_generations(PHASE_BUILDING);
    assert_false(reconcile_is_due(&v, &(struct reconcile_evidence){.top = 7, .top_of = {7, 7}}));
    assert_false(reconcile_is_due(&v, &(struct reconcile_evidence){.top = 0}));
    assert_true(reconcile_is_due(&v, &(struct reconcile_evidence){.top = 8, .top_of = {0, 7}}));
    assert_true(reconcile_knows_less(&v, &(struct reconcile_evidence){.top = 8}));
    assert_false(reconcile_knows_less(&v, &(struct reconcile_evidence){.top = 7}));
}

static void
test_reconcile_is_due__where_shards_lie_under_an_earlier_one_but_not_while_they_are_moved(void **state)
{
    (void)state;
    const struct reconcile_evidence found = {.top = 7, .elsewhere = 1};
    two_generations(PHASE_BUILDING);
    assert_true(reconcile_is_due(&v, &found));
    v.fenced_epoch = 6;
    assert_false(reconcile_is_due(&v, &found));
    v.recovery = RECOVERY_FENCE;
    assert_false(reconcile_is_due(&v, &found));
    v.recovery = RECOVERY_DUE;
    assert_true(reconcile_is_due(&v, &(struct reconcile_evidence){.top = 7}));
}

static void test_reconcile_decide__keeps_the_generation_that_is_read(void **state)
{
    (void)state;
    two_generations(PHASE_BUILDING);
    v.slot[1].opening = true;
    v.slot[1].layer_count = 2;
    v.retiring_epoch = 6;
    v.retiring.number = 2;
    reconcile_decide(&v, &(struct reconcile_evidence){.top = 9, .top_of = {8, 9}, .last_generation = 6},
                     &out);
    assert_int_equal(out.current, 1);
    assert_int_equal(out.slot[1].number, 3);
    assert_int_equal(out.slot[0].number, 0);
    assert_int_equal(out.phase, PHASE_OVERFLOW);
    assert_false(out.slot[1].opening);
    assert_int_equal(out.epoch, 9 + RECONCILE_EPOCHS);
    assert_int_equal(out.fenced_epoch, 7);
    assert_int_equal(out.last_generation, 6 + RECONCILE_GENERATIONS);
    assert_int_equal(out.retiring_epoch, 0);
    assert_int_equal(out.recovery, RECOVERY_FENCE);
}

static void test_reconcile_decide__keeps_the_one_that_outlived_the_other(void **state)
{
    (void)state;
    two_generations(PHASE_BUILDING);
    reconcile_decide(&v, &(struct reconcile_evidence){.top = 9, .top_of = {9, 7}}, &out);
    assert_int_equal(out.current, 0);
    assert_int_equal(out.slot[0].number, 4);
    assert_int_equal(out.slot[1].number, 0);
    assert_int_equal(out.phase, PHASE_OVERFLOW);
    reconcile_decide(&v, &(struct reconcile_evidence){.top = 9, .top_of = {9, 9}}, &out);
    assert_int_equal(out.current, 1);
    v.slot[0] = (struct generation){0}; /* shards of a generation that the view does not know */
    reconcile_decide(&v, &(struct reconcile_evidence){.top = 9, .top_of = {0, 7}, .last_generation = 4},
                     &out);
    assert_int_equal(out.current, 1);
}

/* What was written last may be lost with the node's data. */
static void test_reconcile_decide__never_leaves_a_generation_that_says_no(void **state)
{
    (void)state;
    for (int phase = PHASE_BUILDING; phase <= PHASE_SWITCHED; phase++)
        for (uint64_t top = 6; top < 10; top++)
            for (unsigned slot = 0; slot < 2; slot++) {
                struct reconcile_evidence found = {.top = top};
                two_generations((enum phase)phase);
                v.slot[0].built = true;
                found.top_of[slot] = top;
                reconcile_decide(&v, &found, &out);
                assert_false(view_current(&out)->built);
                assert_null(view_alternate(&out));
                assert_true(out.epoch > v.epoch + 1 && out.epoch > top + 1);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reconcile_is_due__where_shards_lie_under_later_epochs),
        cmocka_unit_test(
            test_reconcile_is_due__where_shards_lie_under_an_earlier_one_but_not_while_they_are_moved),
        cmocka_unit_test(test_reconcile_decide__keeps_the_generation_that_is_read),
        cmocka_unit_test(test_reconcile_decide__keeps_the_one_that_outlived_the_other),
        cmocka_unit_test(test_reconcile_decide__never_leaves_a_generation_that_says_no),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
