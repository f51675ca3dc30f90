/* SPDX-License-Identifier: MIT */
/* Checks that are asked of the replicas of a cluster: they answer what they have, and no key that was
 * acknowledged is reported absent while they are stopped, cut off, moved, promoted, or while the filter is
 * built anew. */
#include "tests/integration/traffic.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { MASTERS = 3, ROWS = 20000, CAPACITY = 60000, WRITES_MAX = 4000, KEYS = 3000, WAIT_MS = 60000 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    const struct fixture_options o = {
        .masters = MASTERS,
        .replicas = MASTERS,
        .daemons = 2,
        .postgres = true,
        .rows = ROWS,
        .capacity = CAPACITY,
        .rate = "0.01",
        .redis_lines = "shard_bytes = 4KiB\ntimeout = 500ms\nread_from = replica\nmax_staleness = 2s\n",
        .expansion = "lease = 2s\n",
        .service = "check_interval = 200ms\ntimeout = 2s\n"};
    if (fixture_start(&f, &o) != 0)
        return -1;
    must(client_ok(&f.client[0], &e, "BF.RESERVE seen 0.0001 20000"), e);
    must(client_madd(&f.client[0], "seen", fixture_code, 0, KEYS, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static unsigned reads_of(unsigned node)
{
    unsigned calls = 0;
    redisReply *r = client_command(&f.cluster.client[node], "INFO commandstats");
    assert_non_null(r);
    const char *at = strstr(r->str, "cmdstat_getrange:calls=");
    if (at != NULL)
        calls = (unsigned)strtoul(strchr(at, '=') + 1, NULL, 10);
    freeReplyObject(r);
    return calls;
}

static unsigned reads_between(unsigned first, unsigned end)
{
    unsigned all = 0;
    for (unsigned i = first; i < end; i++)
        all += reads_of(i);
    return all;
}

static uint64_t present(unsigned d, const char *filter, uint64_t first, uint64_t count)
{
    struct error e = {""};
    uint64_t n = 0;
    must(client_mexists(&f.client[d], filter, fixture_code, first, count, &n, NULL, &e), e);
    return n;
}

/* Until replicas answer all that is present, to both coordinators. */
static void warm(void)
{
    uint64_t until = clock_mono_us() + WAIT_MS * 1000ull;
    for (unsigned d = 0; d < 2; d++)
        do {
            temp_cluster_reset_counts(&f.cluster);
            assert_int_equal(present(d, "seen", 0, KEYS), KEYS);
            assert_true(clock_mono_us() < until);
            clock_sleep_us(50000);
        } while (reads_between(MASTERS, 2 * MASTERS) < KEYS);
    temp_cluster_reset_counts(&f.cluster);
}

/* One line "name:value" of INFO. */
static uint64_t info(unsigned d, const char *name)
{
    redisReply *r = client_command(&f.client[d], "INFO nodes");
    assert_non_null(r);
    const char *at = strstr(r->str, name);
    assert_non_null(at);
    uint64_t value = at == NULL ? 0 : strtoull(at + strlen(name) + 1, NULL, 10);
    freeReplyObject(r);
    return value;
}

/* Keys that are asked for as soon as they are acknowledged, by both coordinators. */
static void add_and_check(uint64_t first, unsigned rounds)
{
    struct error e = {""};
    for (unsigned i = 0; i < rounds; i++) {
        must(client_madd(&f.client[i % 2], "seen", fixture_code, first + 20 * i, 20, &e), e);
        for (unsigned d = 0; d < 2; d++) {
            assert_int_equal(present(d, "seen", first + 20 * i, 20), 20);
            assert_int_equal(present(d, "seen", 0, 100), 100);
        }
    }
}

static void test_check__is_answered_by_the_replicas_of_each_master(void **state)
{
    (void)state;
    warm();
    clock_sleep_us(1000000); /* what was read before is counted */
    uint64_t before = info(0, "replica_reads"), reasked = info(0, "replica_reads_reasked");
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(present(0, "seen", 0, KEYS), KEYS);
    for (unsigned i = MASTERS; i < 2 * MASTERS; i++)
        assert_in_range(reads_of(i), KEYS / 2, 5 * KEYS);
    assert_in_range(reads_between(MASTERS, 2 * MASTERS), 5 * KEYS - 100, 6 * KEYS);
    print_message("masters read %u blocks\n", reads_between(0, MASTERS));
    assert_in_range(reads_between(0, MASTERS), 0, KEYS / 4); /* what the keeper looks at */
    clock_sleep_us(1500000);
    assert_in_range(info(0, "replica_reads") - before, 5 * KEYS - 100, 5 * KEYS);
    assert_in_range(info(0, "replica_reads_reasked") - reasked, 0, 100);
    char text[1024];
    struct error e = {""};
    must(client_status(&f.client[0], "seen", "replicas", text, sizeof(text), &e), e);
    for (unsigned i = MASTERS; i < 2 * MASTERS; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "127.0.0.1:%u of ", f.cluster.node[i].port);
        if (strstr(text, name) == NULL)
            fail_msg("%s", text);
    }
    /* What is absent is asked for twice, and is absent. */
    assert_in_range(present(0, "seen", 1000000, 1000), 0, 10);
}

/* What is sent on one connection is done in its order, whoever answers. */
static void test_connection__checks_see_adds_before_them_and_none_behind(void **state)
{
    (void)state;
    enum { N = 200 };
    warm();
    redisContext *c = f.client[0].redis;
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(redisAppendCommand(c, "BF.EXISTS seen order-%u", i), REDIS_OK);
        assert_int_equal(redisAppendCommand(c, "BF.ADD seen order-%u", i), REDIS_OK);
        assert_int_equal(redisAppendCommand(c, "BF.EXISTS seen order-%u", i), REDIS_OK);
    }
    unsigned early = 0;
    for (unsigned i = 0; i < 3 * N; i++) {
        redisReply *r = NULL;
        assert_int_equal(redisGetReply(c, (void **)&r), REDIS_OK);
        assert_int_equal(r->type, REDIS_REPLY_INTEGER);
        if (i % 3 == 0)
            early += r->integer == 1;
        else if (i % 3 == 2)
            assert_int_equal(r->integer, 1);
        freeReplyObject(r);
    }
    assert_in_range(early, 0, 3);
}

