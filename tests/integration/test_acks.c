/* SPDX-License-Identifier: MIT */
/* Adds that are acknowledged only when a replica has them. */
#include "tests/integration/coordinator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { SHARDS = 6, FAST_MS = COORDINATOR_TIMEOUT_MS / 3, PATIENT_MS = 6000, GUARD_MS = 20000 };

static struct servers servers, promoted;
static struct temp_redis replica;
static struct client to_replica;
static struct filter f;
static struct coordinator one, plain;

static const struct filter_policy acked = {.configured = true, .sourced = true, .add_acks = 1};
static const struct filter_policy unacked = {.configured = true, .sourced = true};

static void wait_linked(void)
{
    uint64_t until = clock_mono_us() + GUARD_MS * 1000ull;
    redisReply *reply = NULL;
    bool up = false;
    while (!up) {
        assert_true(clock_mono_us() < until);
        reply = servers_command(&servers, 0, "WAIT 1 100");
        up = reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;
        freeReplyObject(reply);
    }
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    static char port[8];
    if (servers_start(&servers, 1) != 0)
        return -1;
    (void)snprintf(port, sizeof(port), "%u", servers.redis[0].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, "--repl-timeout", "3600", NULL};
    must(temp_redis_start(&replica, extra, &e), e);
    must(client_open(&to_replica, replica.port, 5000, &e), e);
    must(client_ok(&servers.client[0], &e, "CONFIG SET repl-diskless-sync-delay 0"), e);
    must(client_ok(&servers.client[0], &e, "CONFIG SET repl-timeout 3600"), e);
    wait_linked();
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, acked);
    coordinator_open(&plain, &servers, unacked);
    catalog_configure(one.catalog, PATIENT_MS, TOMBSTONE_MS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    coordinator_close(&plain);
    filter_fini(&f);
    client_close(&to_replica);
    temp_redis_fini(&replica);
    return servers_stop(&servers);
}

/* The replica is the master now, and known by the name that the filter's shards lie under. */
static void promote(struct coordinator *after)
{
    struct error e = {""};
    temp_redis_kill(&servers.redis[0]);
    must(client_ok(&to_replica, &e, "REPLICAOF NO ONE"), e);
    promoted = servers;
    promoted.nodes.node[0].port = replica.port;
    coordinator_open(after, &promoted, unacked);
}

/* Of an operation: long where it must succeed on a busy machine, else that of the other tests. */
static void give_ms(unsigned ms)
{
    catalog_configure(one.catalog, ms, TOMBSTONE_MS);
}

static unsigned add_ms(struct coordinator *c, unsigned first, unsigned count, enum err *status)
{
    uint64_t began = clock_mono_us();
    *status = coordinator_ask(c, OPERATION_ADD, first, count);
    return (unsigned)((clock_mono_us() - began) / 1000);
}

static void is_not_acknowledged(struct coordinator *c, unsigned first, unsigned count)
{
    enum err status;
    give_ms(COORDINATOR_TIMEOUT_MS);
    assert_in_range(add_ms(c, first, count, &status), COORDINATOR_TIMEOUT_MS / 2, 3 * COORDINATOR_TIMEOUT_MS);
    assert_int_equal(status, ERR_TIMEOUT);
    give_ms(PATIENT_MS);
    if (strstr(c->error, "not acknowledged, though its keys may be in the filter") == NULL)
        fail_msg("%s", c->error);
}

static void test_add__is_acknowledged_once_the_replica_has_it(void **state)
{
    (void)state;
    struct coordinator after;
    coordinator_add(&one, 0, 500);
    assert_in_range(coordinator_results(&one, 500, KEY_YES), 495, 500);
    coordinator_add(&one, 0, 500);
    assert_int_equal(coordinator_results(&one, 500, KEY_YES), 0);
    assert_int_equal(coordinator_check(&one, 0, 500, KEY_YES), 500);
    promote(&after);
    assert_int_equal(coordinator_check(&after, 0, 500, KEY_YES), 500);
    assert_int_equal(after.lost, 0);
    coordinator_close(&after);
}

static void test_add__is_not_acknowledged_while_the_replica_is_stopped(void **state)
{
    (void)state;
    unsigned before, while_stopped;
    enum err status;
    coordinator_add(&one, 0, 50);
    (void)kill(replica.process.pid, SIGSTOP);
    is_not_acknowledged(&one, 50, 50);
    is_not_acknowledged(&one, 100, 1);
    /* What needs no acknowledgement is not held up. */
    before = add_ms(&plain, 200, 50, &status);
    give_ms(COORDINATOR_TIMEOUT_MS);
    struct operation *op = coordinator_start(&one, OPERATION_ADD, "f", 300, 50, coordinator_done);
    coordinator_run(&one, 50);
    while_stopped = add_ms(&plain, 250, 50, &status);
    assert_int_equal(status, ERR_OK);
    assert_in_range(before, 0, FAST_MS);
    assert_in_range(while_stopped, 0, FAST_MS);
    operation_release(op);
    uint64_t began = clock_mono_us();
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    assert_in_range((clock_mono_us() - began) / 1000, 0, FAST_MS);
    (void)kill(replica.process.pid, SIGCONT);
    wait_linked();
    coordinator_run(&one, 3 * COORDINATOR_TIMEOUT_MS); /* what waits for the old ones ends */
    give_ms(PATIENT_MS);
    coordinator_add(&one, 50, 51);
}

/* The bits are set by somebody who does not wait; so the add that waits changes nothing. */
static void test_add__of_a_key_that_another_added_unseen_by_the_replica_waits_too(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 10);
    (void)kill(replica.process.pid, SIGSTOP);
    coordinator_add(&plain, 100, 10);
    is_not_acknowledged(&one, 100, 10);
    (void)kill(replica.process.pid, SIGCONT);
    wait_linked();
    coordinator_run(&one, 3 * COORDINATOR_TIMEOUT_MS);
    coordinator_add(&one, 100, 10);
    assert_int_equal(coordinator_results(&one, 10, KEY_NO), 10);
}

