/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
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
        /* If ": " and one more byte do not fit, the text may be the prefix alone. */
        assert_true(got == wanted || (length + 2 >= sizeof(e.text) - 1 && got >= sizeof(e.text) - 3));
        assert_memory_equal(e.text, prefix, length < got ? length : got);
    }
}

static void test_error_name__is_unlike_for_every_code(void **state)
{
    (void)state;
    static const enum err codes[] = {ERR_OK,
#define X(code, ...) code,
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

/* Clients rely on the number, the name and the beginning of a reply: if you change one, change this table
 * too. */
static void test_error_codes__are_those_that_clients_know(void **state)
{
    (void)state;
    static const struct {
        int code;
        const char *name, *reply;
        int http_status, exit_status;
    } promised[] = {
        {-1, "range", "RANGE", 422, 4},
        {-2, "no-memory", "OOM", 503, 5},
        {-3, "parse", "PARSE", 400, 4},
        {-4, "io", "IO", 500, 5},
        {-5, "timeout", "TIMEOUT", 504, 6},
        {-6, "unreachable", "CLUSTERDOWN", 503, 3},
        {-7, "conflict", "CONFLICT", 409, 4},
        {-8, "view-changed", "TRYAGAIN", 503, 6},
        {-9, "not-found", "ERR not found", 404, 4},
        {-10, "exists", "ERR item exists", 409, 4},
        {-11, "lost", "LOST", 503, 5},
        {-12, "busy", "BUSY", 409, 6},
        {-13, "cancelled", "CANCELLED", 503, 6},
        {-14, "mutex-lost", "MUTEXLOST", 409, 6},
        {-15, "refused", "REFUSED", 503, 4},
        {-16, "config", "CONFIG", 409, 4},
        {-17, "full", "ERR non scaling filter is full", 409, 4},
        {-18, "wrong-type", "WRONGTYPE", 409, 4},
        {-19, "newer-format", "NEWERFORMAT", 503, 4},
        {-20, "source-changed", "SOURCECHANGED", 409, 6},
        {-21, "takes-long", "TAKESLONG", 503, 6},
    };
    size_t count;
    const struct error_code *rows = error_codes(&count);
    assert_int_equal(count, sizeof(promised) / sizeof(promised[0]));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(rows[i].code, promised[i].code);
        assert_string_equal(rows[i].name, promised[i].name);
        assert_string_equal(rows[i].reply, promised[i].reply);
        assert_int_equal(rows[i].http_status, promised[i].http_status);
        assert_int_equal(rows[i].exit_status, promised[i].exit_status);
        assert_ptr_equal(error_code_of(rows[i].code), &rows[i]);
        assert_string_equal(error_name(rows[i].code), rows[i].name);
    }
    assert_null(error_code_of(ERR_OK));
    assert_null(error_code_of((enum err)(-999)));
}

static enum err code_of(const char *reply)
{
    return error_of_reply(reply, strlen(reply));
}

static void test_error_of_reply__is_the_code_that_the_reply_was_made_of(void **state)
{
    (void)state;
    size_t count;
    const struct error_code *rows = error_codes(&count);
    for (size_t i = 0; i < count; i++) {
        char text[128];
        assert_int_equal(code_of(rows[i].reply), rows[i].code);
        (void)snprintf(text, sizeof(text), "%s and why", rows[i].reply);
        assert_int_equal(code_of(text), rows[i].code);
    }
    assert_int_equal(code_of("ERR non scaling filter is full; 2 of 3 keys were done"), ERR_FULL);
    assert_int_equal(code_of("ERR Insufficient memory to create filter: 8 MB"), ERR_NOMEM);
    assert_int_equal(code_of("ERR could not create filter: too many"), ERR_RANGE);
    assert_int_equal(code_of("ERR syntax error"), ERR_REFUSED);
    assert_int_equal(code_of("NOPERM this user has no permissions"), ERR_REFUSED);
    assert_int_equal(code_of("TIMEOUTS are none"), ERR_REFUSED);
    assert_int_equal(code_of(""), ERR_REFUSED);
    assert_int_equal(error_of_reply("BUSYBODY", 4), ERR_BUSY); /* only the given bytes are read */
    assert_int_equal(error_of_reply("BUSY", 3), ERR_REFUSED);
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
        cmocka_unit_test(test_error_codes__are_those_that_clients_know),
        cmocka_unit_test(test_error_of_reply__is_the_code_that_the_reply_was_made_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
