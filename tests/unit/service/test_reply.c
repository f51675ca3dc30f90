/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "service/protocol/reply.h"

/* Check what the last calls wrote, and empty the buffer. */
static void check(struct reply *r, const char *expected)
{
    assert_false(buffer_failed(r->out));
    assert_string_equal(buffer_text(r->out), expected);
    assert_int_equal(r->out->length, strlen(expected));
    buffer_fini(r->out);
}

static void test_reply__writes_what_both_protocols_share(void **state)
{
    (void)state;
    for (int protocol = 2; protocol <= 3; protocol++) {
        struct buffer b = {0};
        struct reply r = {.out = &b, .protocol = protocol};
        reply_simple(&r, "OK");
        check(&r, "+OK\r\n");
        reply_error(&r, "ERR no %s in %d", "x", 3);
        check(&r, "-ERR no x in 3\r\n");
        reply_failure(&r, ERR_TIMEOUT, "no answer from %s", "a\r\nb");
        check(&r, "-TIMEOUT no answer from a  b\r\n");
        reply_failure(&r, ERR_NOT_FOUND, "filter '%s'", "x");
        check(&r, "-ERR not found\r\n");
        reply_bulk(&r, "a\r\nb", 4);
        check(&r, "$4\r\na\r\nb\r\n");
        reply_bulk(&r, NULL, 0);
        check(&r, "$0\r\n\r\n");
        reply_text(&r, "hello");
        check(&r, "$5\r\nhello\r\n");
        reply_printf(&r, "%d-%s", 7, "y");
        check(&r, "$3\r\n7-y\r\n");
        reply_array(&r, 0);
        check(&r, "*0\r\n");
        reply_array(&r, 1234567);
        check(&r, "*1234567\r\n");
    }
}

static void test_reply__writes_integers_as_printf_does(void **state)
{
    (void)state;
    const int64_t edges[] = {0,   1,   -1,  9,    10,        11,        -10,      99,
                             100, 101, 999, 1000, INT32_MAX, INT64_MAX, INT64_MIN};
    struct buffer b = {0};
    struct reply r = {.out = &b, .protocol = 2};
    char expected[64];
    for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
        reply_integer(&r, edges[i]);
        (void)snprintf(expected, sizeof(expected), ":%lld\r\n", (long long)edges[i]);
        check(&r, expected);
    }
    uint64_t x = 88172645463325252u;
    for (int i = 0; i < 20000; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        int64_t value = (int64_t)x >> (i % 64);
        reply_integer(&r, value);
        (void)snprintf(expected, sizeof(expected), ":%lld\r\n", (long long)value);
        check(&r, expected);
    }
}

static void test_reply__writes_booleans_nulls_and_maps_by_protocol(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct reply two = {.out = &b, .protocol = 2}, three = {.out = &b, .protocol = 3};
    reply_boolean(&two, true);
    reply_boolean(&two, false);
    check(&two, ":1\r\n:0\r\n");
    reply_boolean(&three, true);
    reply_boolean(&three, false);
    check(&three, "#t\r\n#f\r\n");
    reply_null(&two);
    check(&two, "$-1\r\n");
    reply_null(&three);
    check(&three, "_\r\n");
    reply_map(&two, 3);
    check(&two, "*6\r\n");
    reply_map(&three, 3);
    check(&three, "%3\r\n");
}

static void test_reply_double__writes_the_shortest_form_that_reads_back(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct reply two = {.out = &b, .protocol = 2}, three = {.out = &b, .protocol = 3};
    reply_double(&two, 0.01);
    check(&two, "$4\r\n0.01\r\n");
    reply_double(&three, 0.01);
    check(&three, ",0.01\r\n");
    reply_double(&three, 3);
    check(&three, ",3\r\n");
    reply_double(&three, INFINITY);
    reply_double(&three, -INFINITY);
    reply_double(&three, NAN);
    check(&three, ",inf\r\n,-inf\r\n,nan\r\n");
    const double exact = 0.1 + 0.2;
    reply_double(&three, exact);
    assert_true(strtod(buffer_text(&b) + 1, NULL) == exact);
    buffer_fini(&b);
}

static void test_reply_verbatim__is_marked_as_text_in_resp3(void **state)
{
    (void)state;
    struct buffer b = {0};
    reply_verbatim(&(struct reply){.out = &b, .protocol = 2}, "a\nb", 3);
    reply_verbatim(&(struct reply){.out = &b, .protocol = 3}, "a\nb", 3);
    reply_verbatim(&(struct reply){.out = &b, .protocol = 3}, NULL, 0);
    check(&(struct reply){.out = &b, .protocol = 3}, "$3\r\na\nb\r\n=7\r\ntxt:a\nb\r\n=4\r\ntxt:\r\n");
    buffer_fini(&b);
}

static void test_reply_error__stays_one_line(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct reply r = {.out = &b, .protocol = 2};
    reply_error(&r, "ERR unknown command '%s'", "a\r\n+OK\t\x7f\x01");
    check(&r, "-ERR unknown command 'a  +OK   '\r\n");
    char *text = malloc(100000);
    assert_non_null(text);
    memset(text, 'x', 99999);
    text[99999] = '\0';
    reply_error(&r, "ERR %s", text);
    assert_true(b.length < 2000);
    assert_memory_equal(b.data + b.length - 2, "\r\n", 2);
    buffer_fini(&b);
    reply_printf(&r, "%s!", text);
    assert_int_equal(b.length, strlen("$100000\r\n") + 100000 + 2);
    assert_memory_equal(b.data, "$100000\r\nxxx", 12);
    assert_memory_equal(b.data + b.length - 4, "x!\r\n", 4);
    buffer_fini(&b);
    free(text);
}

static void test_reply_bulk__marks_the_buffer_where_memory_fails(void **state)
{
    (void)state;
    struct buffer b = {0};
    struct reply r = {.out = &b, .protocol = 2};
    reply_bulk(&r, "", SIZE_MAX - 8);
    assert_true(buffer_failed(&b));
    reply_integer(&r, 1); /* later replies are ignored */
    assert_int_equal(b.length, 0);
    buffer_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reply__writes_what_both_protocols_share),
        cmocka_unit_test(test_reply__writes_integers_as_printf_does),
        cmocka_unit_test(test_reply__writes_booleans_nulls_and_maps_by_protocol),
        cmocka_unit_test(test_reply_double__writes_the_shortest_form_that_reads_back),
        cmocka_unit_test(test_reply_verbatim__is_marked_as_text_in_resp3),
        cmocka_unit_test(test_reply_error__stays_one_line),
        cmocka_unit_test(test_reply_bulk__marks_the_buffer_where_memory_fails),
    };
    return cmocka_run_group_tests_name("reply", tests, NULL, NULL);
}
