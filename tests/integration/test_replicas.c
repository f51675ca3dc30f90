/* SPDX-License-Identifier: MIT */
/* Checks that are asked of the replicas of one master: what a replica has is answered by it, what it does not
 * have, or not yet, or not any more, is never reported absent for that. */
#include "tests/integration/coordinator.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/health.h"

enum { SHARDS = 6, REPLICAS = 2, AGE_MS = 2000, GUARD_MS = 20000, KEYS = 400, MANY = 60 * 1000 };

static struct servers servers;
static struct temp_redis replica[REPLICAS];
static struct client to_replica[REPLICAS];
static struct filter f;
static struct coordinator one;

/* --- the servers --- */

static void wait_linked(void)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    while (servers_integer(&servers, 0, "WAIT %d 100", REPLICAS) < REPLICAS)
        assert_true(clock_mono_us() < until);
}

static void open_with_age(unsigned ms)
{
    const struct filter_policy policy = {.configured = true, .sourced = true, .replica_age_ms = ms};
    coordinator_close(&one);
    coordinator_open(&one, &servers, policy);
    catalog_configure(one.catalog, 6000, TOMBSTONE_MS);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    static char port[8];
    if (servers_start(&servers, 1) != 0)
        return -1;
    (void)snprintf(port, sizeof(port), "%u", servers.redis[0].port);
    must(client_ok(&servers.client[0], &e, "CONFIG SET repl-diskless-sync-delay 0"), e);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, "--repl-timeout", "3600", NULL};
    for (unsigned i = 0; i < REPLICAS; i++) {
        must(temp_redis_start(&replica[i], extra, &e), e);
        must(client_open(&to_replica[i], replica[i].port, 5000, &e), e);
    }
    must(client_ok(&servers.client[0], &e, "CONFIG SET repl-timeout 3600"), e);
    wait_linked();
    servers.nodes.health = node_health_new();
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    one.base = NULL;
    open_with_age(AGE_MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    filter_fini(&f);
    for (unsigned i = 0; i < REPLICAS; i++) {
        client_close(&to_replica[i]);
        temp_redis_fini(&replica[i]);
    }
    struct node_health *health = servers.nodes.health;
    int status = servers_stop(&servers);
    node_health_free(health);
    return status;
}

/* Reads of blocks that a server has executed since the counts were reset. */
static unsigned reads_of(struct client *c)
{
    unsigned calls = 0;
    redisReply *r = client_command(c, "INFO commandstats");
    assert_non_null(r);
    const char *at = strstr(r->str, "cmdstat_getrange:calls=");
    if (at != NULL)
        calls = (unsigned)strtoul(strchr(at, '=') + 1, NULL, 10);
    freeReplyObject(r);
    return calls;
}

static unsigned at_replicas(void)
{
    unsigned all = 0;
    for (unsigned i = 0; i < REPLICAS; i++)
        if (process_running(&replica[i].process))
            all += reads_of(&to_replica[i]);
    return all;
}

static void reset_counts(void)
{
    struct error e = {""};
    must(client_ok(&servers.client[0], &e, "CONFIG RESETSTAT"), e);
    for (unsigned i = 0; i < REPLICAS; i++)
        if (process_running(&replica[i].process))
            must(client_ok(&to_replica[i], &e, "CONFIG RESETSTAT"), e);
}

static void ask_replica(unsigned i, const char *command)
{
    struct error e = {""};
    must(client_ok(&to_replica[i], &e, command), e);
}

/* Both answer, and get no writes any more. */
static void stall_replicas(void)
{
    for (unsigned i = 0; i < REPLICAS; i++)
        ask_replica(i, "CLIENT PAUSE 600000 WRITE");
}

static unsigned usable(void)
{
    struct node_health_figures n;
    unsigned count = 0;
    for (unsigned i = 0; node_health_read_replica(&servers.nodes, i, &n); i++)
        count += n.lag_ms != HEALTH_LAG_UNKNOWN && n.lag_ms < AGE_MS;
    return count;
}

/* Until @wanted of them are used. */
static void warm(unsigned wanted)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    do {
        assert_int_equal(coordinator_check(&one, 0, 1, KEY_YES), 1);
        coordinator_run(&one, 60);
        assert_true(clock_mono_us() < until);
    } while (usable() != wanted);
}

