/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "deploy/codes.h"

enum { MANY = 300000 };

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct code));
}

static void test_code_of__gives_every_counter_a_code_of_its_own(void **state)
{
    (void)state;
    struct code *codes = calloc(MANY, sizeof(*codes));
    assert_non_null(codes);
    /* The first ones, some in the middle, the last ones. */
    for (uint64_t i = 0; i < MANY; i++) {
        uint64_t from = i % 3 == 0 ? 0 : i % 3 == 1 ? UINT64_C(1) << 36 : CODE_COUNT - MANY;
        codes[i] = code_of(from + i);
    }
    qsort(codes, MANY, sizeof(*codes), compare);
    for (size_t i = 1; i < MANY; i++)
        assert_int_not_equal(compare(&codes[i - 1], &codes[i]), 0);
    free(codes);
}

static void test_code_of__is_seven_base62_characters(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        struct code code = code_of(i * UINT64_C(352161460));
        assert_int_equal(strlen(code.text), CODE_LENGTH);
        assert_int_equal(strspn(code.text, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
                         CODE_LENGTH);
    }
}

static void test_code_of__makes_neighbours_differ_in_most_places(void **state)
{
    (void)state;
    unsigned same = 0;
    for (uint64_t i = 0; i < 10000; i++) {
        struct code a = code_of(i);
        struct code b = code_of(i + 1);
        for (int c = 0; c < CODE_LENGTH; c++)
            same += a.text[c] == b.text[c];
    }
    /* By chance one place in 62 agrees; twice that would be a pattern. */
    assert_in_range(same, 0, 2 * 10000 * CODE_LENGTH / 62);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_code_of__gives_every_counter_a_code_of_its_own),
        cmocka_unit_test(test_code_of__is_seven_base62_characters),
        cmocka_unit_test(test_code_of__makes_neighbours_differ_in_most_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
