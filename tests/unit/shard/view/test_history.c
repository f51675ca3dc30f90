/* SPDX-License-Identifier: MIT */
/* How the histories that masters name compare with the view's. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <setjmp.h>
#include <cmocka.h>
#include "shard/view/history.h"

static struct log_view *view;

static int setup(void **state)
{
    (void)state;
    view = calloc(1, sizeof(*view));
    view->incarnation = 7;
    view->history_count = 3;
    view->history[0] = 0x33;
    view->history[1] = 0x22;
    view->history[2] = 0x11;
    return view == NULL;
}

static int teardown(void **state)
{
    (void)state;
    free(view);
    return 0;
}

static enum history_state judge(unsigned count, const struct registry_history *named)
{
    struct registry_said said = {.history_count = count};
    for (unsigned i = 0; i < count; i++)
        said.history[i] = named[i];
    return history_judge(view, &said);
}

static void test_history__that_all_name_is_the_views(void **state)
{
    (void)state;
    assert_int_equal(judge(1, &(struct registry_history){7, 0x33}), HISTORY_NAMED);
    assert_int_equal(judge(0, NULL), HISTORY_NAMED);
    view->history_count = 0;
    assert_int_equal(judge(1, &(struct registry_history){0, 0}), HISTORY_NAMED);
    assert_int_equal(judge(1, &(struct registry_history){6, 0x99}), HISTORY_NAMED);
}

static void test_history__that_a_master_lacks_is_to_be_named(void **state)
{
    (void)state;
    const struct registry_history some[] = {{7, 0x33}, {7, 0x11}}, none[] = {{7, 0x33}, {0, 0}},
                                  earlier[] = {{7, 0x33}, {6, 0x99}};
    assert_int_equal(judge(2, some), HISTORY_BEHIND);
    assert_int_equal(judge(2, none), HISTORY_BEHIND);
    assert_int_equal(judge(2, earlier), HISTORY_BEHIND);
}

static void test_history__that_the_view_has_not_gone_through_was_missed(void **state)
{
    (void)state;
    const struct registry_history other[] = {{7, 0x11}, {7, 0x44}, {0, 0}};
    assert_int_equal(judge(3, other), HISTORY_MISSED);
    view->history_count = 0;
    assert_int_equal(judge(1, &(struct registry_history){7, 0x33}), HISTORY_MISSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_history__that_all_name_is_the_views, setup, teardown),
        cmocka_unit_test_setup_teardown(test_history__that_a_master_lacks_is_to_be_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_history__that_the_view_has_not_gone_through_was_missed, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
