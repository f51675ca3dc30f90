/* SPDX-License-Identifier: MIT */
/* Nodes lose their shards. The shards come back from the memory of a coordinator, whoever dies or sleeps
 * meanwhile, or from the table if no coordinator has them. Acknowledged keys are never reported absent, and
 * are present afterwards. */
#include "tests/integration/losing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "shard/filter/slots.h"
#include "tests/integration/traffic.h"

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    return losing_start(&f, NULL);
}

static int setup_with_errors(void **state)
{
    (void)state;
    return losing_start(&f, "on_lost = error\n");
}

static int setup_cluster(void **state)
{
    (void)state;
    return losing_start_cluster(&f);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* --- from memory --- */

static void are_resident(void)
{
    struct error e = {""};
    for (unsigned d = 0; d < 2; d++) {
        char shards[32];
        fixture_all_present(&f, d, 0, LOSING_ROWS);
        must(client_status(&f.client[d], FILTER, "shards", shards, sizeof(shards), &e), e);
        must(client_wait_status(&f.client[d], FILTER, "resident_shards", shards, HEALING_WAIT_MS, &e), e);
    }
}

/* Add keys until node @node has @wanted shards. Adds are folded, and a fold finds lost shards. */
static void await_shards(unsigned node, int64_t generation, unsigned wanted)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + HEALING_WAIT_MS * 1000ull;
    for (uint64_t i = 0; losing_shards(&f, node, generation) != wanted; i = (i + 100) % LOSING_ROWS) {
        if (clock_mono_us() > until)
            fail_msg("node %u has %u of %u shards", node, losing_shards(&f, node, generation), wanted);
        (void)!client_madd(&f.client[0], FILTER, fixture_code, i, 100, &e);
        clock_sleep_us(50000);
    }
}

/* Wait until each writer has added a code. */
static void await_adds(struct traffic *t)
{
    uint64_t until = clock_mono_us() + HEALING_WAIT_MS * 1000ull;
    for (unsigned i = 0; i < TRAFFIC_WRITERS; i++)
        for (uint64_t was = atomic_load(&t->writers[i].acknowledged);
             atomic_load(&t->writers[i].acknowledged) == was;) {
            if (clock_mono_us() > until)
                fail_msg("writer %u adds nothing", i);
            clock_sleep_us(10000);
        }
}

/* A loss is found by a fold, so the codes are new ones each time. */
static void loses_and_heals(const char *what, void (*lose)(void))
{
    enum { MOST = 10000 };
    static struct traffic traffic;
    static uint64_t from;
    unsigned before[LOSING_NODES];
    int64_t generation = fixture_generation(&f, 0);
    print_message("%s\n", what);
    are_resident();
    for (unsigned i = 0; i < LOSING_NODES; i++)
        before[i] = losing_shards(&f, i, generation);
    assert_true(before[1] >= 8);
    traffic_begin_from(&traffic, &f, LOSING_ROWS, MOST, from);
    from += MOST;
    await_adds(&traffic);
    lose();
    await_adds(&traffic);
    traffic_end(&traffic);
    traffic_judge(&traffic, true);
    for (unsigned i = 0; i < LOSING_NODES; i++)
        await_shards(i, generation, before[i]);
    healing_is_whole(&f, LOSING_ROWS);
    assert_int_equal(fixture_generation(&f, 0), generation);
}

static void flush_one(void)
{
    losing_flush(&f, 1);
}

static void flush_two(void)
{
    losing_flush(&f, 1);
    losing_flush(&f, 2);
}

static void restart_empty(void)
{
    struct error e = {""};
    temp_redis_kill(&f.redis[1]);
    must(temp_redis_restart(&f.redis[1], false, &e), e);
}

static void test_heal_lost__of_one_node_of_three_or_two_comes_back_from_memory(void **state)
{
    (void)state;
    loses_and_heals("FLUSHALL of a node", flush_one);
    loses_and_heals("a node is started anew, empty", restart_empty);
    loses_and_heals("FLUSHALL of two nodes", flush_two);
    healing_start_again(&f, 0); /* it starts with the present data of Redis */
    healing_is_whole(&f, LOSING_ROWS);
}

