/* SPDX-License-Identifier: MIT */
/* A stream of events says that it has listed all filters only after it has, even if looks are cut short or
 * Redis is away. Users only see the names of their filters. */
#include "tests/integration/fixture.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"
#include "tests/lib/raw.h"

enum { FILTERS = 40, DELAY_MS = 700, WAIT_MS = 90000, HEARD_MAX = 1 << 19 };

#define SLOW_REDIS "timeout = 5s\n" /* a reply that is late does not fail */
#define STREAM "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n"
/* The password is the name. */
#define READER_HASH "$y$j75$u4DBRzkt/c9yLvd8lcV3m/$zwnOmrN9qr4LuShmqpE9dXFXwYkncYKW2j1NgyY5sl0"
#define AS_READER "Authorization: Basic cmVhZGVyOnJlYWRlcg==\r\n"

/* Redis behind a proxy; one coordinator without logins, one with a user who may see m-1. */
static struct {
    struct temp_redis redis;
    struct proxy *proxy;
    unsigned route;
    struct daemon open, guarded;
} w;

static char heard[HEARD_MAX];
static size_t heard_length;

static int open_stream(const struct daemon *d, const char *headers)
{
    int fd = raw_open(d->http_port);
    assert_true(fd >= 0);
    heard_length = 0;
    heard[0] = '\0';
    assert_true(raw_puts(fd, STREAM) && raw_puts(fd, headers) && raw_puts(fd, "\r\n"));
    return fd;
}

/* Wait until @text comes after @from bytes. Returns where @text begins. */
static size_t hears(int fd, size_t from, const char *text)
{
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    const char *at;
    while ((at = strstr(heard + from, text)) == NULL) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n =
            poll(&p, 1, 1000) > 0 ? recv(fd, heard + heard_length, sizeof(heard) - 1 - heard_length, 0) : -1;
        if (n == 0 || clock_mono_us() > until || heard_length + 1 == sizeof(heard))
            fail_msg("\"%s\" does not come; what came ends in: %s", text,
                     heard_length > 600 ? heard + heard_length - 600 : heard);
        heard_length += n > 0 ? (size_t)n : 0;
        heard[heard_length] = '\0';
    }
    return (size_t)(at - heard);
}

static unsigned filters_before(size_t end)
{
    unsigned count = 0;
    for (unsigned i = 0; i < FILTERS; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "\"filter\":\"m-%u\"", i);
        const char *at = strstr(heard, name);
        count += at != NULL && (size_t)(at - heard) < end;
    }
    return count;
}

/* A page drops the filters that were not listed when it learns that all were listed. */
static void test_told__is_said_of_all_filters_though_one_look_did_not_suffice(void **state)
{
    (void)state;
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    int fd = open_stream(&w.open, "");
    size_t at = hears(fd, hears(fd, 0, "\"filter\":\"m-"), "\"filters\":");
    proxy_lift(w.proxy);
    assert_int_not_equal(filters_before(at), FILTERS); /* else this tests nothing */
    at = hears(fd, 0, "\"filters\":true");
    assert_int_equal(filters_before(at), FILTERS);
    raw_close(fd);
}

/* Open a stream that has not listed anything yet. The daemon notices a little later that the last listener
 * left. */
static int open_new_stream(void)
{
    uint64_t until = clock_mono_us() + (uint64_t)WAIT_MS * 1000;
    for (;;) {
        int fd = open_stream(&w.open, "");
        static const char told[] = "\"filters\":";
        size_t at = hears(fd, 0, told); /* in the first tick */
        (void)hears(fd, at, "\n\n");
        if (strncmp(heard + at + strlen(told), "false", 5) == 0)
            return fd;
        raw_close(fd);
        assert_true(clock_mono_us() < until);
        clock_sleep_us(1500 * 1000); /* longer than a turn of the daemon */
    }
}

static void test_told__is_not_said_while_redis_is_away(void **state)
{
    (void)state;
    proxy_set(w.proxy, w.route, &(struct proxy_fault){.refuse = true});
    int fd = open_new_stream();
    size_t at = hears(fd, 0, "\"redis\":\"Redis node");
    (void)hears(fd, hears(fd, at, "\n\n"), "\"redis\":\"Redis node");
    assert_null(strstr(heard, "\"filters\":true"));
    proxy_lift(w.proxy);
    at = hears(fd, 0, "\"filters\":true");
    assert_int_equal(filters_before(at), FILTERS);
    raw_close(fd);
}

/* Pretend that another coordinator drives jobs of two filters. */
static void plant_coordinator(void)
{
    struct client c;
    struct error e = {""};
    int64_t n;
    must(client_open(&c, w.redis.port, 5000, &e), e);
    must(client_integer(
             &c, &n, &e,
             "HSET twinbloom:{twinbloom:coordinators}:other host h state serving keep_ms 3600000 jobs "
             "%s",
             "m-1\nsecret"),
         e);
    must(client_integer(&c, &n, &e, "PEXPIRE twinbloom:{twinbloom:coordinators}:other 3600000"), e);
    must(client_integer(&c, &n, &e, "SADD twinbloom:coordinators other"), e);
    client_close(&c);
}

static void test_told__are_jobs_by_name_to_those_who_may_see_all_filters(void **state)
{
    (void)state;
    plant_coordinator();
    int fd = open_stream(&w.open, "");
    (void)hears(fd, 0, "\"jobs\":[\"m-1\",\"secret\"]");
    raw_close(fd);
    fd = open_stream(&w.guarded, AS_READER);
    (void)hears(fd, 0, "\"coordinator\":\"other\"");
    (void)hears(fd, 0, "\"filter\":\"m-1\"");
    (void)hears(fd, 0, "\"filters\":true");
    assert_null(strstr(heard, "secret"));
    assert_null(strstr(heard, "\"filter\":\"m-2\""));
    assert_null(strstr(heard, "event: nodes"));
    raw_close(fd);
}

/* --- the fixture --- */

static int lift(void **state)
{
    (void)state;
    proxy_lift(w.proxy);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    struct client c;
    uint16_t port;
    char nodes[64];
    must(temp_redis_start(&w.redis, NULL, &e), e);
    must(proxy_start(&w.proxy, &e), e);
    must(proxy_add(w.proxy, WIRE_REDIS, w.redis.port, &w.route, &port, &e), e);
    (void)snprintf(nodes, sizeof(nodes), "redis://127.0.0.1:%u", port);
    must(daemon_start(&w.open, &(struct daemon_options){.nodes = nodes, .redis = SLOW_REDIS}, &e), e);
    must(client_open(&c, w.open.port, 20000, &e), e);
    for (unsigned i = 0; i < FILTERS; i++)
        must(client_ok(&c, &e, "BF.RESERVE m-%u 0.01 100", i), e);
    client_close(&c);
    must(daemon_start(&w.guarded,
                      &(struct daemon_options){.nodes = nodes,
                                               .redis = SLOW_REDIS,
                                               .filters = "[user reader]\npassword = " READER_HASH
                                                          "\nroles = read\nfilters = m-1\n"},
                      &e),
         e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    bool clean = daemon_fini(&w.open);
    clean &= daemon_fini(&w.guarded);
    proxy_stop(w.proxy);
    temp_redis_fini(&w.redis);
    return clean ? 0 : -1;
}

#define TEST(name) cmocka_unit_test_teardown(name, lift)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_told__is_said_of_all_filters_though_one_look_did_not_suffice),
        TEST(test_told__is_not_said_while_redis_is_away),
        TEST(test_told__are_jobs_by_name_to_those_who_may_see_all_filters),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
