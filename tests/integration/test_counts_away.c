/* SPDX-License-Identifier: MIT */
/* A filter whose home node is away for seconds, while the other node takes adds: they are counted when home
 * is back, layers come, and the error rate stays near what was promised. Also where the coordinator that had
 * the counts was killed: they are estimated from the bits. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum {
    CAPACITY = 20000,
    KEYS = 60000,  /* that are added while home is away, or refused */
    LOST = 16000,  /* the same of a coordinator that is killed; half of them lie on the node that is away */
    AT_ONCE = 100, /* in one command */
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

/* How many keys of a reply are 1. */
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

/* So many of the @keys were acknowledged as new. From four connections, so that all event loops have some. */
static uint64_t add_while_home_is_away(uint64_t keys, uint64_t ms)
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
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000); /* home may be away yet */
    while (client_integer(&f.client[0], &n, &e, command) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
    return n;
}

/* What was acknowledged is counted, nearly, and not as much more. */
static void is_counted(uint64_t fresh)
{
    int64_t n = 0;
    for (int i = 0; i < 500 && n < (int64_t)fresh; i++) {
        n = number("BF.CARD seen");
        clock_sleep_us(20000);
    }
    assert_in_range(n, fresh, fresh * 3 / 2 + 2000);
}

static void rate_is_bounded(void)
{
    uint64_t wrong = 0;
    struct error e = {""};
    must(client_mexists(&f.client[0], "seen", fixture_code, NEVER, ABSENT, &wrong, NULL, &e), e);
    assert_in_range(wrong, 0, ABSENT * 3 / 100);
}

/* Its keys are counted in its lane, which lies at home: nothing is added meanwhile, and what was added before
 * and after is counted exactly. */
static void log_loses_no_counts(const struct proxy_fault *fault)
{
    enum { FEW = 800 };
    uint64_t first = add_while_home_is_away(FEW, 0);
    assert_in_range(first, FEW * 9 / 10, FEW);
    assert_int_equal(number("BF.CARD seen"), first);
    proxy_set(proxy, route, fault);
    assert_int_equal(add_while_home_is_away(2 * FEW, AWAY_MS), 0);
    proxy_lift(proxy);
    int64_t before =
        number("BF.CARD seen"); /* entries that were on their way may be in, and are counted then */
    assert_in_range(before, first, 2 * FEW);
    before += (int64_t)add_while_home_is_away(3 * FEW, 0);
    assert_int_equal(number("BF.CARD seen"), before);
    rate_is_bounded();
}

static void loses_no_counts(const struct proxy_fault *fault)
{
    struct error e = {""};
    if (fixture_is_log()) {
        log_loses_no_counts(fault);
        return;
    }
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, 100, &e), e);
    proxy_set(proxy, route, fault);
    uint64_t fresh = add_while_home_is_away(KEYS, AWAY_MS);
    proxy_lift(proxy);
    assert_true(fresh > 100);
    is_counted(fresh);
    rate_is_bounded();
    /* And it goes on, with layers. */
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS * 2, CAPACITY * 2, &e), e);
    must(client_wait_status_least(&f.client[0], "seen", "layers", 2, WAIT_MS, &e), e);
    is_counted(fresh + CAPACITY * 2 * 9 / 10);
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

/* Every event loop knows the filter. */
static void meet_all_loops(void)
{
    struct error e = {""};
    for (unsigned i = 0; i < 16; i++) {
        struct client c = {0};
        must(client_open(&c, f.daemon[0].port, WAIT_MS, &e), e);
        must(client_madd(&c, "seen", fixture_code, KEYS + i, 1, &e), e);
        client_close(&c);
    }
}

/* Its bits say how many there are: nearly, and soon after a coordinator has begun to look. */
static void is_estimated(uint64_t fresh)
{
    int64_t n = 0;
    for (int i = 0; i < 500 && n < (int64_t)fresh * 9 / 10; i++) {
        n = number("BF.CARD seen");
        clock_sleep_us(20000);
    }
    assert_in_range(n, fresh * 9 / 10, fresh * 21 / 20 + 16);
}

