/* SPDX-License-Identifier: MIT */
/* Adds that need acknowledgements in a cluster: each master has its own replica, and slots move. */
#include "tests/integration/coordinator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/cluster.h"

enum { SHARDS = 40, MASTERS = 3, WAIT_MS = 30000 };

static struct servers servers;
static struct filter f;
static struct coordinator one;

static const struct filter_policy acked = {.configured = true, .sourced = true, .add_acks = 1};

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    struct nodes seeds;
    if (temp_cluster_start(&servers.cluster, MASTERS, MASTERS, MASTERS, &e) != ERR_OK ||
        cluster_parse_seeds(&seeds, servers.cluster.seeds, &e) != ERR_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    servers.nodes = (struct nodes){.cluster = cluster_new(&seeds)};
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, acked);
    return servers.nodes.cluster == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    filter_fini(&f);
    return servers_stop(&servers);
}

/* Until its adds are acknowledged: replicas have to link up. */
static void add_in_time(unsigned first, unsigned count)
{
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    while (coordinator_ask(&one, OPERATION_ADD, first, count) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("%s", one.error);
}

static void test_add__is_acknowledged_by_the_replica_of_each_master(void **state)
{
    (void)state;
    add_in_time(0, 300);
    coordinator_add(&one, 0, 300);
    assert_int_equal(coordinator_results(&one, 300, KEY_YES), 0);
    /* Of one master the replica is silent: its keys are not acknowledged, the others are. */
    unsigned sole = MASTERS + 1;
    (void)kill(servers.cluster.node[sole].process.pid, SIGSTOP);
    struct operation *op = coordinator_start(&one, OPERATION_ADD, "f", 1000, 300, coordinator_done);
    coordinator_wait(&one);
    assert_int_equal(operation_status(op), ERR_TIMEOUT);
    unsigned answered = 0;
    for (unsigned i = 0; i < 300; i++)
        answered += operation_answered(op, i);
    assert_in_range(answered, 1, 299);
    operation_release(op);
    (void)kill(servers.cluster.node[sole].process.pid, SIGCONT);
    add_in_time(1000, 300);
}

static void test_add__follows_slots_that_move(void **state)
{
    (void)state;
    struct error e = {""};
    add_in_time(0, 300);
    uint64_t before = store_redirected(catalog_store(one.catalog));
    must(temp_cluster_move(&servers.cluster, 0, 2500, 0, 1, 0, &e), e);
    add_in_time(2000, 300);
    assert_true(store_redirected(catalog_store(one.catalog)) > before);
    coordinator_add(&one, 2000, 300);
    assert_int_equal(coordinator_results(&one, 300, KEY_YES), 0);
    assert_int_equal(coordinator_check(&one, 2000, 300, KEY_YES), 300);
    assert_int_equal(one.lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add__is_acknowledged_by_the_replica_of_each_master),
        cmocka_unit_test(test_add__follows_slots_that_move),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
