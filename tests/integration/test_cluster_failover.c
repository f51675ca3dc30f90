/* SPDX-License-Identifier: MIT */
/* A master of the cluster dies: checks of keys in memory do not fail, and are fast, until its replica has
 * taken over. */
#include "tests/integration/traffic.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"

enum {
    ROWS = 20000,
    CAPACITY = 60000,
    WRITES_MAX = 4000,
    WAIT_MS = 60000,
    KEYS = 400,
    DEADLINE_MS = 500,
    FAST_MS = 200 /* with sanitizers, on a busy machine; a request's deadline is longer */
};

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    const struct fixture_options o = {.masters = 3,
                                      .replicas = 3,
                                      .daemons = 2,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = CAPACITY,
                                      .rate = "0.01",
                                      .redis_lines = "shard_bytes = 4KiB\ntimeout = 500ms\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\ntimeout = 500ms\n"};
    return fixture_start(&f, &o);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* True: the replica of node 0 has taken over. */
static bool is_over(void)
{
    struct error unused = {""};
    unsigned heir;
    return temp_cluster_failed_over(&f.cluster, 0, 0, &heir, &unused) == ERR_OK;
}

/* One BF.MEXISTS of the codes [0, KEYS), all of which must be present. Returns how long it took. */
static uint64_t ask(struct client *c)
{
    char keys[KEYS][CLIENT_KEY_MAX];
    const char *argv[KEYS + 2] = {"BF.MEXISTS", FILTER};
    size_t lengths[KEYS + 2] = {10, strlen(FILTER)};
    for (unsigned i = 0; i < KEYS; i++) {
        lengths[i + 2] = fixture_code(i, keys[i]);
        argv[i + 2] = keys[i];
    }
    uint64_t began = clock_mono_us();
    redisReply *reply = client_argv(c, KEYS + 2, argv, lengths);
    uint64_t took_us = clock_mono_us() - began;
    assert_non_null(reply);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != KEYS)
        fail_msg("BF.MEXISTS: %s", reply->str);
    for (unsigned i = 0; i < KEYS; i++) {
        const redisReply *e = reply->element[i];
        if (e->type != REDIS_REPLY_INTEGER)
            fail_msg("c%u: %s", i, e->str);
        if (e->integer != 1)
            fail_msg("c%u is reported absent", i);
    }
    freeReplyObject(reply);
    return took_us;
}

static void is_resident(unsigned d)
{
    char shards[32];
    struct error e = {""};
    must(client_status(&f.client[d], FILTER, "shards", shards, sizeof(shards), &e), e);
    must(client_wait_status(&f.client[d], FILTER, "resident_shards", shards, WAIT_MS, &e), e);
}

static void test_failover__fails_no_check_of_keys_in_memory(void **state)
{
    (void)state;
    struct error e = {""};
    unsigned heir = 0, rounds = 0;
    uint64_t longest = 0;
    for (unsigned d = 0; d < 2; d++) {
        (void)ask(&f.client[d]);
        is_resident(d);
    }
    temp_cluster_reset_counts(&f.cluster);
    temp_redis_kill(&f.cluster.node[0]);
    uint64_t killed = clock_mono_us(), until = killed + WAIT_MS * 1000ull;
    do {
        uint64_t took_us = ask(&f.client[0]);
        rounds++;
        longest = took_us > longest ? took_us : longest;
        clock_sleep_us(20000);
        if (clock_mono_us() > until)
            fail_msg("no replica has taken its place a minute after the kill");
    } while (rounds < 10 || !is_over());
    uint64_t back = clock_mono_us() - killed;
    must(temp_cluster_failed_over(&f.cluster, 0, WAIT_MS, &heir, &e), e);
    print_message("%u rounds in %" PRIu64 " ms, %" PRIu64 " us at most\n", rounds, back / 1000, longest);
    print_message("CLUSTER SLOTS was asked %" PRIu64 " times\n", temp_cluster_maps_asked(&f.cluster));
    assert_true(longest < FAST_MS * 1000);
    assert_in_range(temp_cluster_maps_asked(&f.cluster), 1, 200);
    fixture_all_present(&f, 1, 0, ROWS);
}

/* Clients go on meanwhile. Keys that were acknowledged before the quiet moment are present afterwards,
 * expansions work, and the dead node comes back as a replica. */
static void test_failover__under_traffic_loses_nothing(void **state)
{
    (void)state;
    static struct traffic t;
    struct error e = {""};
    unsigned heir = 0;
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    clock_sleep_us(500000);
    atomic_store(&t.quiet, true); /* so that the replica has all acknowledged keys */
    clock_sleep_us(500000);
    temp_redis_kill(&f.cluster.node[1]);
    enum err err = temp_cluster_failed_over(&f.cluster, 1, WAIT_MS, &heir, &e);
    clock_sleep_us(1500000);
    atomic_store(&t.quiet, false);
    if (err == ERR_OK)
        err = client_when_free(&f.client[0], WAIT_MS, &e, "TB.REBUILD " FILTER);
    if (err == ERR_OK)
        err = client_wait_status(&f.client[0], FILTER, "phase", "BUILDING", WAIT_MS, &e);
    if (err == ERR_OK)
        err = client_wait_status(&f.client[0], FILTER, "phase", "STEADY", WAIT_MS, &e);
    clock_sleep_us(300000);
    traffic_end(&t);
    must(err, e);
    traffic_judge(&t, true);
    for (unsigned i = 0; i < TRAFFIC_CHECKERS; i++)
        if (t.checkers[i].longest_us > (DEADLINE_MS + 500) * 1000)
            fail_msg("checker %u waited %" PRIu64 " ms", i, t.checkers[i].longest_us / 1000);
    must(temp_redis_restart(&f.cluster.node[1], true, &e), e);
    must(temp_cluster_agree(&f.cluster, WAIT_MS, &e), e);
    fixture_all_present(&f, 0, 0, ROWS);
}

/* The node to which a coordinator listens dies; the coordinator then listens to another one. */
static void test_failover__leaves_no_coordinator_deaf(void **state)
{
    (void)state;
    struct error e = {""};
    struct client *c = &f.client[0];
    unsigned listeners = 0;
    for (int i = 0; i < 200 && listeners < 2; i++) {
        listeners = 0;
        for (unsigned n = 0; n < f.cluster.count; n++) {
            struct client node = {0};
            if (!process_running(&f.cluster.node[n].process))
                continue;
            must(client_open(&node, f.cluster.node[n].port, 5000, &e), e);
            redisReply *r = client_command(&node, "PUBSUB NUMSUB twinbloom:events");
            assert_int_equal(r->elements, 2);
            listeners += (unsigned)r->element[1]->integer;
            freeReplyObject(r);
            client_close(&node);
        }
        clock_sleep_us(50000);
    }
    assert_int_equal(listeners, 2);
    must(client_ok(c, &e, "BF.RESERVE afterwards 0.01 100"), e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failover__fails_no_check_of_keys_in_memory),
        cmocka_unit_test(test_failover__under_traffic_loses_nothing),
        cmocka_unit_test(test_failover__leaves_no_coordinator_deaf),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
