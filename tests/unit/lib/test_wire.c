/* SPDX-License-Identifier: MIT */
#include "tests/lib/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The bytes are in their own allocation, so that a sanitizer reports a read beyond the end. */
static ssize_t request(enum wire_protocol protocol, bool started, const char *bytes, size_t length,
                       struct wire_request *out)
{
    char *copy = malloc(length == 0 ? 1 : length);
    assert_non_null(copy);
    if (length > 0)
        memcpy(copy, bytes, length);
    ssize_t n = wire_request(protocol, started, copy, length, out);
    free(copy);
    return n;
}

/* A beginning of the request is reported as incomplete. The request is complete whatever follows it. */
static void is_one_request(enum wire_protocol protocol, bool started, const char *bytes, size_t length,
                           struct wire_request *out)
{
    char twice[512];
    for (size_t n = 0; n < length; n++)
        assert_int_equal(request(protocol, started, bytes, n, out), 0);
    memcpy(twice, bytes, length);
    memcpy(twice + length, bytes, length);
    assert_int_equal(request(protocol, started, twice, 2 * length, out), length);
}

static void is_one_reply(enum wire_protocol protocol, const char *bytes, size_t length, bool wanted)
{
    bool ends;
    for (size_t n = 0; n < length; n++)
        assert_int_equal(wire_reply(protocol, bytes, n, &ends), 0);
    assert_int_equal(wire_reply(protocol, bytes, length, &ends), length);
    assert_int_equal(ends, wanted);
}

static void test_wire_request__finds_the_end_of_a_command(void **state)
{
    (void)state;
    static const char get[] = "*2\r\n$3\r\nGET\r\n$4\r\n\r\n*9\r\n";
    struct wire_request r;
    is_one_request(WIRE_REDIS, false, get, sizeof(get) - 1, &r);
    assert_int_equal(r.kind, WIRE_REQUEST);
    assert_string_equal(r.user, "");
    assert_string_equal(r.name, "");
}

static void test_wire_request__knows_logins_and_names(void **state)
{
    (void)state;
    static const char login[] = "*3\r\n$4\r\nauth\r\n$2\r\nc1\r\n$3\r\nany\r\n";
    static const char name[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$13\r\ntwinbloom-job\r\n";
    struct wire_request r;
    is_one_request(WIRE_REDIS, false, login, sizeof(login) - 1, &r);
    assert_string_equal(r.user, "c1");
    is_one_request(WIRE_REDIS, false, name, sizeof(name) - 1, &r);
    assert_string_equal(r.name, "twinbloom-job");
}

static void test_wire_request__refuses_what_is_no_command(void **state)
{
    (void)state;
    struct wire_request r;
    assert_int_equal(request(WIRE_REDIS, false, "PING\r\n", 6, &r), -1);
    assert_int_equal(request(WIRE_REDIS, false, "*1\r\n:3\r\n", 8, &r), -1);
    assert_int_equal(request(WIRE_POSTGRES, true, "Q\0\0\0\1", 5, &r), -1);
}

static void test_wire_request__reads_the_startup_of_postgres(void **state)
{
    (void)state;
    static const char startup[] = "\0\0\0\x34\0\3\0\0user\0c2\0application_name\0twinbloom job\0a\0b\0\0";
    static const char tls[] = "\0\0\0\x08\x04\xd2\x16\x2f";
    struct wire_request r;
    is_one_request(WIRE_POSTGRES, false, startup, 0x34, &r);
    assert_int_equal(r.kind, WIRE_STARTUP);
    assert_string_equal(r.user, "c2");
    assert_string_equal(r.name, "twinbloom job");
    is_one_request(WIRE_POSTGRES, false, tls, sizeof(tls) - 1, &r);
    assert_int_equal(r.kind, WIRE_ENCRYPT);
}

static void test_wire_request__ends_with_a_sync_or_a_query(void **state)
{
    (void)state;
    static const char extended[] = "P\0\0\0\6ab"
                                   "B\0\0\0\4"
                                   "E\0\0\0\5c"
                                   "S\0\0\0\4";
    static const char query[] = "Q\0\0\0\6x\0";
    struct wire_request r;
    is_one_request(WIRE_POSTGRES, true, extended, sizeof(extended) - 1, &r);
    is_one_request(WIRE_POSTGRES, true, query, sizeof(query) - 1, &r);
    assert_int_equal(r.kind, WIRE_REQUEST);
}

static void test_wire_reply__finds_the_end(void **state)
{
    (void)state;
    static const char nested[] = "*3\r\n$-1\r\n*2\r\n:1\r\n$3\r\na\r\n\r\n-ERR no\r\n";
    is_one_reply(WIRE_REDIS, "+OK\r\n", 5, true);
    is_one_reply(WIRE_REDIS, "*-1\r\n", 5, true);
    is_one_reply(WIRE_REDIS, nested, sizeof(nested) - 1, true);
    is_one_reply(WIRE_POSTGRES, "D\0\0\0\6xy", 7, false);
    is_one_reply(WIRE_POSTGRES, "Z\0\0\0\5I", 6, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire_request__finds_the_end_of_a_command),
        cmocka_unit_test(test_wire_request__knows_logins_and_names),
        cmocka_unit_test(test_wire_request__refuses_what_is_no_command),
        cmocka_unit_test(test_wire_request__reads_the_startup_of_postgres),
        cmocka_unit_test(test_wire_request__ends_with_a_sync_or_a_query),
        cmocka_unit_test(test_wire_reply__finds_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