static void test_coordinator__that_is_killed_with_counts_leaves_them_to_be_estimated(void **state)
{
    (void)state;
    struct error e = {""};
    meet_all_loops();
    proxy_set(proxy, route, &(struct proxy_fault){.refuse = true});
    uint64_t fresh = add_while_home_is_away(LOST, 0);
    daemon_kill(&f.daemon[0]);
    proxy_lift(proxy);
    assert_in_range(fresh, LOST / 4, LOST); /* thousands, that Redis has no count of */
    must(daemon_launch(&f.daemon[0], &e), e);
    fixture_reconnect(&f, 0);
    assert_in_range(number("BF.CARD seen"), 0, fresh / 2);
    is_estimated(fresh);
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS * 2, CAPACITY - LOST / 4, &e), e);
    must(client_wait_status_least(&f.client[0], "seen", "layers", 2, WAIT_MS, &e), e);
    rate_is_bounded();
}

static void test_home__that_comes_back_with_older_counts_has_them_estimated(void **state)
{
    (void)state;
    enum { ADDED = 10000, SOME_LOOKS_MS = 1500 };
    struct client home = {0};
    struct error e = {""};
    int64_t gone = 0;
    must(client_madd(&f.client[0], "seen", fixture_code, 0, ADDED, &e), e);
    is_counted(ADDED * 99 / 100);
    must(client_open(&home, f.redis[0].port, WAIT_MS, &e), e);
    proxy_set(proxy, route, &(struct proxy_fault){.refuse = true});
    must(client_integer(&home, &gone, &e, "DEL twinbloom:{seen}:count"), e);
    assert_int_equal(gone, 1);
    clock_sleep_us(SOME_LOOKS_MS * 1000);
    proxy_lift(proxy);
    client_close(&home);
    is_estimated(ADDED);
}

/* How often that server has run @command. */
static uint64_t calls(struct client *node, const char *command)
{
    char name[64];
    uint64_t n = 0;
    redisReply *r = client_command(node, "INFO commandstats");
    assert_non_null(r);
    (void)snprintf(name, sizeof(name), "\ncmdstat_%s:calls=", command);
    const char *at = strstr(r->str, name);
    if (at != NULL)
        n = strtoull(at + strlen(name), NULL, 10);
    freeReplyObject(r);
    return n;
}

/* All filters are due when a coordinator begins. Here each takes longer to count than a round may spend on
 * that. */
static void test_coordinator__counts_the_bits_of_few_filters_in_one_round(void **state)
{
    (void)state;
    enum { FILTERS = 8, DELAY_MS = 25 };
    struct client node[2] = {{0}};
    struct error e = {""};
    uint64_t counted = 0, before, first = 0, now = 0;
    assert_int_equal(number("DEL seen"), 1);
    for (unsigned i = 0; i < FILTERS; i++)
        must(client_ok(&f.client[0], &e, "BF.RESERVE filter%u 0.01 100", i), e);
    daemon_kill(&f.daemon[0]);
    for (unsigned i = 0; i < 2; i++)
        must(client_open(&node[i], f.redis[i].port, WAIT_MS, &e), e);
    before = calls(&node[0], "bitcount") + calls(&node[1], "bitcount");
    proxy_set(proxy, route, &(struct proxy_fault){.reply_delay_ms = DELAY_MS});
    must(daemon_launch(&f.daemon[0], &e), e);
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000); counted < FILTERS;) {
        if (clock_mono_us() > until)
            fail_msg("%" PRIu64 " of %d filters were counted", counted, FILTERS);
        counted = calls(&node[0], "bitcount") + calls(&node[1], "bitcount") - before;
        now = calls(&node[0], "smembers"); /* each round reads the names of all filters */
        first = first == 0 && counted > 0 ? now : first;
        clock_sleep_us(5000);
    }
    assert_in_range(now - first, FILTERS - 2, 10 * FILTERS);
    proxy_lift(proxy);
    fixture_reconnect(&f, 0);
    for (unsigned i = 0; i < 2; i++)
        client_close(&node[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    /* Bits and counts of shards alone. */
    const struct CMUnitTest of_shards[] = {
        TEST(test_coordinator__counts_the_bits_of_few_filters_in_one_round),
        TEST(test_home__that_comes_back_with_older_counts_has_them_estimated),
        TEST(test_coordinator__that_is_killed_with_counts_leaves_them_to_be_estimated),
    };
    const struct CMUnitTest tests[] = {
        TEST(test_home__that_refuses_connections_loses_no_counts),
        TEST(test_home__that_does_not_answer_loses_no_counts),
    };
    int failed = fixture_is_log() ? 0 : cmocka_run_group_tests(of_shards, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL) + failed;
}