/* The placement of shards is random; the master is not the metadata node. The lane may be lost together with
 * shards: then no process knows that it has all keys, and the table is read. */
static void test_heal_lost__of_a_master_of_a_cluster(void **state)
{
    (void)state;
    struct error e = {""};
    static const char lane[] = FILTER ".0";
    for (unsigned n = 0; n < 2; n++) {
        int64_t generation = fixture_generation(&f, 0);
        unsigned node = healing_other(&f, n);
        bool has_lane = temp_cluster_owner(&f.cluster, node, slots_of_key(lane, strlen(lane))) == node;
        are_resident();
        losing_flush(&f, node);
        must(client_madd(&f.client[n], FILTER, fixture_code, 0, LOSING_ROWS / 10, &e), e);
        healing_is_whole(&f, LOSING_ROWS);
        assert_true(has_lane || fixture_generation(&f, 0) == generation);
        must(client_wait_status(&f.client[0], FILTER, "phase", "STEADY", HEALING_WAIT_MS, &e), e);
    }
}

/* The other coordinator has the shards in memory. */
static void test_heal_lost__goes_on_where_coordinators_die_at_any_time(void **state)
{
    (void)state;
    enum { ROUNDS = 5, ADDED = 10 };
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    uint64_t count = LOSING_ROWS;
    for (unsigned round = 0; round < ROUNDS; round++, count += ADDED) {
        unsigned victim = round % 2, node = 1 + round % 2, before = losing_shards(&f, node, generation);
        are_resident();
        fixture_insert(f.db, count, ADDED);
        losing_flush(&f, node);
        must(client_madd(&f.client[1 - victim], FILTER, fixture_code, count, ADDED, &e), e);
        clock_sleep_us(random_u64() % (400 * 1000));
        daemon_kill(&f.daemon[victim]);
        healing_await(&f, 1 - victim, count + ADDED);
        fixture_all_present(&f, 1 - victim, 0, count + ADDED);
        must(daemon_launch(&f.daemon[victim], &e), e);
        fixture_reconnect(&f, victim);
        await_shards(node, generation, before);
        healing_is_whole(&f, count + ADDED);
    }
    assert_int_equal(fixture_generation(&f, 0), generation);
}

/* The coordinator sleeps from before the loss until the shards are back. */
static void test_heal_lost__is_nothing_to_a_coordinator_that_slept(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    unsigned before = losing_shards(&f, 1, generation);
    are_resident();
    daemon_pause(&f.daemon[1]);
    losing_flush(&f, 1);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 100, &e), e);
    await_shards(1, generation, before);
    daemon_resume(&f.daemon[1]);
    fixture_all_present(&f, 1, 0, LOSING_ROWS + 100); /* in its first replies */
    must(client_madd(&f.client[1], FILTER, fixture_code, 0, LOSING_ROWS / 10, &e), e);
    healing_is_whole(&f, LOSING_ROWS + 100);
    assert_int_equal(fixture_generation(&f, 0), generation);
}

/* --- from the table --- */

/* Have no coordinator keep the lost shards in memory; the job that heals waits for a transaction with @added
 * rows. */
static void lose_for_all(uint64_t added)
{
    struct error e = {""};
    for (unsigned d = 0; d < 2; d++)
        assert_true(daemon_stop(&f.daemon[d], 20000));
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, added);
    losing_flush(&f, 1);
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_launch(&f.daemon[d], &e), e);
        fixture_reconnect(&f, d);
    }
    for (unsigned d = 0; d < 2; d++) {
        redisReply *r = client_command(&f.client[d], "BF.EXISTS " FILTER " c1"); /* opens the filter */
        assert_true(r != NULL && (r->type == REDIS_REPLY_ERROR || r->integer == 1));
        freeReplyObject(r);
        must(client_wait_status(&f.client[d], FILTER, "degraded", "1", HEALING_WAIT_MS, &e), e);
    }
    must(client_wait_status(&f.client[0], FILTER, "job_step", "settle", HEALING_WAIT_MS, &e), e);
}