static void start_with_keys(void)
{
    coordinator_add(&one, 0, KEYS);
    wait_linked();
    warm(REPLICAS);
    reset_counts();
}

/* --- what replicas answer --- */

static void test_check__of_what_is_there_is_answered_by_the_replicas(void **state)
{
    (void)state;
    struct node_health_reads before, after;
    start_with_keys();
    coordinator_run(&one, 1000); /* what was read before is counted */
    before = node_health_reads(&servers.nodes);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
        assert_false(one.retried);
    }
    assert_int_equal(reads_of(&servers.client[0]), 0);
    assert_int_equal(reads_of(&to_replica[0]) + reads_of(&to_replica[1]), 10 * KEYS);
    assert_in_range(reads_of(&to_replica[0]), KEYS, 9 * KEYS);
    coordinator_run(&one, 1000);
    after = node_health_reads(&servers.nodes);
    assert_int_equal(after.replicas - before.replicas, 10 * KEYS);
    assert_int_equal(after.reasked, before.reasked);
}

static void test_check__of_what_is_absent_is_answered_by_the_master(void **state)
{
    (void)state;
    start_with_keys();
    unsigned absent = coordinator_check(&one, 100000, KEYS, KEY_NO);
    assert_in_range(absent, KEYS - 5, KEYS);
    assert_int_equal(reads_of(&servers.client[0]), absent);
    assert_int_equal(at_replicas(), KEYS);
    assert_int_equal(one.suspect, 0);
    coordinator_run(&one, 200);
    assert_int_equal(node_health_reads(&servers.nodes).reasked >= absent, true);
}

static void test_add__asks_no_replica(void **state)
{
    (void)state;
    start_with_keys();
    coordinator_add(&one, 1000, KEYS);
    coordinator_add(&one, 0, KEYS);
    assert_int_equal(coordinator_results(&one, KEYS, KEY_NO), KEYS);
    assert_int_equal(at_replicas(), 0);
    for (unsigned i = 0; i < REPLICAS; i++) { /* nor is a write tried there */
        redisReply *r = client_command(&to_replica[i], "INFO errorstats");
        assert_non_null(r);
        assert_null(strstr(r->str, "READONLY"));
        freeReplyObject(r);
    }
}

static void test_check__asks_no_replica_where_the_filter_does_not_allow_it(void **state)
{
    (void)state;
    start_with_keys();
    open_with_age(0);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
        coordinator_run(&one, 100);
    }
    assert_int_equal(at_replicas(), 0);
}

/* --- what they lack --- */

static void test_check__finds_what_a_lagging_replica_does_not_have(void **state)
{
    (void)state;
    start_with_keys();
    stall_replicas();
    for (unsigned i = 0; i < 20; i++) {
        coordinator_add(&one, 1000 + 20 * i, 20);
        assert_int_equal(coordinator_check(&one, 1000 + 20 * i, 20, KEY_YES), 20);
        assert_int_equal(coordinator_check(&one, 0, 20, KEY_YES), 20);
    }
    /* That the test is one: they were asked, and do not have it. */
    assert_in_range(at_replicas(), 40, 1000);
    assert_in_range(reads_of(&servers.client[0]), 20, 1000);
    assert_int_equal(one.lost, 0);
    assert_int_equal(one.suspect, 0);
}

static void test_check__of_a_replica_that_is_stopped_is_answered_by_the_master(void **state)
{
    (void)state;
    start_with_keys();
    for (unsigned i = 0; i < REPLICAS; i++)
        (void)kill(replica[i].process.pid, SIGSTOP);
    uint64_t slow = 0;
    for (unsigned i = 0; i < 30; i++) {
        coordinator_add(&one, 1000 + 10 * i, 10);
        uint64_t began = clock_mono_us();
        assert_int_equal(coordinator_check(&one, 1000 + 10 * i, 10, KEY_YES), 10);
        assert_int_equal(coordinator_check(&one, 0, 10, KEY_YES), 10);
        slow += clock_mono_us() - began > 50 * 1000;
    }
    assert_in_range(slow, 1, 10); /* each replica once or twice, not every check */
    for (unsigned i = 0; i < REPLICAS; i++)
        (void)kill(replica[i].process.pid, SIGCONT);
    warm(REPLICAS);
    reset_counts();
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
    assert_int_equal(at_replicas(), KEYS);
}

