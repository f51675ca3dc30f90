/* SPDX-License-Identifier: MIT */
/* A filter that is a log, on a master that three sentinels watch. The master fails over, with the lane, the
 * shards and the view. The writers append the entries that the new master lacks, and acknowledged keys are
 * present. */
#include "tests/integration/log_members.h"

#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "tests/integration/watched.h"

enum { REPLY_MS = 5000, MEMBERS = 2, BATCH = 50, BATCHES = 2000, KILL_AT = 60, AFTER = 60 };

static struct watched watched;
static struct sync_client *l;
static struct names names;
static struct log_member member[MEMBERS];
static bool good[BATCHES];
static unsigned batches, failed;

/* Wait until the replica has all data of its master. */
static void wait_linked(struct client *replica)
{
    bool linked = false;
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    while (!linked) {
        redisReply *r = client_command(replica, "INFO replication");
        assert_true(r != NULL && clock_mono_us() < until);
        linked = strstr(r->str, "master_link_status:up") != NULL;
        freeReplyObject(r);
        clock_sleep_us(50 * 1000);
    }
}

/* Wait until the replica has the view: what is lost with the master are entries. */
static void wait_replicated(void)
{
    struct error e = {""};
    struct client master;
    int64_t replicas = 0;
    must(client_open(&master, watched.redis[0].port, WATCHED_WAIT_MS, &e), e);
    must(client_ok(&master, &e, "SET behind the-view"), e); /* WAIT is for what this connection has written */
    must(client_integer(&master, &replicas, &e, "WAIT 1 %u", WATCHED_WAIT_MS), e);
    assert_int_equal(replicas, 1);
    client_close(&master);
}

static int start(void **state)
{
    struct error e = {""};
    struct client replica;
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    watched_start(&watched);
    must(client_open(&replica, watched.redis[1].port, REPLY_MS, &e), e);
    wait_linked(&replica);
    client_close(&replica);
    l = sync_client_new(&watched.nodes, REPLY_MS, NULL);
    assert_non_null(l);
    must(names_init(&names, "tb", "f", 1, &e), e);
    must(log_member_make(l, &names, 100000, 2, 32768, &e), e);
    wait_replicated();
    for (unsigned i = 0; i < MEMBERS; i++)
        log_members_open(&member[i], &watched.nodes, &names, UINT64_MAX, true);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MEMBERS; i++)
        log_member_close(&member[i]);
    sync_client_free(l);
    watched_stop(&watched);
    return 0;
}

/* Add a batch by one member after the other. Returns whether it was acknowledged. */
static bool add_batch(void)
{
    uint8_t answers[BATCH];
    struct error e = {""};
    assert_true(batches < BATCHES);
    good[batches] =
        log_member_add(&member[batches % MEMBERS], (uint64_t)batches * BATCH, BATCH, answers, &e) == ERR_OK;
    failed += !good[batches];
    return good[batches++];
}

static void all_has(struct log_member *m)
{
    for (unsigned b = 0; b < batches; b++)
        if (good[b])
            assert_int_equal(log_member_count(m, (uint64_t)b * BATCH, BATCH, KEY_PRESENT), BATCH);
    assert_true(log_member_count(m, (uint64_t)BATCHES * BATCH, BATCH, KEY_ABSENT) >= BATCH - 1);
}

static void test_a_master_that_dies_under_adds__loses_no_acknowledged_key(void **state)
{
    (void)state;
    struct log_member late;
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    while (batches < KILL_AT)
        assert_true(add_batch());
    temp_redis_kill(&watched.redis[0]);
    uint64_t killed = clock_mono_us();
    for (unsigned after = 0; after < AFTER;) {
        assert_true(clock_mono_us() < until);
        bool added = add_batch();
        after += added;
        if (!added)
            clock_sleep_us(20 * 1000); /* an election takes seconds, and there are at most BATCHES batches */
    }
    print_message("%u of %u adds failed; %u ms\n", failed, batches,
                  (unsigned)((clock_mono_us() - killed) / 1000));
    assert_true(watched_master_is(&watched, watched.redis[1].port));
    for (unsigned i = 0; i < MEMBERS; i++)
        all_has(&member[i]);
    log_members_open(&late, &watched.nodes, &names, UINT64_MAX, false);
    all_has(&late);
    log_member_close(&late);
}

/* The old master comes back empty and becomes a replica; then it is promoted while all servers run. */
static void test_a_failover_without_a_death__loses_none_either(void **state)
{
    (void)state;
    struct client c;
    struct error e = {""};
    struct log_member late;
    bool asked = false;
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    must(temp_redis_restart(&watched.redis[0], false, &e), e);
    must(client_open(&c, watched.redis[0].port, REPLY_MS, &e), e);
    must(client_ok(&c, &e, "REPLICAOF 127.0.0.1 %u", watched.redis[1].port), e);
    wait_linked(&c);
    client_close(&c);
    must(client_open(&c, watched.port[2], REPLY_MS, &e), e);
    while (!asked) {
        redisReply *r = client_command(&c, "SENTINEL FAILOVER main");
        assert_true(clock_mono_us() < until);
        asked = r != NULL && r->type == REDIS_REPLY_STATUS;
        freeReplyObject(r);
        clock_sleep_us(200 * 1000);
    }
    client_close(&c);
    while (!watched_master_is(&watched, watched.redis[0].port)) {
        assert_true(clock_mono_us() < until);
        (void)add_batch();
        clock_sleep_us(20 * 1000); /* a failover takes seconds, and there are at most BATCHES batches */
    }
    for (unsigned after = 0; after < AFTER;) {
        assert_true(clock_mono_us() < until);
        after += add_batch();
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        all_has(&member[i]);
    log_members_open(&late, &watched.nodes, &names, UINT64_MAX, false);
    all_has(&late);
    log_member_close(&late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_master_that_dies_under_adds__loses_no_acknowledged_key),
        cmocka_unit_test(test_a_failover_without_a_death__loses_none_either),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