static void test_add__goes_on_when_the_replica_comes_back_in_time(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 10);
    (void)kill(replica.process.pid, SIGSTOP);
    struct operation *op = coordinator_start(&one, OPERATION_ADD, "f", 100, 50, coordinator_done);
    coordinator_run(&one, COORDINATOR_TIMEOUT_MS / 4);
    assert_false(one.done);
    (void)kill(replica.process.pid, SIGCONT);
    coordinator_wait(&one);
    assert_int_equal(one.status, ERR_OK);
    assert_in_range(coordinator_results(&one, 50, KEY_YES), 48,
                    50); /* new, though it was sent more than once */
    operation_release(op);
}

static void test_add__without_a_replica_is_an_error_that_says_so(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_ok(&to_replica, &e, "REPLICAOF NO ONE"), e);
    coordinator_run(&one, 200);
    is_not_acknowledged(&one, 0, 5);
    assert_int_equal(coordinator_check(&one, 0, 5, KEY_YES), 5); /* they are there */
}

/* Redis before 7.2 has no WAITAOF; later ones refuse it without appendonly. */
static void test_add__that_needs_a_disk_is_refused_where_there_is_none(void **state)
{
    (void)state;
    struct coordinator disk;
    struct filter_policy policy = unacked;
    policy.add_fsync = true;
    coordinator_open(&disk, &servers, policy);
    assert_int_equal(coordinator_ask(&disk, OPERATION_ADD, 0, 5), ERR_REFUSED);
    assert_non_null(strstr(disk.error, "WAITAOF"));
    assert_int_equal(coordinator_check(&disk, 0, 5, KEY_YES), 5);
    coordinator_close(&disk);
}

/* --- the master dies under adds --- */

enum { FLIGHT = 8, FLIGHT_KEYS = 20, FLIGHTS = 60 };

struct flight {
    bool over, good;
};

static unsigned flying;

static void on_landed(struct operation *op, void *arg)
{
    struct flight *flight = arg;
    flight->over = true;
    flight->good = operation_status(op) == ERR_OK;
    flying--;
    operation_release(op);
}

static void take_off(struct flight *flight, unsigned first)
{
    struct error e = {""};
    struct catalog_filter *entry;
    must(catalog_find(one.catalog, "f", 1, &entry, &e), e);
    struct operation *op = operation_new(one.catalog, OPERATION_ADD, FLIGHT_KEYS, FLIGHT_KEYS * 16);
    assert_non_null(op);
    for (unsigned i = 0; i < FLIGHT_KEYS; i++) {
        char key[16];
        int n = snprintf(key, sizeof(key), "k%u", first + i);
        operation_key(op, key, (size_t)n);
    }
    flying++;
    operation_start(op, entry, on_landed, flight);
}

static void test_add__acknowledged_before_the_master_dies_is_at_its_replica(void **state)
{
    (void)state;
    struct coordinator after;
    struct flight flight[FLIGHTS] = {{0}};
    unsigned begun = 0, good = 0;
    flying = 0;
    give_ms(COORDINATOR_TIMEOUT_MS);
    while (begun < FLIGHTS) {
        while (flying < FLIGHT && begun < FLIGHTS) {
            take_off(&flight[begun], begun * FLIGHT_KEYS);
            begun++;
        }
        (void)event_base_loop(one.base, EVLOOP_ONCE);
        if (begun == FLIGHTS * 2 / 3 && servers.redis[0].process.pid != 0)
            promote(&after); /* with flights under way */
    }
    while (flying > 0)
        (void)event_base_loop(one.base, EVLOOP_ONCE);
    for (unsigned i = 0; i < FLIGHTS; i++)
        if (flight[i].good) {
            good++;
            assert_int_equal(coordinator_check(&after, i * FLIGHT_KEYS, FLIGHT_KEYS, KEY_YES), FLIGHT_KEYS);
        }
    print_message("%u of %u adds were acknowledged\n", good, FLIGHTS);
    assert_in_range(good, 1, FLIGHTS - 1);
    coordinator_close(&after);
}

/* The master goes on alone, so that all that it takes is lost with it. */
static void test_add__taken_by_a_master_alone_is_not_acknowledged(void **state)
{
    (void)state;
    struct coordinator after;
    struct error e = {""};
    coordinator_add(&one, 0, 100);
    must(client_ok(&to_replica, &e, "REPLICAOF NO ONE"), e);
    give_ms(COORDINATOR_TIMEOUT_MS);
    enum err status = coordinator_ask(&one, OPERATION_ADD, 500, 100);
    promote(&after);
    assert_int_equal(coordinator_check(&after, 0, 100, KEY_YES), 100);
    if (status == ERR_OK)
        assert_int_equal(coordinator_check(&after, 500, 100, KEY_YES), 100);
    assert_int_not_equal(status, ERR_OK);
    coordinator_close(&after);
}

int main(void)
{
#define ROW(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(test_add__is_acknowledged_once_the_replica_has_it),
        ROW(test_add__is_not_acknowledged_while_the_replica_is_stopped),
        ROW(test_add__of_a_key_that_another_added_unseen_by_the_replica_waits_too),
        ROW(test_add__goes_on_when_the_replica_comes_back_in_time),
        ROW(test_add__without_a_replica_is_an_error_that_says_so),
        ROW(test_add__that_needs_a_disk_is_refused_where_there_is_none),
        ROW(test_add__acknowledged_before_the_master_dies_is_at_its_replica),
        ROW(test_add__taken_by_a_master_alone_is_not_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