static void test_check__goes_on_while_replicas_die(void **state)
{
    (void)state;
    start_with_keys();
    for (unsigned i = 0; i < 60; i++) {
        if (i == 20 || i == 40)
            temp_redis_kill(&replica[i / 40]);
        coordinator_add(&one, 1000 + 10 * i, 10);
        assert_int_equal(coordinator_check(&one, 1000 + 10 * i, 10, KEY_YES), 10);
        assert_int_equal(coordinator_check(&one, 0, 100, KEY_YES), 100);
    }
    assert_int_equal(one.lost, 0);
}

/* Its data are gone, those of the master are there: nothing is lost. */
static void test_check__takes_no_replicas_word_that_a_shard_is_lost(void **state)
{
    (void)state;
    start_with_keys();
    for (unsigned i = 0; i < REPLICAS; i++) {
        ask_replica(i, "CONFIG SET replica-read-only no");
        ask_replica(i, "FLUSHALL");
    }
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
    assert_in_range(coordinator_check(&one, 100000, KEYS, KEY_NO), KEYS - 5, KEYS);
    assert_int_equal(one.lost, 0);
    assert_in_range(at_replicas(), KEYS, 4 * KEYS);
}

static void test_check__asks_the_master_where_a_replica_refuses(void **state)
{
    (void)state;
    start_with_keys();
    for (unsigned i = 0; i < REPLICAS; i++)
        ask_replica(i, "ACL SETUSER default -getrange");
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
        assert_int_equal(one.status, ERR_OK);
    }
    assert_int_equal(reads_of(&servers.client[0]), 10 * KEYS);
}

/* --- which replicas are asked --- */

/* Until no check goes to a replica any more. */
static void leaves_replicas(unsigned ms)
{
    uint64_t until = clock_mono_us() + ms * 1000ull;
    for (;;) {
        reset_counts();
        assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
        if (at_replicas() == 0)
            break;
        assert_true(clock_mono_us() < until);
        coordinator_run(&one, 50);
    }
    for (unsigned i = 0; i < 10; i++) {
        coordinator_add(&one, 1000 + i, 1);
        assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
        coordinator_run(&one, 50);
    }
    assert_int_equal(at_replicas(), 0);
}

static void test_replica__that_lags_too_far_is_left(void **state)
{
    (void)state;
    start_with_keys();
    stall_replicas();
    coordinator_add(&one, 900, 1); /* something that they lack */
    leaves_replicas(AGE_MS + 2000);
}

static void test_replica__without_its_master_is_left(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t killed = 0;
    open_with_age(MANY);
    start_with_keys();
    must(client_ok(&servers.client[0], &e, "ACL SETUSER default -psync -sync"), e);
    must(client_integer(&servers.client[0], &killed, &e, "CLIENT KILL TYPE replica"), e);
    assert_int_equal(killed, REPLICAS);
    leaves_replicas(3000);
}

static void test_replica__of_another_master_is_left(void **state)
{
    (void)state;
    struct temp_redis other;
    struct error e = {""};
    open_with_age(MANY);
    start_with_keys();
    must(temp_redis_start(&other, NULL, &e), e);
    for (unsigned i = 0; i < REPLICAS; i++) {
        char command[64];
        (void)snprintf(command, sizeof(command), "REPLICAOF 127.0.0.1 %u", other.port);
        ask_replica(i, command);
    }
    leaves_replicas(3000);
    temp_redis_fini(&other);
}

static void test_replica__that_was_promoted_is_left(void **state)
{
    (void)state;
    open_with_age(MANY);
    start_with_keys();
    for (unsigned i = 0; i < REPLICAS; i++)
        ask_replica(i, "REPLICAOF NO ONE");
    leaves_replicas(3000);
}

static void test_replica__that_comes_later_is_found(void **state)
{
    (void)state;
    start_with_keys();
    for (unsigned i = 0; i < REPLICAS; i++)
        ask_replica(i, "REPLICAOF NO ONE");
    leaves_replicas(3000);
    char command[64];
    (void)snprintf(command, sizeof(command), "REPLICAOF 127.0.0.1 %u", servers.redis[0].port);
    ask_replica(1, command);
    warm(1);
    reset_counts();
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
    assert_int_equal(reads_of(&to_replica[1]), KEYS);
    assert_int_equal(reads_of(&to_replica[0]), 0);
}

/* --- rebuilds --- */

