/* SPDX-License-Identifier: MIT */
/* A coordinator that follows a table sleeps longer than its lease. What another follower has left for the
 * next one meanwhile stays. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

#define TAIL "twinbloom:{" FILTER "}:tail"
#define MARKS "twinbloom:{" FILTER "}:marks"

enum { ROWS = 300, WAIT_MS = 60000, LEASE_US = 2 * 1000 * 1000 };

static struct fixture fixture;
static struct proxy *proxy;
static struct client redis;

static int set_up(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned route;
    uint16_t port;
    char node[64];
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    must(client_ok(&redis, &e, "ACL SETUSER held on >pw ~* &* +@all"), e);
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, fixture.redis[0].port, &route, &port, &e), e);
    proxy_count_as_job(proxy, "twinbloom-tail");
    (void)snprintf(node, sizeof(node), "redis://held:pw@127.0.0.1:%u", (unsigned)port);
    const struct daemon_options o = {
        .nodes = node,
        .dsn = fixture.postgres.dsn,
        .redis = "timeout = 20s\n",
        .expansion = "lease = 2s\nfollow_interval = 100ms\n",
        .filters = "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\nfollow = yes\nfollow_by = ids\n"};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture.daemons = 1;
    fixture_reconnect(&fixture, 0);
    fixture_wait(&fixture, 0, "built", "1");
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_wait(&fixture, 0, "follow_state", "running");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    int stopped = fixture_stop(&fixture);
    proxy_stop(proxy);
    client_close(&redis);
    proxy = NULL;
    return stopped;
}

static void get(char out[64], const char *key, const char *field)
{
    redisReply *reply = client_command(&redis, "HGET %s %s", key, field);
    assert_non_null(reply);
    (void)snprintf(out, 64, "%s", reply->type == REDIS_REPLY_STRING ? reply->str : "");
    freeReplyObject(reply);
}

static void set(const char *key, const char *field, const char *value)
{
    freeReplyObject(client_command(&redis, "HSET %s %s %s", key, field, value));
}

/* Ids went back, another coordinator has noted that, and is gone. */
static void test_mark__that_comes_late_replaces_none_of_a_later_follower(void **state)
{
    (void)state;
    char mark[64];
    get(mark, MARKS, "public.short_link");
    assert_string_equal(mark, "300");
    proxy_count_only(proxy, ":marks\r\n");
    proxy_count(proxy, "held", 1, PROXY_BEFORE);
    fixture_insert(fixture.db, ROWS, 1);
    assert_true(proxy_await_held(proxy, WAIT_MS));
    set(TAIL, "owner", "another");
    freeReplyObject(client_command(&redis, "PERSIST " TAIL));
    set(MARKS, "public.short_link", "20");
    proxy_release(proxy, true);
    clock_sleep_us(LEASE_US / 2); /* it has been executed, and the follower has met the other one */
    get(mark, MARKS, "public.short_link");
    assert_string_equal(mark, "20");
}

/* A job lowers a mark that is above the largest id; before it has written that, ids go back. */
static void test_mark__that_a_job_lowers_late_stays_lower(void **state)
{
    (void)state;
    char mark[64];
    set(MARKS, "public.short_link", "1000");
    proxy_count_only(proxy, ":marks\r\n");
    proxy_count(proxy, "held", 2, PROXY_BEFORE); /* it reads the mark first */
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    assert_true(proxy_await_held(proxy, WAIT_MS));
    set(MARKS, "public.short_link", "20");
    proxy_release(proxy, true);
    fixture_wait(&fixture, 0, "job_step", "grace");
    get(mark, MARKS, "public.short_link");
    assert_string_equal(mark, "20");
}

/* Who has slept does not know what another one did meanwhile: it begins again, from the marks. */
static void test_lease__that_has_ended_is_not_renewed(void **state)
{
    (void)state;
    char before[64], after[64] = "";
    get(before, TAIL, "coverage");
    assert_string_not_equal(before, "");
    daemon_pause(&fixture.daemon[0]);
    clock_sleep_us(LEASE_US * 5 / 4);
    get(after, TAIL, "owner");
    assert_string_equal(after, "");
    daemon_resume(&fixture.daemon[0]);
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000); after[0] == '\0';) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(10 * 1000);
        get(after, TAIL, "coverage");
    }
    assert_string_not_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mark__that_comes_late_replaces_none_of_a_later_follower, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_mark__that_a_job_lowers_late_stays_lower, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lease__that_has_ended_is_not_renewed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
