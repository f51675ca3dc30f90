/* SPDX-License-Identifier: MIT */
/* Which of two views is the older one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "shard/latest.h"

enum { X = 0x11, Y = 0x22 };

static struct view_stamp stamp(uint64_t incarnation, uint64_t epoch, uint64_t trusted_ms)
{
    return (struct view_stamp){.incarnation = incarnation, .epoch = epoch, .trusted_ms = trusted_ms};
}

static bool is_older(struct view_stamp one, struct view_stamp latest)
{
    return view_stamp_is_older(&one, &latest);
}

static bool is_replaced(struct view_stamp one, struct view_stamp latest)
{
    return view_stamp_is_replaced(&one, &latest);
}

static void test_view_stamp_is_older__of_one_incarnation_by_either_number(void **state)
{
    (void)state;
    assert_false(is_older(stamp(X, 5, 100), stamp(X, 5, 100)));
    assert_true(is_older(stamp(X, 4, 100), stamp(X, 5, 100)));
    assert_true(is_older(stamp(X, 5, 99), stamp(X, 5, 100)));
    assert_true(is_older(stamp(X, 6, 99), stamp(X, 5, 100))); /* another server went on by itself */
    assert_false(is_older(stamp(X, 6, 100), stamp(X, 5, 100)));
    assert_false(is_older(stamp(X, 5, 101), stamp(X, 5, 100)));
    assert_false(is_replaced(stamp(X, 4, 99), stamp(X, 5, 100)));
}

static void test_view_stamp_is_older__of_two_incarnations_by_trust(void **state)
{
    (void)state;
    assert_true(is_older(stamp(X, 9, 100), stamp(Y, 1, 101)));
    assert_true(is_replaced(stamp(X, 9, 100), stamp(Y, 1, 101)));
    assert_false(is_older(stamp(Y, 1, 101), stamp(X, 9, 100))); /* made anew */
    assert_false(is_older(stamp(Y, 1, 100), stamp(X, 9, 100)));
}

static void test_view_stamp_is_older__not_by_what_is_not_known(void **state)
{
    (void)state;
    assert_false(is_older(stamp(X, 1, 1), stamp(0, 0, 0)));
    assert_false(is_older(stamp(X, 5, 0), stamp(X, 5, 100))); /* of an older version */
    assert_false(is_older(stamp(Y, 1, 0), stamp(X, 9, 100)));
    assert_false(is_older(stamp(Y, 1, 100), stamp(X, 9, 0)));
}

static void test_view_stamp_learn__keeps_the_latest(void **state)
{
    struct view_stamp s = {0};
    (void)state;
    const struct view_stamp seen[] = {stamp(X, 5, 100), stamp(X, 4, 101), stamp(Y, 1, 99)};
    for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
        view_stamp_learn(&s, &seen[i]);
    assert_true(s.incarnation == X && s.epoch == 5 && s.trusted_ms == 101);
    view_stamp_learn(&s, &(struct view_stamp){Y, 1, 102});
    assert_true(s.incarnation == Y && s.epoch == 1 && s.trusted_ms == 102);
}

static void test_view_stamp_parse__takes_what_the_script_writes(void **state)
{
    static const char *const wrong[] = {"", "1:2", "x:1:2", "11:-1:2", "11:1:2:3", "0000000000000000:1:2"};
    struct view_stamp s;
    (void)state;
    const char *text = "00000000000000aa:7:1795370635758";
    assert_true(view_stamp_parse(&s, text, strlen(text)));
    assert_true(s.incarnation == 0xaa && s.epoch == 7 && s.trusted_ms == UINT64_C(1795370635758));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(view_stamp_parse(&s, wrong[i], strlen(wrong[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view_stamp_is_older__of_one_incarnation_by_either_number),
        cmocka_unit_test(test_view_stamp_is_older__of_two_incarnations_by_trust),
        cmocka_unit_test(test_view_stamp_is_older__not_by_what_is_not_known),
        cmocka_unit_test(test_view_stamp_learn__keeps_the_latest),
        cmocka_unit_test(test_view_stamp_parse__takes_what_the_script_writes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