/* A key that is in one layer is present, whatever the replicas say of the others. */
static void test_layers__are_read_from_replicas_too(void **state)
{
    (void)state;
    struct error e = {""};
    char layers[16];
    must(client_ok(&f.client[0], &e, "BF.RESERVE many 0.01 500 EXPANSION 1"), e);
    for (unsigned i = 0; i < 6; i++) {
        must(client_madd(&f.client[i % 2], "many", fixture_code, 400 * i, 400, &e), e);
        for (unsigned d = 0; d < 2; d++)
            assert_int_equal(present(d, "many", 0, 400 * (i + 1)), 400 * (i + 1));
    }
    must(client_status(&f.client[0], "many", "layers", layers, sizeof(layers), &e), e);
    assert_in_range(strtoul(layers, NULL, 10), 4, 8);
    clock_sleep_us(1500000);
    warm();
    for (unsigned d = 0; d < 2; d++)
        assert_int_equal(present(d, "many", 0, 2400), 2400);
    unsigned masters = reads_between(0, MASTERS);
    if (masters > 500) /* those of the keeper; each key has 4 layers or more */
        fail_msg("masters read %u blocks", masters);
}

static void test_check__finds_all_while_replicas_are_stopped(void **state)
{
    (void)state;
    warm();
    for (unsigned i = MASTERS; i < 2 * MASTERS; i++)
        (void)kill(f.cluster.node[i].process.pid, SIGSTOP);
    add_and_check(100000, 20);
    for (unsigned i = MASTERS; i < 2 * MASTERS; i++)
        (void)kill(f.cluster.node[i].process.pid, SIGCONT);
    add_and_check(110000, 20);
    warm();
}

static void test_check__finds_all_while_replicas_are_cut_off(void **state)
{
    (void)state;
    struct error e = {""};
    warm();
    for (unsigned m = 0; m < MASTERS; m++)
        must(temp_cluster_cut_off(&f.cluster, m, WAIT_MS, &e), e);
    add_and_check(120000, 20);
    clock_sleep_us(2500000);
    add_and_check(130000, 2);
    temp_cluster_reset_counts(&f.cluster);
    add_and_check(140000, 5);
    assert_int_equal(reads_between(MASTERS, 2 * MASTERS), 0);
    /* SYNC alone would do for a replica, too, but tells it no offset: it would not be read from. */
    for (unsigned m = 0; m < MASTERS; m++)
        must(client_ok(&f.cluster.client[m], &e, "ACL SETUSER default +psync"), e);
    warm();
}

