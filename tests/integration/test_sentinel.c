/* SPDX-License-Identifier: MIT */
/* A master that three sentinels watch: found by its name, followed when it fails over. */
#include "tests/integration/coordinator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/watched.h"

enum { SHARDS = 6, WAIT_MS = WATCHED_WAIT_MS };

static struct watched watched;
static struct servers servers; /* their nodes alone are used */
static struct filter f;
static struct coordinator one;

static const struct filter_policy acked = {.configured = true, .sourced = true, .add_acks = 1};
static const struct filter_policy plain = {.configured = true, .sourced = true};

static int setup(void **state)
{
    struct error e = {""};
    (void)state;
    watched_start(&watched);
    servers.nodes = watched.nodes;
    servers.count = 1;
    must(client_open(&servers.client[0], watched.redis[0].port, 5000, &e), e);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, acked);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    filter_fini(&f);
    client_close(&servers.client[0]);
    watched_stop(&watched);
    return 0;
}

static void wait_added(unsigned first, unsigned count)
{
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    while (coordinator_ask(&one, OPERATION_ADD, first, count) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", one.error);
}

static void test_sentinel__names_pin_the_master_by_its_name(void **state)
{
    (void)state;
    assert_string_equal(f.view.slot[f.view.current].nodes[0], "sentinel:main");
    wait_added(0, 200);
    assert_int_equal(coordinator_check(&one, 0, 200, KEY_YES), 200);
}

/* Adds go on until the other server has taken over; what was acknowledged is there. */
static void test_sentinel__follows_a_master_that_dies_under_adds(void **state)
{
    (void)state;
    enum { BATCH = 20, BATCHES_MAX = 4000 };
    static bool good[BATCHES_MAX];
    unsigned batch = 0, failed = 0, after = 0;
    uint64_t killed = 0, until = clock_mono_us() + WAIT_MS * 1000ull;
    wait_added(0, 200);
    while (after < 50) {
        assert_true(batch < BATCHES_MAX && clock_mono_us() < until);
        if (batch == 50) {
            temp_redis_kill(&watched.redis[0]);
            killed = clock_mono_us();
            one.policy = plain; /* there is no other replica to wait for */
            catalog_configure(one.catalog, COORDINATOR_TIMEOUT_MS, TOMBSTONE_MS);
        }
        good[batch] = coordinator_ask(&one, OPERATION_ADD, 1000 + batch * BATCH, BATCH) == ERR_OK;
        failed += !good[batch];
        after += killed != 0 && good[batch];
        batch++;
    }
    print_message("%u of %u adds failed; %u ms\n", failed, batch,
                  (unsigned)((clock_mono_us() - killed) / 1000));
    for (unsigned i = 0; i < batch; i++)
        if (good[i])
            assert_int_equal(coordinator_check(&one, 1000 + i * BATCH, BATCH, KEY_YES), BATCH);
    assert_int_equal(coordinator_check(&one, 0, 200, KEY_YES), 200);
    assert_int_equal(one.lost, 0);
    /* Jobs find it too, by a link that has a connection to the dead one. */
    redisReply *reply = NULL;
    struct error e = {""};
    enum err code = ERR_UNREACHABLE;
    for (unsigned i = 0; i < 5 && code != ERR_OK; i++)
        code = link_command(f.fence.link, NODE_HOME, &reply, &e, "ROLE");
    must(code, e);
    assert_string_equal(reply->element[0]->str, "master");
    freeReplyObject(reply);
}

static void wait_linked(struct client *replica, uint64_t until)
{
    bool up = false;
    while (!up) {
        redisReply *r = client_command(replica, "INFO replication");
        assert_true(r != NULL && clock_mono_us() < until);
        up = strstr(r->str, "master_link_status:up") != NULL;
        freeReplyObject(r);
        clock_sleep_us(50 * 1000);
    }
}

/* The old master comes back as a replica; then it is made the master by hand, and nobody dies. */
static void test_sentinel__follows_a_failover_without_a_death(void **state)
{
    (void)state;
    struct client c;
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    must(temp_redis_restart(&watched.redis[0], false, &e), e);
    /* At once: sentinels take their time to make it a replica, and would promote it while it is empty. */
    must(client_open(&c, watched.redis[0].port, 5000, &e), e);
    must(client_ok(&c, &e, "REPLICAOF 127.0.0.1 %u", watched.redis[1].port), e);
    wait_linked(&c, until);
    client_close(&c);
    must(client_open(&c, watched.port[2], 5000, &e), e);
    bool asked = false;
    while (!asked) {
        assert_true(clock_mono_us() < until);
        redisReply *r = client_command(&c, "SENTINEL FAILOVER main");
        asked = r != NULL && r->type == REDIS_REPLY_STATUS;
        freeReplyObject(r);
        clock_sleep_us(200 * 1000);
    }
    client_close(&c);
    do {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
        (void)coordinator_ask(&one, OPERATION_ADD, 500, 10);
    } while (!watched_master_is(&watched, watched.redis[0].port));
    wait_added(600, 100);
    assert_int_equal(coordinator_check(&one, 600, 100, KEY_YES), 100);
    assert_int_equal(coordinator_check(&one, 0, 200, KEY_YES), 200);
}

/* One sentinel is enough to go on, whichever it is. */
static void test_sentinel__may_die_but_for_one(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 1 < WATCHED_SENTINELS; i++)
        process_kill(&watched.sentinel[i]);
    wait_added(700, 100);
    struct coordinator fresh;
    coordinator_open(&fresh, &servers, plain);
    assert_int_equal(coordinator_check(&fresh, 700, 100, KEY_YES), 100);
    coordinator_close(&fresh);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sentinel__names_pin_the_master_by_its_name),
        cmocka_unit_test(test_sentinel__follows_a_master_that_dies_under_adds),
        cmocka_unit_test(test_sentinel__follows_a_failover_without_a_death),
        cmocka_unit_test(test_sentinel__may_die_but_for_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
