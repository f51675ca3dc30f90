/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "service/cli/common/cli_client.h"

static void assert_url(const char *url, const char *user, const char *password, const char *host,
                       unsigned port)
{
    struct client_address a = {.host = "old", .port = CLIENT_PORT};
    struct error e = {""};
    if (client_parse_url(&a, url, &e) != ERR_OK)
        fail_msg("%s: %s", url, e.text);
    assert_string_equal(a.user, user);
    assert_string_equal(a.password, password);
    assert_string_equal(a.host, host);
    assert_int_equal(a.port, port);
}

static void test_client_parse_url__takes_its_parts_apart(void **state)
{
    (void)state;
    assert_url("redis://example.org", "", "", "example.org", 6479);
    assert_url("redis://example.org:7000/", "", "", "example.org", 7000);
    assert_url("redis://[::1]:7000/0", "", "", "::1", 7000);
    assert_url("redis://[::1]", "", "", "::1", 6479);
    assert_url("redis://me:secret@h:1", "me", "secret", "h", 1);
    assert_url("redis://:s%40c%3aret@h:65535", "", "s@c:ret", "h", 65535);
    assert_url("redis://me:a@b@h", "me", "a@b", "h", 6479);
}

static void test_client_parse_url__knows_tls_and_sockets(void **state)
{
    (void)state;
    struct client_address a = {.host = "old", .port = CLIENT_PORT};
    struct error e = {""};
    assert_int_equal(client_parse_url(&a, "rediss://me:x@h:7", &e), ERR_OK);
    assert_true(a.tls);
    assert_string_equal(a.host, "h");
    assert_string_equal(a.path, "");
    assert_int_equal(client_parse_url(&a, "unix:///run/twin%20bloom/s@1", &e), ERR_OK);
    assert_false(a.tls);
    assert_string_equal(a.path, "/run/twin bloom/s@1");
    assert_string_equal(a.user, "me"); /* the user is unchanged */
    assert_int_equal(client_parse_url(&a, "unix://you:p%40w@/s", &e), ERR_OK);
    assert_string_equal(a.path, "/s");
    assert_string_equal(a.user, "you");
    assert_string_equal(a.password, "p@w");
    assert_int_equal(client_parse_url(&a, "redis://h", &e), ERR_OK);
    assert_string_equal(a.path, "");
    assert_false(a.tls);
}

static void test_client_parse_url__refuses_others_and_tells_no_password(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "example.org:6479",
                                      "http://h",
                                      "rediss://",
                                      "unix://",
                                      "unix://path",
                                      "unix://secret@/path",
                                      "unix://u:secret%2@/path",
                                      "redis://",
                                      "redis://:7000",
                                      "redis://h:0",
                                      "redis://h:65536",
                                      "redis://h:7x",
                                      "redis://h:",
                                      "redis://[::1",
                                      "redis://[::1]7",
                                      "redis://h/1",
                                      "redis://secret@h",
                                      "redis://u:secret%2@h",
                                      "redis://u:secret%00@h",
                                      "redis://u:secret%zz@h"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct client_address a = {.host = "old", .port = 5};
        struct error e = {""};
        if (client_parse_url(&a, bad[i], &e) != ERR_PARSE)
            fail_msg("%s was taken", bad[i]);
        assert_string_equal(a.host, "old");
        assert_int_equal(a.port, 5);
        assert_int_equal(strncmp(e.text, "URL: ", 5), 0);
        assert_null(strstr(e.text, "secret"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_client_parse_url__takes_its_parts_apart),
        cmocka_unit_test(test_client_parse_url__knows_tls_and_sockets),
        cmocka_unit_test(test_client_parse_url__refuses_others_and_tells_no_password),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
