/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "service/http/message/http_origin.h"

static const unsigned char key[CSRF_KEY_SIZE] = {1, 2, 3};

/* The status of the refusal; 0: the request is served. */
static int fault(struct origin_facts f)
{
    int status = 0;
    return origin_fault(&f, key, "box.example", "bloom.example, other.example", &status) == NULL ? 0 : status;
}

static void test_origin__hosts_that_strangers_cannot_have_are_ours(void **state)
{
    (void)state;
    static const char *const ours[] = {
        "localhost",     "localhost:9479",   "127.0.0.1:9479",      "[::1]:9479", "10.1.2.3",
        "twinbloom",     "twinbloom:9479",   "a.svc.cluster.local", "x.internal", "Box.Example:1",
        "bloom.example", "other.example:80", "a.localhost.",        "nas.lan"};
    static const char *const others[] = {"evil.example",
                                         "evil.example:9479",
                                         "127.0.0.1.evil.example",
                                         "localhost.evil.example",
                                         "xbloom.example",
                                         "bloom.example.evil.com",
                                         "[::1",
                                         ""};
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        if (!origin_host_is_ours(ours[i], "box.example", "bloom.example, other.example"))
            fail_msg("%s is not ours", ours[i]);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (origin_host_is_ours(others[i], "box.example", "bloom.example, other.example"))
            fail_msg("%s is ours", others[i]);
}

static void test_origin__programs_are_served_as_ever(void **state)
{
    (void)state;
    assert_int_equal(fault((struct origin_facts){.host = "evil.example", .user = "default", .changes = true}),
                     0);
    assert_int_equal(fault((struct origin_facts){.user = "default", .changes = true}), 0);
    assert_int_equal(fault((struct origin_facts){.host = "a.b", .user = "u", .changes = true, .login = true}),
                     0);
}

static void test_origin__a_name_of_strangers_is_misdirected_where_no_login_is_needed(void **state)
{
    (void)state;
    assert_int_equal(fault((struct origin_facts){.host = "evil.example", .language = "en", .user = ""}), 421);
    assert_int_equal(fault((struct origin_facts){.host = NULL, .language = "en", .user = ""}), 421);
    assert_int_equal(fault((struct origin_facts){.host = "localhost", .language = "en", .user = ""}), 0);
    assert_int_equal(
        fault((struct origin_facts){.host = "evil.example", .language = "en", .user = "u", .login = true}),
        0);
}

static void test_origin__a_page_needs_the_token_of_its_user(void **state)
{
    (void)state;
    char token[CSRF_TOKEN_SIZE], other[CSRF_TOKEN_SIZE];
    assert_true(origin_token(key, "u", token));
    assert_true(origin_token(key, "v", other));
    assert_string_not_equal(token, other);
    struct origin_facts f = {.host = "h.example:1",
                             .origin = "https://h.example:1",
                             .fetch_site = "same-origin",
                             .user = "u",
                             .changes = true,
                             .login = true};
    assert_int_equal(fault(f), 403);
    f.token = other;
    assert_int_equal(fault(f), 403);
    f.token = "";
    assert_int_equal(fault(f), 403);
    f.token = token;
    assert_int_equal(fault(f), 0);
    f.fetch_site = "cross-site";
    assert_int_equal(fault(f), 403);
    f.fetch_site = "same-site";
    assert_int_equal(fault(f), 403);
    f.fetch_site = NULL;
    assert_int_equal(fault(f), 0);
    f.origin = "https://h.example:2";
    assert_int_equal(fault(f), 403);
    f.origin = "null";
    assert_int_equal(fault(f), 403);
    f.origin = "https://h.example:1";
    f.token = NULL;
    f.bearer = true;
    assert_int_equal(fault(f), 0);
    f.bearer = false;
    f.changes = false;
    assert_int_equal(fault(f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_origin__hosts_that_strangers_cannot_have_are_ours),
        cmocka_unit_test(test_origin__programs_are_served_as_ever),
        cmocka_unit_test(test_origin__a_name_of_strangers_is_misdirected_where_no_login_is_needed),
        cmocka_unit_test(test_origin__a_page_needs_the_token_of_its_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
