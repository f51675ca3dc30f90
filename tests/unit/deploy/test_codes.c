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
    /* The first counters, some in the middle, and the last ones. */
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

/* If one place were equal in all pairs, the share would be one in seven, above the bound of one in ten. With
 * a plain multiplication the low digits would be equal at the distances 62 and 62 * 62. */
static void test_code_of__makes_neighbours_differ_in_most_places(void **state)
{
    (void)state;
    for (uint64_t distance = 1; distance <= 62 * 62; distance *= 62) {
        unsigned same = 0;
        for (uint64_t i = 0; i < 10000; i++) {
            struct code a = code_of(i);
            struct code b = code_of(i + distance);
            for (int c = 0; c < CODE_LENGTH; c++)
                same += a.text[c] == b.text[c];
        }
        assert_in_range(same, 0, 10000 * CODE_LENGTH / 10);
    }
}

__extension__ typedef unsigned __int128 wide;

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return (uint64_t)((wide)a * b % CODE_COUNT);
}

/* By Euler's theorem: the exponent is phi(62^7) - 1. */
static uint64_t inverse(uint64_t a)
{
    uint64_t result = 1;
    for (uint64_t exponent = CODE_COUNT / 62 * 30 - 1; exponent > 0; exponent /= 2) {
        if (exponent % 2 == 1)
            result = multiply(result, a);
        a = multiply(a, a);
    }
    return result;
}

static uint64_t digit(char c)
{
    if (c <= '9')
        return (uint64_t)(c - '0');
    return c <= 'Z' ? (uint64_t)(c - 'A') + 10 : (uint64_t)(c - 'a') + 36;
}

/* A function that has an inverse maps no two arguments to the same result. */
static void test_code_of__can_be_undone(void **state)
{
    (void)state;
    uint64_t second = inverse(UINT64_C(1345137084273));
    uint64_t first = inverse(UINT64_C(2176477521937));
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t counter = i * UINT64_C(176080731) + i % 7;
        struct code code = code_of(counter);
        uint64_t x = 0;
        for (int c = CODE_LENGTH - 1; c >= 0; c--)
            x = x * 62 + digit(code.text[c]);
        x = multiply(x + CODE_COUNT - UINT64_C(314159265358), second);
        uint64_t reversed = 0;
        for (int c = 0; c < CODE_LENGTH; c++, x /= 62)
            reversed = reversed * 62 + x % 62;
        assert_true(multiply(reversed + CODE_COUNT - UINT64_C(271828182845), first) == counter);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_code_of__gives_every_counter_a_code_of_its_own),
        cmocka_unit_test(test_code_of__is_seven_base62_characters),
        cmocka_unit_test(test_code_of__can_be_undone),
        cmocka_unit_test(test_code_of__makes_neighbours_differ_in_most_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
