/* SPDX-License-Identifier: MIT */
/* A master that three sentinels watch: found by its name, followed when it fails over. */
#include "tests/integration/coordinator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/sentinels.h"

enum { SENTINELS = 3, SHARDS = 6, WAIT_MS = 40000 };

static struct temp_redis redis[2]; /* the first is born as the master */
static char files[PATH_MAX];       /* of the sentinels */
static struct process sentinel[SENTINELS];
static uint16_t sentinel_port[SENTINELS];
static struct servers servers; /* their nodes alone are used */
static struct filter f;
static struct coordinator one;

static const struct filter_policy acked = {.configured = true, .sourced = true, .add_acks = 1};
static const struct filter_policy plain = {.configured = true, .sourced = true};

static void start_sentinel(unsigned i)
{
    struct error e = {""};
    char path[PATH_MAX + 32], log[PATH_MAX + 32];
    sentinel_port[i] = process_free_port();
    (void)snprintf(path, sizeof(path), "%s/%u.conf", files, i);
    (void)snprintf(log, sizeof(log), "%s/%u.log", files, i);
    FILE *to = fopen(path, "we");
    assert_non_null(to);
    (void)fprintf(to,
                  "port %u\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %u 2\n"
                  "sentinel down-after-milliseconds main 700\nsentinel failover-timeout main 4000\n",
                  sentinel_port[i], files, redis[0].port);
    (void)fclose(to);
    const char *const argv[] = {temp_redis_program(), path, "--sentinel", NULL};
    must(process_start(&sentinel[i], argv, log, &e), e);
    must(client_wait_ping(sentinel_port[i], 10000, &sentinel[i], &e), e);
}

/* Every sentinel knows the others, and the replica. */
static bool agreed(unsigned i)
{
    struct client c;
    struct error e = {""};
    bool good = false;
    must(client_open(&c, sentinel_port[i], 5000, &e), e);
    redisReply *r = client_command(&c, "SENTINEL CKQUORUM main");
    redisReply *replicas = client_command(&c, "SENTINEL REPLICAS main");
    redisReply *others = client_command(&c, "SENTINEL SENTINELS main");
    if (r != NULL && replicas != NULL && others != NULL)
        good = r->type == REDIS_REPLY_STATUS && replicas->elements == 1 && others->elements == SENTINELS - 1;
    freeReplyObject(r);
    freeReplyObject(replicas);
    freeReplyObject(others);
    client_close(&c);
    return good;
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    static char port[8];
    char urls[SENTINELS * 40] = "";
    must(process_make_directory(files, "sentinels", &e), e);
    must(temp_redis_start(&redis[0], NULL, &e), e);
    (void)snprintf(port, sizeof(port), "%u", redis[0].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    must(temp_redis_start(&redis[1], extra, &e), e);
    for (unsigned i = 0; i < SENTINELS; i++) {
        size_t n = strlen(urls);
        start_sentinel(i);
        (void)snprintf(urls + n, sizeof(urls) - n, "%sredis://127.0.0.1:%u", i == 0 ? "" : ", ",
                       sentinel_port[i]);
    }
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    for (unsigned i = 0; i < SENTINELS; i++)
        while (!agreed(i)) {
            assert_true(clock_mono_us() < until);
            clock_sleep_us(100 * 1000);
        }
    struct nodes asked;
    must(sentinels_parse(&servers.nodes, &asked, urls, "main", &e), e);
    must(sentinels_start(&servers.nodes.sentinels, &asked, &servers.nodes, 500, &e), e);
    servers.count = 1;
    must(client_open(&servers.client[0], redis[0].port, 5000, &e), e);
    char host[NODE_NAME_MAX];
    uint16_t found;
    unsigned version;
    while (!sentinels_address(servers.nodes.sentinels, &servers.nodes.node[0], host, &found, &version)) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20 * 1000);
    }
    assert_int_equal(found, redis[0].port);
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
    sentinels_stop(servers.nodes.sentinels);
    for (unsigned i = 0; i < SENTINELS; i++)
        process_kill(&sentinel[i]);
    temp_redis_fini(&redis[0]);
    temp_redis_fini(&redis[1]);
    process_remove_directory(files);
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

static unsigned reads_of(struct client *c)
{
    redisReply *r = client_command(c, "INFO commandstats");
    assert_non_null(r);
    const char *at = strstr(r->str, "cmdstat_getrange:calls=");
    unsigned calls = at == NULL ? 0 : (unsigned)strtoul(strchr(at, '=') + 1, NULL, 10);
    freeReplyObject(r);
    return calls;
}

/* Those that the master names. */
static void test_sentinel__checks_are_asked_of_the_masters_replica(void **state)
{
    (void)state;
    struct coordinator reader;
    struct client replica;
    struct error e = {""};
    struct filter_policy policy = plain;
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    policy.replica_age_ms = 5000;
    must(client_open(&replica, redis[1].port, 5000, &e), e);
    coordinator_open(&reader, &servers, policy);
    wait_added(0, 200); /* the replica has them */
    do {
        assert_true(clock_mono_us() < until);
        assert_int_equal(coordinator_check(&reader, 0, 1, KEY_YES), 1);
        coordinator_run(&reader, 50);
    } while (reads_of(&replica) == 0);
    must(client_ok(&replica, &e, "CONFIG RESETSTAT"), e);
    must(client_ok(&servers.client[0], &e, "CONFIG RESETSTAT"), e);
    assert_int_equal(coordinator_check(&reader, 0, 200, KEY_YES), 200);
    assert_int_equal(reads_of(&replica), 200);
    assert_int_equal(reads_of(&servers.client[0]), 0);
    coordinator_close(&reader);
    client_close(&replica);
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
            temp_redis_kill(&redis[0]);
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
    must(temp_redis_restart(&redis[0], false, &e), e);
    /* At once: sentinels take their time to make it a replica, and would promote it while it is empty. */
    must(client_open(&c, redis[0].port, 5000, &e), e);
    must(client_ok(&c, &e, "REPLICAOF 127.0.0.1 %u", redis[1].port), e);
    wait_linked(&c, until);
    client_close(&c);
    must(client_open(&c, sentinel_port[2], 5000, &e), e);
    bool asked = false;
    while (!asked) {
        assert_true(clock_mono_us() < until);
        redisReply *r = client_command(&c, "SENTINEL FAILOVER main");
        asked = r != NULL && r->type == REDIS_REPLY_STATUS;
        freeReplyObject(r);
        clock_sleep_us(200 * 1000);
    }
    client_close(&c);
    char host[NODE_NAME_MAX];
    uint16_t port = 0;
    unsigned version;
    do {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(50 * 1000);
        (void)sentinels_address(servers.nodes.sentinels, &servers.nodes.node[0], host, &port, &version);
        (void)coordinator_ask(&one, OPERATION_ADD, 500, 10);
    } while (port != redis[0].port);
    wait_added(600, 100);
    assert_int_equal(coordinator_check(&one, 600, 100, KEY_YES), 100);
    assert_int_equal(coordinator_check(&one, 0, 200, KEY_YES), 200);
}

/* One sentinel is enough to go on, whichever it is. */
static void test_sentinel__may_die_but_for_one(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 1 < SENTINELS; i++)
        process_kill(&sentinel[i]);
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
        cmocka_unit_test(test_sentinel__checks_are_asked_of_the_masters_replica),
        cmocka_unit_test(test_sentinel__follows_a_master_that_dies_under_adds),
        cmocka_unit_test(test_sentinel__follows_a_failover_without_a_death),
        cmocka_unit_test(test_sentinel__may_die_but_for_one),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
