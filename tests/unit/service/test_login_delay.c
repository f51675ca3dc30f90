/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <cmocka.h>

#include "service/core/sockets.h"
#include "service/core/login_delay.h"

#define S 1000000ull

struct fixture {
    struct login_delay d;
    uint64_t now;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->d.seed = 42;
    f->now = 1000 * S;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static struct login_who who(const struct fixture *f, const char *address, const char *name)
{
    return login_delay_who(&f->d, address, name, strlen(name));
}

/* How long the next login must wait, in milliseconds. */
static uint64_t wait_ms(const struct fixture *f, const char *address, const char *name)
{
    uint64_t until = login_delay_until_us(&f->d, who(f, address, name), f->now);
    return until > f->now ? (until - f->now) / 1000 : 0;
}

static void fail_times(struct fixture *f, const char *address, const char *name, int times)
{
    for (int i = 0; i < times; i++)
        login_delay_failed(&f->d, who(f, address, name), f->now);
}

static void test_login_delay__grows_after_a_few_failures_to_a_bound(void **state)
{
    struct fixture *f = *state;
    static const uint64_t wanted[] = {0, 0, 0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        fail_times(f, "10.0.0.1", "app", 1);
        assert_int_equal(wait_ms(f, "10.0.0.1", "app"), wanted[i]);
        f->now += wanted[i] * 1000;
        assert_int_equal(wait_ms(f, "10.0.0.1", "app"), 0);
    }
    fail_times(f, "10.0.0.1", "app", 100000);
    assert_int_equal(wait_ms(f, "10.0.0.1", "app"), LOGIN_DELAY_MS_MAX);
}

static void test_login_delay__is_of_one_address_and_name(void **state)
{
    struct fixture *f = *state;
    char name[16] = "other";
    fail_times(f, "10.0.0.1", "app", 100);
    assert_int_equal(wait_ms(f, "10.0.0.2", "app"), 0);
    assert_int_equal(wait_ms(f, "/run/socket", "app"), 0);
    for (int i = 0; who(f, "10.0.0.1", name).name == who(f, "10.0.0.1", "app").name; i++)
        (void)snprintf(name, sizeof(name), "other%d", i);
    assert_int_equal(wait_ms(f, "10.0.0.1", name), 0);
}

static void test_login_delay__is_forgiven_by_time(void **state)
{
    struct fixture *f = *state;
    fail_times(f, "10.0.0.1", "app", 100);
    f->now += (LOGIN_FORGET_S - 1) * S;
    fail_times(f, "10.0.0.1", "app", 1);
    assert_int_equal(wait_ms(f, "10.0.0.1", "app"), LOGIN_DELAY_MS_MAX);
    f->now += LOGIN_FORGET_S * S;
    fail_times(f, "10.0.0.1", "app", LOGIN_FREE_FAILURES);
    assert_int_equal(wait_ms(f, "10.0.0.1", "app"), 0);
}

/* An address that tries many names delays only itself. No failure is forgotten. */
static void test_login_delay__a_flood_of_names_takes_no_memory(void **state)
{
    struct fixture *f = *state;
    char name[16];
    fail_times(f, "10.0.0.1", "app", 100);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        fail_times(f, "10.0.0.1", name, 1);
    }
    assert_int_equal(wait_ms(f, "10.0.0.1", "app"), LOGIN_DELAY_MS_MAX);
    assert_int_equal(wait_ms(f, "10.0.0.1", "never tried"), LOGIN_DELAY_MS_MAX);
    assert_int_equal(wait_ms(f, "10.0.0.2", "app"), 0);
}

