/* SPDX-License-Identifier: MIT */
/* The view as a summary. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "shard/filter/view.h"

static struct view view; /* too large for the stack */

static void test_view_phase__tells_what_the_filter_is_doing(void **state)
{
    (void)state;
    view.slot[0] = (struct generation){.number = 4, .layer_count = 2};
    view.slot[1] = (struct generation){.number = 3, .layer_count = 1};
    view.current = true;
    assert_ptr_equal(view_current(&view), &view.slot[1]);
    assert_ptr_equal(view_alternate(&view), &view.slot[0]);
    assert_int_equal(view_phase(&view), PHASE_BUILDING);
    view.current = false;
    assert_int_equal(view_phase(&view), PHASE_SWITCHED);
    view.slot[1].number = 0;
    assert_null(view_alternate(&view));
    assert_int_equal(view_phase(&view), PHASE_OVERFLOW);
    view.slot[0].layer_count = 1;
    assert_int_equal(view_phase(&view), PHASE_STEADY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view_phase__tells_what_the_filter_is_doing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
