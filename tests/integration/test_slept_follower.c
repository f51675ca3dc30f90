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
static uint16_t proxy_port;

static void start_proxy(void)
{
    struct error e = {""};
    unsigned route;
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    must(client_ok(&redis, &e, "ACL SETUSER held on >pw ~* &* +@all"), e);
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, fixture.redis[0].port, &route, &proxy_port, &e), e);
    proxy_count_as_job(proxy, "twinbloom-tail");
}

/* Start coordinator @d, the next one. @held: its requests may be withheld. */
static void start_coordinator(unsigned d, bool held, const char *lines_of_redis, const char *rebuild,
                              const char *lines)
{
    struct error e = {""};
    char node[64], filter[300];
    (void)snprintf(node, sizeof(node), "redis://%s127.0.0.1:%u", held ? "held:pw@" : "",
                   (unsigned)proxy_port);
    (void)snprintf(filter, sizeof(filter),
                   "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\nfollow_by = ids\n%s",
                   lines);
    const struct daemon_options o = {.nodes = node,
                                     .dsn = fixture.postgres.dsn,
                                     .redis = lines_of_redis,
                                     .expansion = rebuild,
                                     .filters = filter};
    must(daemon_start(&fixture.daemon[d], &o, &e), e);
    fixture.daemons = d + 1;
    fixture_reconnect(&fixture, d);
    fixture_wait(&fixture, d, "built", "1");
    fixture_wait(&fixture, d, "job_state", "done");
}

static void start_following(const char *lines_of_redis)
{
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    start_proxy();
    start_coordinator(0, true, lines_of_redis, "lease = 2s\nfollow_interval = 100ms\n", "follow = yes\n");
    fixture_wait(&fixture, 0, "follow_state", "running");
}

static int set_up(void **state)
{
    (void)state;
    start_following("timeout = 20s\n");
    return 0;
}

/* A request that is withheld for a second has broken its connection. */
static int set_up_hasty(void **state)
{
    (void)state;
    start_following("timeout = 1s\n");
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
    set(TAIL, "attempt", "1");
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

static void await_mark(const char *wanted)
{
    char mark[64];
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);; clock_sleep_us(10 * 1000)) {
        get(mark, MARKS, "public.short_link");
        if (strcmp(mark, wanted) == 0)
            return;
        if (clock_mono_us() > until)
            fail_msg("the mark is %s, not %s", mark, wanted);
    }
}

/* Withhold the next request that has @text, and let all others pass. */
static void withhold(const char *text)
{
    proxy_count_only(proxy, text);
    proxy_count(proxy, "held", 1, PROXY_BEFORE);
}

static void await_withheld(void)
{
    assert_true(proxy_await_held(proxy, WAIT_MS));
    proxy_count_only(proxy, "no later request");
}

/* Its connection broke, the follower began again, and has met ids that went back. */
static void test_mark__that_is_executed_late_replaces_none_of_a_later_attempt(void **state)
{
    (void)state;
    char mark[64];
    withhold(":marks\r\n");
    fixture_insert(fixture.db, ROWS, 1);
    await_withheld();
    await_mark("301");
    fixture_sql(fixture.db, "TRUNCATE short_link RESTART IDENTITY");
    await_mark("-9223372036854775808");
    fixture_insert(fixture.db, ROWS + 1, 20);
    await_mark("20");
    proxy_release(proxy, true);
    clock_sleep_us(LEASE_US / 2); /* it has been executed */
    get(mark, MARKS, "public.short_link");
    assert_string_equal(mark, "20");
}

/* What a job compares is that of the attempt that follows now. */
static void test_status__that_is_written_late_is_not_that_of_an_earlier_attempt(void **state)
{
    (void)state;
    char before[64], now[64] = "", after[64];
    get(before, TAIL, "coverage");
    withhold(":tail\r\n");
    await_withheld();
    for (uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
         now[0] == '\0' || strcmp(now, before) == 0; get(now, TAIL, "coverage")) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(10 * 1000);
    }
    daemon_pause(&fixture.daemon[0]);
    freeReplyObject(client_command(&redis, "PERSIST " TAIL));
    proxy_release(proxy, true);
    clock_sleep_us(LEASE_US / 4); /* it has been executed */
    get(after, TAIL, "coverage");
    daemon_resume(&fixture.daemon[0]);
    assert_string_equal(after, now);
}

/* Its follower is gone, and its key was copied without a TTL. */
static void test_lease__that_has_no_ttl_ends(void **state)
{
    (void)state;
    struct error e = {""};
    char owner[64];
    daemon_kill(&fixture.daemon[0]);
    freeReplyObject(client_command(&redis, "PERSIST " TAIL));
    get(owner, TAIL, "owner");
    assert_true(owner[0] != '\0');
    fixture_insert(fixture.db, ROWS, 1);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    await_mark("301");
}

static int set_up_first(void **state)
{
    (void)state;
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    start_proxy();
    start_coordinator(0, false, "", "lease = 2s\n", "follow = no\ngrace = 0s\n");
    return 0;
}

/* The first follower sleeps before it looks for a job's mark. Another generation is read when it wakes up. */
static void test_mark__of_a_later_job_is_begun_at(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t present = 0, until;
    withhold(":job\r\n");
    start_coordinator(1, true, "timeout = 60s\n", "lease = 60s\nfollow_interval = 100ms\n",
                      "follow = yes\ngrace = 0s\n");
    await_withheld();
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    for (until = clock_mono_us() + WAIT_MS * UINT64_C(1000); fixture_generation(&fixture, 0) == before;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(10 * 1000);
    }
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_insert(fixture.db, ROWS, 20);
    proxy_release(proxy, true);
    fixture_wait(&fixture, 0, "follow_state", "running");
    for (until = clock_mono_us() + LEASE_US * 3; present < 20;) {
        must(client_mexists(&fixture.client[0], FILTER, fixture_code, ROWS, 20, &present, NULL, &e), e);
        if (clock_mono_us() > until)
            fail_msg("%d of 20 rows are there", (int)present);
        clock_sleep_us(50 * 1000);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mark__that_comes_late_replaces_none_of_a_later_follower, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_mark__that_a_job_lowers_late_stays_lower, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lease__that_has_ended_is_not_renewed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mark__that_is_executed_late_replaces_none_of_a_later_attempt,
                                        set_up_hasty, tear_down),
        cmocka_unit_test_setup_teardown(test_status__that_is_written_late_is_not_that_of_an_earlier_attempt,
                                        set_up_hasty, tear_down),
        cmocka_unit_test_setup_teardown(test_lease__that_has_no_ttl_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_mark__of_a_later_job_is_begun_at, set_up_first, tear_down),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