static void test_check__finds_all_while_replicas_lag(void **state)
{
    (void)state;
    struct error e = {""};
    warm();
    for (unsigned i = MASTERS; i < 2 * MASTERS; i++)
        must(client_ok(&f.cluster.client[i], &e, "CLIENT PAUSE 60000 WRITE"), e);
    add_and_check(150000, 30);
    assert_in_range(reads_between(MASTERS, 2 * MASTERS), 100, 1000000);
    for (unsigned i = MASTERS; i < 2 * MASTERS; i++)
        must(client_ok(&f.cluster.client[i], &e, "CLIENT UNPAUSE"), e);
    warm();
}

static void test_check__finds_all_while_slots_move(void **state)
{
    (void)state;
    struct error e = {""};
    warm();
    for (unsigned first = 0; first < 600; first += 30) {
        must(temp_cluster_move(&f.cluster, first, 30, 0, 1, 0, &e), e);
        add_and_check(200000 + 100 * first, 2);
        assert_int_equal(present(first / 30 % 2, "seen", 0, KEYS), KEYS);
    }
    /* A slot that stays half way. */
    unsigned moved = 0;
    must(temp_cluster_open(&f.cluster, 700, 0, 1, &e), e);
    must(temp_cluster_migrate(&f.cluster, 700, 0, 1, 2, &moved, &e), e);
    add_and_check(300000, 5);
    assert_int_equal(present(0, "seen", 0, KEYS), KEYS);
    must(temp_cluster_migrate(&f.cluster, 700, 0, 1, 1000, &moved, &e), e);
    must(temp_cluster_close(&f.cluster, 700, 0, 1, &e), e);
    add_and_check(310000, 5);
}

static void test_rebuild__under_traffic_loses_nothing(void **state)
{
    (void)state;
    static struct traffic t;
    enum err err = ERR_OK;
    struct error e = {""};
    warm();
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    for (unsigned i = 0; i < 2 && err == ERR_OK; i++) {
        err = client_when_free(&f.client[0], WAIT_MS, &e, "TB.REBUILD " FILTER);
        if (err == ERR_OK)
            err = client_wait_status(&f.client[0], FILTER, "phase", "BUILDING", WAIT_MS, &e);
        if (err == ERR_OK)
            err = client_wait_status(&f.client[0], FILTER, "phase", "STEADY", WAIT_MS, &e);
    }
    unsigned reads = reads_between(MASTERS, 2 * MASTERS);
    traffic_end(&t);
    must(err, e);
    traffic_judge(&t, false);
    assert_in_range(reads, 100, 100000000);
    fixture_all_present(&f, 0, 0, ROWS);
    fixture_all_present(&f, 1, 0, ROWS);
    assert_in_range(fixture_false_positives(&f, 0, 10000), 0, 200);
}

/* Last: the masters are others afterwards. */
static void test_failover__to_a_replica_that_is_read_from_denies_nothing(void **state)
{
    (void)state;
    static struct traffic t;
    struct error e = {""};
    unsigned heir = 0;
    warm();
    traffic_begin(&t, &f, ROWS, WRITES_MAX);
    clock_sleep_us(500000);
    temp_redis_kill(&f.cluster.node[2]);
    enum err err = temp_cluster_failed_over(&f.cluster, 2, WAIT_MS, &heir, &e);
    clock_sleep_us(1500000);
    traffic_end(&t);
    must(err, e);
    traffic_judge(&t, true);
    fixture_all_present(&f, 0, 0, ROWS);
    must(temp_redis_restart(&f.cluster.node[2], true, &e), e);
    must(temp_cluster_agree(&f.cluster, WAIT_MS, &e), e);
    fixture_all_present(&f, 1, 0, ROWS);
    assert_int_equal(present(0, "seen", 0, KEYS), KEYS);
    assert_int_equal(present(1, "seen", 0, KEYS), KEYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_check__is_answered_by_the_replicas_of_each_master),
        cmocka_unit_test(test_connection__checks_see_adds_before_them_and_none_behind),
        cmocka_unit_test(test_layers__are_read_from_replicas_too),
        cmocka_unit_test(test_check__finds_all_while_replicas_are_stopped),
        cmocka_unit_test(test_check__finds_all_while_replicas_are_cut_off),
        cmocka_unit_test(test_check__finds_all_while_replicas_lag),
        cmocka_unit_test(test_check__finds_all_while_slots_move),
        cmocka_unit_test(test_rebuild__under_traffic_loses_nothing),
        cmocka_unit_test(test_failover__to_a_replica_that_is_read_from_denies_nothing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
