/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/buffer.h"

static void test_buffer__keeps_what_was_appended_while_it_grows(void **state)
{
    (void)state;
    struct buffer b = {0};
    for (int i = 0; i < 10000; i++)
        buffer_printf(&b, "%d,", i);
    buffer_append(&b, "\0z", 2);
    assert_false(buffer_failed(&b));
    assert_int_equal(b.length, 10 * 2 + 90 * 3 + 900 * 4 + 9000 * 5 + 2);
    assert_memory_equal(b.data, "0,1,2,", 6);
    assert_memory_equal(b.data + b.length - 7, "9999,\0z", 7);
    buffer_fini(&b);
}

static void test_buffer__is_empty_and_usable_after_a_clear(void **state)
{
    (void)state;
    struct buffer b;
    buffer_init(&b);
    buffer_puts(&b, "first");
    buffer_clear(&b);
    assert_int_equal(b.length, 0);
    buffer_puts(&b, "second");
    assert_string_equal(buffer_text(&b), "second");
    buffer_fini(&b);
    assert_null(b.data);
}

static void test_buffer_text__does_not_count_its_terminator(void **state)
{
    (void)state;
    struct buffer b = {0};
    assert_string_equal(buffer_text(&b), "");
    buffer_puts(&b, "ab");
    assert_string_equal(buffer_text(&b), "ab");
    assert_int_equal(b.length, 2);
    buffer_puts(&b, "c");
    assert_string_equal(buffer_text(&b), "abc");
    buffer_fini(&b);
}

static void test_buffer_reserve__refuses_a_size_that_overflows(void **state)
{
    (void)state;
    static const size_t absurd[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2 + 2, SIZE_MAX - 63};
    for (size_t i = 0; i < sizeof(absurd) / sizeof(absurd[0]); i++) {
        struct buffer b = {0};
        buffer_puts(&b, "ten bytes!");
        assert_null(buffer_reserve(&b, absurd[i]));
        assert_true(buffer_failed(&b));
        buffer_fini(&b);
    }
}

static void test_buffer__stays_failed_and_keeps_its_bytes_until_cleared(void **state)
{
    (void)state;
    struct buffer b = {0};
    buffer_puts(&b, "kept");
    assert_null(buffer_reserve(&b, SIZE_MAX));
    buffer_puts(&b, "dropped");
    buffer_printf(&b, "%s", "dropped");
    assert_int_equal(b.length, 4);
    assert_memory_equal(b.data, "kept", 4);
    assert_string_equal(buffer_text(&b), "");
    buffer_clear(&b);
    assert_false(buffer_failed(&b));
    buffer_puts(&b, "new");
    assert_string_equal(buffer_text(&b), "new");
    buffer_fini(&b);
}

static void test_buffer_printf__writes_an_empty_text_as_nothing(void **state)
{
    (void)state;
    struct buffer b = {0};
    buffer_printf(&b, "%s", "");
    assert_false(buffer_failed(&b));
    assert_int_equal(b.length, 0);
    buffer_fini(&b);
}

static void test_buffer_command__writes_lengths_in_bytes(void **state)
{
    (void)state;
    struct buffer b = {0};
    const char *argv[] = {"SET", "", "a\r\n\0b", "0123456789"};
    const size_t lengths[] = {3, 0, 5, 10};
    buffer_command(&b, 4, argv, lengths);
    static const char expected[] = "*4\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\na\r\n\0b\r\n$10\r\n0123456789\r\n";
    assert_int_equal(b.length, sizeof(expected) - 1);
    assert_memory_equal(b.data, expected, sizeof(expected) - 1);
    buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffer__keeps_what_was_appended_while_it_grows),
        cmocka_unit_test(test_buffer__is_empty_and_usable_after_a_clear),
        cmocka_unit_test(test_buffer_text__does_not_count_its_terminator),
        cmocka_unit_test(test_buffer_reserve__refuses_a_size_that_overflows),
        cmocka_unit_test(test_buffer__stays_failed_and_keeps_its_bytes_until_cleared),
        cmocka_unit_test(test_buffer_printf__writes_an_empty_text_as_nothing),
        cmocka_unit_test(test_buffer_command__writes_lengths_in_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
