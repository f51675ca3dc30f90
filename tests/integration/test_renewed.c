/* SPDX-License-Identifier: MIT */
/* A server gets new replication ids while it runs. If it was the replica of an older copy meanwhile,
 * processes write the keys again that they had added and it now lacks, even if the traces of that are gone
 * (repl-backlog-ttl is 1 s) when a coordinator looks. If only its first replica came, or the last one left,
 * nothing has to be done. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { KEYS = 2000, LATE = 500 /* keys that the copy lacks */, NEVER = 1000000, WAIT_MS = 30000 };

static struct fixture f;
static struct temp_redis copy;
static struct client node, copied;

static int setup(void **state)
{
    (void)state;
    static const char *const arguments[] = {"--repl-backlog-ttl", "1", "--repl-diskless-sync-delay", "0",
                                            NULL};
    const struct fixture_options o = {.nodes = 1,
                                      .daemons = 1,
                                      .redis = arguments,
                                      .service = "check_interval = 200ms\n",
                                      .redis_lines = "shard_bytes = 4KiB\n"};
    struct error e = {""};
    if (fixture_start(&f, &o) != 0)
        return -1;
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.0001 10000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    must(client_open(&node, f.redis[0].port, 5000, &e), e);
    must(temp_redis_start(&copy, arguments, &e), e);
    must(client_open(&copied, copy.port, 5000, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&node);
    client_close(&copied);
    temp_redis_fini(&copy);
    return fixture_stop(&f);
}

static void await(struct client *c, const char *line)
{
    for (int i = 0; i < 500; i++) {
        redisReply *r = client_command(c, "INFO");
        bool there = r != NULL && r->type == REDIS_REPLY_STRING && strstr(r->str, line) != NULL;
        freeReplyObject(r);
        if (there)
            return;
        clock_sleep_us(20000);
    }
    fail_msg("no %s", line);
}

static void follow(struct client *c, uint16_t port)
{
    struct error e = {""};
    must(client_ok(c, &e, "REPLICAOF 127.0.0.1 %u", port), e);
    await(c, "master_link_status:up");
}

static void lead(struct client *c)
{
    struct error e = {""};
    must(client_ok(c, &e, "REPLICAOF NO ONE"), e);
}

static void id(char out[64])
{
    redisReply *r = client_command(&node, "INFO replication");
    const char *at = strstr(r->str, "master_replid:");
    assert_non_null(at);
    (void)snprintf(out, 64, "%.40s", at + strlen("master_replid:"));
    freeReplyObject(r);
}

/* Wait until the node has another id than @was. */
static void await_another(const char *was)
{
    char now[64];
    for (int i = 0; i < 500; i++) {
        id(now);
        if (strcmp(was, now) != 0)
            return;
        clock_sleep_us(20000);
    }
    fail_msg("the id is still %s", was);
}

static uint64_t present(uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&f.client[0], "seen", fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

static void degraded(const char *wanted)
{
    struct error e = {""};
    must(client_wait_status(&f.client[0], "seen", "degraded", wanted, WAIT_MS, &e), e);
}

/* Make the copy: it has the first keys, and is no replica any more. The traces of the replication are gone,
 * too. */
static void make_older_copy(void)
{
    char first[64], was[64];
    struct error e = {""};
    id(first);
    follow(&copied, f.redis[0].port);
    id(was);
    assert_string_not_equal(first, was);
    lead(&copied);
    await_another(was);
    clock_sleep_us(600000); /* until the coordinator has looked */
    degraded("0");
    must(client_madd(&f.client[0], "seen", fixture_code, KEYS, LATE, &e), e);
}

static void become_the_copy(void)
{
    follow(&node, copy.port);
    lead(&node);
    await(&node, "master_replid2:0000000000000000000000000000000000000000");
}

/* No key may be missing, and absent keys must be reported absent in the end, also by a coordinator that
 * starts with the node's data of then. */
static void is_written_again(void)
{
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    struct error e = {""};
    for (uint64_t calm = clock_mono_us() + 2500000; clock_mono_us() < calm; clock_sleep_us(50000))
        assert_int_equal(present(0, KEYS + LATE), KEYS + LATE);
    while (present(NEVER, KEYS) > 10)
        assert_true(clock_mono_us() < until);
    degraded("0");
    daemon_kill(&f.daemon[0]);
    must(daemon_launch(&f.daemon[0], &e), e);
    fixture_reconnect(&f, 0);
    uint64_t unused;
    until = clock_mono_us() + WAIT_MS * 1000ull;
    while (client_mexists(&f.client[0], "seen", fixture_code, 0, 1, &unused, NULL, &e) != ERR_OK)
        assert_true(clock_mono_us() < until); /* until it is loaded */
    assert_int_equal(present(0, KEYS + LATE), KEYS + LATE);
    assert_in_range(present(NEVER, KEYS), 0, 10);
}

static void test_demotion__that_leaves_no_traces_is_mended(void **state)
{
    (void)state;
    make_older_copy();
    become_the_copy();
    is_written_again();
}

static void test_demotion__while_the_coordinator_slept_is_mended(void **state)
{
    (void)state;
    make_older_copy();
    daemon_pause(&f.daemon[0]);
    become_the_copy();
    daemon_resume(&f.daemon[0]);
    is_written_again();
}

static void test_demotion__is_mended_when_the_statistics_were_reset(void **state)
{
    (void)state;
    struct error e = {""};
    make_older_copy();
    daemon_pause(&f.daemon[0]);
    become_the_copy();
    must(client_ok(&node, &e, "CONFIG RESETSTAT"), e);
    daemon_resume(&f.daemon[0]);
    is_written_again();
}

static void test_replicas__that_come_and_go_degrade_nothing(void **state)
{
    (void)state;
    char was[64];
    make_older_copy();
    daemon_pause(&f.daemon[0]); /* stopped for any length of time */
    id(was);
    follow(&copied, f.redis[0].port);
    await_another(was);
    daemon_resume(&f.daemon[0]);
    clock_sleep_us(1200000);
    degraded("0");
    id(was);
    lead(&copied);
    await_another(was);
    clock_sleep_us(1200000);
    degraded("0");
    assert_int_equal(present(0, KEYS + LATE), KEYS + LATE);
    assert_in_range(present(NEVER, KEYS), 0, 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_demotion__that_leaves_no_traces_is_mended),
        TEST(test_demotion__while_the_coordinator_slept_is_mended),
        TEST(test_demotion__is_mended_when_the_statistics_were_reset),
        TEST(test_replicas__that_come_and_go_degrade_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
