/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "expansion/follow/slots.h"

enum { GRACE = 3600 * 1000, MOST = 1000 };

static enum slot_fate judge(struct stream_slot slot, bool named, uint64_t unnamed_ms)
{
    return slots_judge(&slot, &(struct slots_use){named, unnamed_ms, UINT64_MAX}, GRACE, MOST);
}

static const struct stream_slot idle = {.exists = true, .is_ours = true, .retained = 10};
static const struct stream_slot full = {.exists = true, .is_ours = true, .retained = MOST + 1};

static void test_slots_judge__never_drops_what_is_read_from_or_named(void **state)
{
    (void)state;
    struct stream_slot active = full;
    active.active = true;
    assert_int_equal(judge(active, false, UINT64_MAX), SLOT_NEEDED);
    assert_int_equal(judge(full, true, UINT64_MAX), SLOT_NEEDED);
    assert_int_equal(judge((struct stream_slot){.exists = false}, true, UINT64_MAX), SLOT_NEEDED);
}

static void test_slots_judge__drops_what_was_not_named_for_the_grace_time(void **state)
{
    (void)state;
    assert_int_equal(judge(idle, false, GRACE), SLOT_UNUSED);
    assert_int_equal(judge(idle, false, GRACE + 1), SLOT_DROP);
}

static void test_slots_judge__drops_what_holds_too_much_when_no_restart_explains_it(void **state)
{
    (void)state;
    assert_int_equal(judge(full, false, 120 * 1000), SLOT_UNUSED);
    assert_int_equal(judge(full, false, 120 * 1000 + 1), SLOT_DROP);
    assert_int_equal(judge(idle, false, 120 * 1000 + 1), SLOT_UNUSED);
}

static void test_slots_judge__forgets_what_is_gone_and_leaves_what_is_anothers(void **state)
{
    (void)state;
    /* The slot may be about to be made. */
    assert_int_equal(judge((struct stream_slot){.exists = false}, false, 1000), SLOT_UNUSED);
    assert_int_equal(judge((struct stream_slot){.exists = false}, false, GRACE + 1), SLOT_FORGET);
    assert_int_equal(judge((struct stream_slot){.exists = true}, false, UINT64_MAX), SLOT_FORGET);
}

/* If all coordinators were down for long, the first one that starts gives the others time to start, too. */
static void test_slots_judge__lets_others_come_first(void **state)
{
    (void)state;
    struct slots_use use = {false, UINT64_MAX, 0};
    assert_int_equal(slots_judge(&full, &use, GRACE, MOST), SLOT_UNUSED);
    use.watched_ms = 120 * 1000;
    assert_int_equal(slots_judge(&full, &use, GRACE, MOST), SLOT_DROP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_judge__never_drops_what_is_read_from_or_named),
        cmocka_unit_test(test_slots_judge__drops_what_was_not_named_for_the_grace_time),
        cmocka_unit_test(test_slots_judge__drops_what_holds_too_much_when_no_restart_explains_it),
        cmocka_unit_test(test_slots_judge__lets_others_come_first),
        cmocka_unit_test(test_slots_judge__forgets_what_is_gone_and_leaves_what_is_anothers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