static void test_heal_lost__of_what_nobody_has_reads_the_table(void **state)
{
    (void)state;
    enum { ADDED = 600 };
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    lose_for_all(ADDED);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, ADDED, &e),
         e); /* while the shards are lost */
    for (unsigned d = 0; d < 2; d++) {
        fixture_all_present(&f, d, 0, LOSING_ROWS + ADDED);
        assert_int_equal(fixture_false_positives(&f, d, 1000), 1000); /* all are "maybe" */
    }
    clock_sleep_us(1000 * 1000); /* longer than the healing would take without the transaction */
    healing_is(&f, 0, "degraded", "1");
    fixture_sql(f.db, "COMMIT");
    healing_is_whole(&f, LOSING_ROWS + ADDED);
    assert_true(fixture_generation(&f, 0) > generation);
}

static void test_heal_lost__is_an_error_where_that_is_wanted(void **state)
{
    (void)state;
    lose_for_all(1);
    unsigned errors = 0, no = 0;
    for (uint64_t i = 0; i < 900; i++) {
        char code[CLIENT_KEY_MAX];
        (void)(i < 450 ? fixture_code : fixture_absent_code)(i, code);
        redisReply *r = client_command(&f.client[i % 2], "BF.EXISTS " FILTER " %s", code);
        assert_non_null(r);
        errors += r->type == REDIS_REPLY_ERROR;
        no += r->type == REDIS_REPLY_INTEGER && r->integer == 0;
        freeReplyObject(r);
    }
    assert_int_equal(no, 0);
    assert_in_range(errors, 450, 700); /* all absent keys, and the lost ones */
    fixture_sql(f.db, "COMMIT");
    healing_is_whole(&f, LOSING_ROWS);
}

/* What an operator may do while shards are lost. */
static void test_heal_lost__gives_way_to_a_rebuild_and_is_not_dumped(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    lose_for_all(1);
    redisReply *r = client_command(&f.client[0], "BF.SCANDUMP " FILTER " 0");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ERROR); /* as the dump would lack the lost keys */
    freeReplyObject(r);
    fixture_ask(&f, 0, "TB.ABORT " FILTER);
    must(client_wait_status(&f.client[0], FILTER, "job_state", "aborted", HEALING_WAIT_MS, &e), e);
    healing_is(&f, 0, "degraded", "1");
    fixture_all_present(&f, 0, 0, LOSING_ROWS);
    must(client_when_free(&f.client[0], HEALING_WAIT_MS, &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&f.client[0], FILTER, "phase", "BUILDING", HEALING_WAIT_MS, &e), e);
    fixture_all_present(&f, 0, 0, LOSING_ROWS);
    must(client_madd(&f.client[0], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    fixture_sql(f.db, "COMMIT");
    healing_is_whole(&f, LOSING_ROWS + 1);
    assert_true(fixture_generation(&f, 0) > generation);
}

int main(void)
{
#define TEST(name, with) cmocka_unit_test_setup_teardown(name, with, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_heal_lost__of_one_node_of_three_or_two_comes_back_from_memory, setup),
        TEST(test_heal_lost__of_a_master_of_a_cluster, setup_cluster),
        TEST(test_heal_lost__goes_on_where_coordinators_die_at_any_time, setup),
        TEST(test_heal_lost__is_nothing_to_a_coordinator_that_slept, setup),
        TEST(test_heal_lost__of_what_nobody_has_reads_the_table, setup),
        TEST(test_heal_lost__is_an_error_where_that_is_wanted, setup_with_errors),
        TEST(test_heal_lost__gives_way_to_a_rebuild_and_is_not_dumped, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