/* A key that the generation after this one does not have. */
static void forget_key(unsigned key)
{
    assert_int_equal(coordinator_check(&one, key, 1, KEY_YES), 1);
    filter_open(&f, SHARDS, true);
    filter_cutover(&f, true);
    filter_finish(&f, true);
}

/* The coordinator has slept through it, and the replicas lag. */
static void test_rebuild__what_it_forgot_is_present_no_longer_than_max_staleness(void **state)
{
    (void)state;
    start_with_keys();
    stall_replicas();
    forget_key(7);
    uint64_t forgotten = clock_mono_us();
    /* That the test is one. */
    assert_int_equal(coordinator_check(&one, 7, 1, KEY_YES), 1);
    unsigned rounds = 0;
    while (coordinator_check(&one, 7, 1, KEY_NO) == 0) {
        rounds++;
        if (clock_mono_us() - forgotten > (AGE_MS + 300) * 1000)
            fail_msg("present %" PRIu64 " ms after it was forgotten", (clock_mono_us() - forgotten) / 1000);
        coordinator_run(&one, 20);
    }
    print_message("forgotten after %" PRIu64 " ms\n", (clock_mono_us() - forgotten) / 1000);
    assert_true(rounds > 0);
}

static void test_rebuild__a_coordinator_that_wakes_asks_no_replica_by_what_it_knew(void **state)
{
    (void)state;
    start_with_keys();
    stall_replicas();
    forget_key(7);
    clock_sleep_us((AGE_MS + 100) * 1000);
    assert_int_equal(coordinator_check(&one, 7, 1, KEY_NO), 1);
}

static void fence_now(void)
{
    struct error e = {""};
    uint64_t lost = 0;
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
}

static void is_there(unsigned first, unsigned count, const char *when)
{
    unsigned there = coordinator_check(&one, first, count, KEY_YES);
    if (there != count)
        fail_msg("%u of %u keys from %u are there, %s", there, count, first, when);
}

/* Each change of the view is met before its fence, and behind it, in turns. */
static void test_rebuild__denies_nothing_that_was_added_meanwhile(void **state)
{
    (void)state;
    struct error e = {""};
    start_with_keys();
    for (unsigned round = 0; round < 4; round++) {
        unsigned first = 2000 + 200 * round;
        bool fenced = round % 2 == 0;
        if (round == 2)
            stall_replicas();
        filter_open(&f, SHARDS, fenced);
        coordinator_add(&one, first, 100);
        is_there(first, 100, "building");
        fence_now();
        (void)filter_add(&f, view_alternate(&f.view), first, 100); /* as a scan does: before the fence is
                                                                    * complete adds may go to one alone */
        filter_cutover(&f, fenced);
        is_there(first, 100, "after the cutover");
        coordinator_add(&one, first + 100, 100);
        is_there(first, 200, "added after the cutover");
        fence_now();
        coordinator_run(&one, 200);
        filter_finish(&f, true);
        is_there(first, 200, "at the end");
        must(fence_retire(&f.fence, &f.view, MUTEX, &e), e);
    }
    assert_int_equal(one.lost, 0);
}

int main(void)
{
#define ROW(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(test_check__of_what_is_there_is_answered_by_the_replicas),
        ROW(test_check__of_what_is_absent_is_answered_by_the_master),
        ROW(test_add__asks_no_replica),
        ROW(test_check__asks_no_replica_where_the_filter_does_not_allow_it),
        ROW(test_check__finds_what_a_lagging_replica_does_not_have),
        ROW(test_check__of_a_replica_that_is_stopped_is_answered_by_the_master),
        ROW(test_check__goes_on_while_replicas_die),
        ROW(test_check__takes_no_replicas_word_that_a_shard_is_lost),
        ROW(test_check__asks_the_master_where_a_replica_refuses),
        ROW(test_replica__that_lags_too_far_is_left),
        ROW(test_replica__without_its_master_is_left),
        ROW(test_replica__of_another_master_is_left),
        ROW(test_replica__that_was_promoted_is_left),
        ROW(test_replica__that_comes_later_is_found),
        ROW(test_rebuild__what_it_forgot_is_present_no_longer_than_max_staleness),
        ROW(test_rebuild__a_coordinator_that_wakes_asks_no_replica_by_what_it_knew),
        ROW(test_rebuild__denies_nothing_that_was_added_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
