/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/glob.h"

static bool match(const char *pattern, const char *text)
{
    return glob_match(pattern, strlen(pattern), text, strlen(text));
}

static void test_glob_match__knows_what_redis_knows(void **state)
{
    (void)state;
    static const char *const yes[][2] = {
        {"", ""},
        {"*", ""},
        {"*", "a.b"},
        {"a*", "a"},
        {"*.b", "a.b"},
        {"a?c", "abc"},
        {"A*C", "abbc"},
        {"a*b*c", "axbxbxc"},
        {"[abc]", "B"},
        {"[^abc]", "d"},
        {"[a-c]x", "bx"},
        {"[c-a]x", "bx"},
        {"\\*", "*"},
        {"[\\]]", "]"},
        {"a**", "abc"},
        {"[a-]", "-"},
        {"service.*", "service.log_level"},
        {"\\", "\\"},
    };
    static const char *const no[][2] = {
        {"", "a"},      {"a", ""},       {"?", ""},    {"a*", "ba"},       {"*.b", "a.c"},    {"a?c", "ac"},
        {"[abc]", "d"}, {"[^abc]", "a"}, {"\\*", "a"}, {"a*b*c", "axbxb"}, {"save", "saved"}, {"[]", "a"},
    };
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
        if (!match(yes[i][0], yes[i][1]))
            fail_msg("'%s' must match '%s'", yes[i][0], yes[i][1]);
    for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
        if (match(no[i][0], no[i][1]))
            fail_msg("'%s' must not match '%s'", no[i][0], no[i][1]);
}

static void test_glob_match__does_not_try_every_split(void **state)
{
    (void)state;
    char pattern[201], text[100];
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = i % 2 == 0 ? '*' : 'a';
    pattern[200] = 'b';
    memset(text, 'a', sizeof(text));
    uint64_t start = clock_mono_us();
    assert_false(glob_match(pattern, sizeof(pattern), text, sizeof(text)));
    assert_true(clock_mono_us() - start < 1000000);
}

static void test_glob_distance__counts_a_swap_as_one(void **state)
{
    (void)state;
    assert_int_equal(glob_distance("status", "status"), 0);
    assert_int_equal(glob_distance("stauts", "status"), 1);
    assert_int_equal(glob_distance("statu", "status"), 1);
    assert_int_equal(glob_distance("rebiuldd", "rebuild"), 2);
    assert_int_equal(glob_distance("", "add"), 3);
    assert_true(glob_distance("a-word-that-goes-on-and-on-for-ever", "add") == SIZE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glob_match__knows_what_redis_knows),
        cmocka_unit_test(test_glob_match__does_not_try_every_split),
        cmocka_unit_test(test_glob_distance__counts_a_swap_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
