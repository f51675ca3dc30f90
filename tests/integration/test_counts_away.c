/* SPDX-License-Identifier: MIT */
/* The metadata node of a filter is away for seconds. Nothing is added meanwhile, keys that were added before
 * and after are counted exactly, and the error rate stays near the configured one. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum {
    CAPACITY = 20000,
    KEYS = 800,
    AT_ONCE = 100, /* keys in one command */
    AWAY_MS = 4000,
    ABSENT = 20000,
    WAIT_MS = 30000
};
#define NEVER UINT64_C(100000000)

static struct fixture f;
static struct proxy *proxy;
static unsigned route;

static void put_home_behind_a_proxy(struct fixture *fixture)
{
    struct error e = {""};
    uint16_t port;
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, fixture->redis[0].port, &route, &port, &e), e);
    (void)snprintf(fixture->node_list, sizeof(fixture->node_list), "redis://127.0.0.1:%u, %s", port,
                   fixture->redis[1].url);
}

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.nodes = 2,
                                      .daemons = 1,
                                      .service = "check_interval = 200ms\nthreads = 4\n",
                                      .redis_lines = "shard_bytes = 4KiB\ntimeout = 300ms\n",
                                      .prepare = put_home_behind_a_proxy};
    struct error e = {""};
    if (fixture_start(&f, &o) != 0)
        return -1;
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.01 %d", CAPACITY), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    int status = fixture_stop(&f);
    proxy_stop(proxy);
    return status;
}

static void append(struct client *c, const char *command, uint64_t first)
{
    const char *argv[2 + AT_ONCE] = {command, "seen"};
    size_t lengths[2 + AT_ONCE] = {strlen(command), 4};
    static char key[AT_ONCE][CLIENT_KEY_MAX];
    for (unsigned i = 0; i < AT_ONCE; i++) {
        argv[2 + i] = key[i];
        lengths[2 + i] = fixture_code(first + i, key[i]);
    }
    assert_int_equal(redisAppendCommandArgv(c->redis, 2 + AT_ONCE, argv, lengths), REDIS_OK);
}

/* How many elements of the next reply are 1. */
static uint64_t take(struct client *c)
{
    redisReply *r = NULL;
    uint64_t n = 0;
    assert_int_equal(redisGetReply(c->redis, (void **)&r), REDIS_OK);
    for (size_t i = 0; i < r->elements; i++)
        n += r->element[i]->type == REDIS_REPLY_INTEGER && r->element[i]->integer == 1;
    freeReplyObject(r);
    return n;
}

/* Add @keys keys by four connections, so that each event loop has some. Returns how many were acknowledged as
 * new. */
static uint64_t add(uint64_t keys, uint64_t ms)
{
    enum { CONNECTIONS = 4 };
    struct client c[CONNECTIONS] = {0};
    struct error e = {""};
    uint64_t fresh = 0, until = clock_mono_us() + ms * 1000;
    for (unsigned i = 0; i < CONNECTIONS; i++)
        must(client_open(&c[i], f.daemon[0].port, WAIT_MS, &e), e);
    for (uint64_t at = 0; at < keys; at += AT_ONCE)
        append(&c[at / AT_ONCE % CONNECTIONS], "BF.MADD", at);
    for (uint64_t at = 0; at < keys; at += AT_ONCE)
        fresh += take(&c[at / AT_ONCE % CONNECTIONS]);
    for (unsigned i = 0; i < CONNECTIONS; i++)
        client_close(&c[i]);
    while (clock_mono_us() < until)
        clock_sleep_us(20000);
    return fresh;
}

static int64_t number(const char *command)
{
    struct error e = {""};
    int64_t n = 0;
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000); /* the metadata node may still be away */
    while (client_integer(&f.client[0], &n, &e, command) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    return n;
}

static void rate_is_bounded(void)
{
    uint64_t wrong = 0;
    struct error e = {""};
    must(client_mexists(&f.client[0], "seen", fixture_code, NEVER, ABSENT, &wrong, NULL, &e), e);
    assert_in_range(wrong, 0, ABSENT * 3 / 100);
}

/* The filter's keys are counted in its lane, which is on the metadata node. */
static void loses_no_counts(const struct proxy_fault *fault)
{
    uint64_t first = add(KEYS, 0);
    assert_in_range(first, KEYS * 9 / 10, KEYS);
    assert_int_equal(number("BF.CARD seen"), first);
    proxy_set(proxy, route, fault);
    assert_int_equal(add(2 * KEYS, AWAY_MS), 0);
    proxy_lift(proxy);
    int64_t before =
        number("BF.CARD seen"); /* entries that were on their way may have arrived, and count then */
    assert_in_range(before, first, 2 * KEYS);
    before += (int64_t)add(3 * KEYS, 0);
    assert_int_equal(number("BF.CARD seen"), before);
    rate_is_bounded();
}

static void test_home__that_refuses_connections_loses_no_counts(void **state)
{
    (void)state;
    loses_no_counts(&(struct proxy_fault){.refuse = true});
}

static void test_home__that_does_not_answer_loses_no_counts(void **state)
{
    (void)state;
    loses_no_counts(&(struct proxy_fault){.swallow = true});
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_home__that_refuses_connections_loses_no_counts),
        TEST(test_home__that_does_not_answer_loses_no_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
