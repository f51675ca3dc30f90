/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/error.h"

static void test_error_set__writes_the_text_and_returns_the_code(void **state)
{
    (void)state;
    struct error e;
    assert_int_equal(error_set(&e, ERR_RANGE, "%d of %s", 3, "x"), ERR_RANGE);
    assert_string_equal(e.text, "3 of x");
}

static void test_error__needs_no_place_for_the_text(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, ERR_IO, "text"), ERR_IO);
    assert_int_equal(error_prefix(NULL, ERR_IO, "text"), ERR_IO);
}

static void test_error_prefix__adds_what_each_boundary_was_doing(void **state)
{
    (void)state;
    struct error e;
    (void)error_set(&e, ERR_TIMEOUT, "no reply");
    assert_int_equal(error_prefix(&e, ERR_TIMEOUT, "node %d", 2), ERR_TIMEOUT);
    assert_int_equal(error_prefix(&e, ERR_UNREACHABLE, "fence"), ERR_UNREACHABLE);
    assert_string_equal(e.text, "fence: node 2: no reply");
}

static void test_error_set__cuts_a_text_that_is_too_long(void **state)
{
    (void)state;
    char text[2 * sizeof(((struct error *)0)->text)];
    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    struct error e;
    (void)error_set(&e, ERR_IO, "%s", text);
    assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

static void test_error_prefix__cuts_at_the_end_whatever_the_lengths(void **state)
{
    (void)state;
    char prefix[600];
    for (size_t n = 0; n < sizeof(prefix); n++) {
        struct error e;
        (void)error_set(&e, ERR_IO, "%0500d", 7);
        memset(prefix, 'p', n);
        prefix[n == 0 ? 0 : n - 1] = '\0';
        size_t length = strlen(prefix);
        assert_int_equal(error_prefix(&e, ERR_IO, "%s", prefix), ERR_IO);
        size_t got = strnlen(e.text, sizeof(e.text));
        assert_true(got < sizeof(e.text));
        size_t wanted = length + 2 + 500 < sizeof(e.text) ? length + 2 + 500 : sizeof(e.text) - 1;
        /* Where not even ": " and one byte have room, the prefix alone may stand. */
        assert_true(got == wanted || (length + 2 >= sizeof(e.text) - 1 && got >= sizeof(e.text) - 3));
        assert_memory_equal(e.text, prefix, length < got ? length : got);
    }
}

static void test_error_name__is_unlike_for_every_code(void **state)
{
    (void)state;
    static const enum err codes[] = {ERR_OK,
#define X(code, value, name, meaning) code,
                                     ERROR_CODES(X)
#undef X
    };
    size_t count = sizeof(codes) / sizeof(codes[0]);
    assert_string_equal(error_name(ERR_OK), "ok");
    assert_string_equal(error_name(ERR_TIMEOUT), "timeout");
    for (size_t i = 0; i < count; i++) {
        assert_string_not_equal(error_name(codes[i]), "unknown");
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(error_name(codes[i]), error_name(codes[j]));
    }
    assert_string_equal(error_name((enum err)(-999)), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_set__writes_the_text_and_returns_the_code),
        cmocka_unit_test(test_error__needs_no_place_for_the_text),
        cmocka_unit_test(test_error_prefix__adds_what_each_boundary_was_doing),
        cmocka_unit_test(test_error_set__cuts_a_text_that_is_too_long),
        cmocka_unit_test(test_error_prefix__cuts_at_the_end_whatever_the_lengths),
        cmocka_unit_test(test_error_name__is_unlike_for_every_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