/* The table is full. An address that keeps trying stays in it. Of the others, the oldest are dropped. */
static void test_login_delay__forgets_addresses_that_do_not_come_again(void **state)
{
    struct fixture *f = *state;
    char address[32];
    unsigned known = 0;
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(address, sizeof(address), "10.%d.%d.%d", i >> 16 & 255, i >> 8 & 255, i & 255);
        fail_times(f, address, "app", LOGIN_FREE_FAILURES + 1);
        fail_times(f, "192.0.2.1", "app", 1);
    }
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(address, sizeof(address), "10.%d.%d.%d", i >> 16 & 255, i >> 8 & 255, i & 255);
        known += wait_ms(f, address, "app") > 0;
    }
    assert_int_equal(wait_ms(f, "192.0.2.1", "app"), LOGIN_DELAY_MS_MAX);
    assert_int_equal(known, LOGIN_SOURCES - 1);
}

static void test_login_delay__a_network_of_ipv6_is_one_address(void **state)
{
    struct fixture *f = *state;
    fail_times(f, "2001:db8::1", "app", 10);
    assert_true(wait_ms(f, "2001:db8::ffff:1", "app") > 0);
    assert_int_equal(wait_ms(f, "2001:db8:0:1::1", "app"), 0);
    fail_times(f, "fe80::1%eth0", "app", 10);
    assert_true(wait_ms(f, "fe80::2%eth0", "app") > 0);
    fail_times(f, "::ffff:10.0.0.1", "app", 10);
    assert_int_equal(wait_ms(f, "::ffff:10.0.0.2", "app"), 0);
    assert_int_equal(wait_ms(f, "::1", "app"), 0);
}

static void test_login_delay__addresses_take_turns(void **state)
{
    struct fixture *f = *state;
    struct login_who a = who(f, "10.0.0.1", "app"), b = who(f, "10.0.0.2", "app"),
                     c = who(f, "10.0.0.1", "x");
    login_delay_serve(&f->d, a);
    assert_true(login_delay_turn(&f->d, b) < login_delay_turn(&f->d, a));
    assert_int_equal(login_delay_turn(&f->d, c), login_delay_turn(&f->d, a));
    login_delay_serve(&f->d, b);
    assert_true(login_delay_turn(&f->d, a) < login_delay_turn(&f->d, b));
}

static void assert_address(int family, const char *host, const char *expected)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } a = {.any.sa_family = (sa_family_t)family};
    char text[ADDRESS_TEXT_MAX], back[ADDRESS_TEXT_MAX];
    bool is_v4 = family == AF_INET;
    assert_int_equal(inet_pton(family, host, is_v4 ? (void *)&a.v4.sin_addr : &a.v6.sin6_addr), 1);
    *(is_v4 ? &a.v4.sin_port : &a.v6.sin6_port) = htons(6479);
    address_text(&a.any, is_v4 ? sizeof(a.v4) : sizeof(a.v6), text);
    assert_string_equal(text, expected);
    address_host(text, back);
    assert_string_equal(back, host);
}

/* As Redis writes them; delays go by the host. */
static void test_address__of_ipv6_has_brackets_and_its_host_has_none(void **state)
{
    const struct sockaddr local = {.sa_family = AF_UNIX};
    char text[ADDRESS_TEXT_MAX];
    (void)state;
    assert_address(AF_INET, "10.0.0.1", "10.0.0.1:6479");
    assert_address(AF_INET6, "2001:db8::1", "[2001:db8::1]:6479");
    assert_address(AF_INET6, "::ffff:10.0.0.1", "[::ffff:10.0.0.1]:6479");
    address_text(&local, sizeof(local), text);
    assert_string_equal(text, "");
    address_host("/run/twinbloom/socket:0", text);
    assert_string_equal(text, "/run/twinbloom/socket");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_login_delay__grows_after_a_few_failures_to_a_bound),
        TEST(test_login_delay__is_of_one_address_and_name),
        TEST(test_login_delay__is_forgiven_by_time),
        TEST(test_login_delay__a_flood_of_names_takes_no_memory),
        TEST(test_login_delay__forgets_addresses_that_do_not_come_again),
        TEST(test_login_delay__a_network_of_ipv6_is_one_address),
        TEST(test_login_delay__addresses_take_turns),
        cmocka_unit_test(test_address__of_ipv6_has_brackets_and_its_host_has_none),
    };
    return cmocka_run_group_tests_name("login_delay", tests, NULL, NULL);
}
