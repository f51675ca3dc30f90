/* SPDX-License-Identifier: MIT */
/* Coordinators that die, stop or sleep while lost shards are made anew. */
#include "tests/integration/losing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"

enum { LEASE_US = 2000 * 1000 };

static struct fixture f;

static int setup(void **state)
{
    (void)state;
    return losing_start(&f, NULL);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* The job is in its settle: it waits for a transaction that has inserted row LOSING_ROWS. Who drives it. */
static unsigned begin_and_hold(void)
{
    struct error e = {""};
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, LOSING_ROWS, 1);
    losing_flush(&f, 1);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "repair", HEALING_WAIT_MS, &e), e);
    must(client_wait_status_least(&f.client[0], FILTER, "epoch", 1, HEALING_WAIT_MS, &e), e);
    clock_sleep_us(500 * 1000);
    return losing_owner(&f, 0);
}

/* By coordinator @d, in the transaction. */
static void add_and_commit(unsigned d)
{
    struct error e = {""};
    must(client_madd(&f.client[d], FILTER, fixture_code, LOSING_ROWS, 1, &e), e);
    fixture_sql(f.db, "COMMIT");
}

static void await_both(int64_t generation)
{
    losing_is_whole(&f, LOSING_ROWS + 1);
    assert_int_equal(fixture_generation(&f, 0), generation);
    assert_in_range(healing_number(&f, 0, "job_repair_shards"), 8, 100);
}

static void test_heal_lost__goes_on_where_its_coordinator_dies_in_the_settle(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    unsigned owner = begin_and_hold();
    daemon_kill(&f.daemon[owner]);
    fixture_all_present(&f, 1 - owner, 0, LOSING_ROWS);
    add_and_commit(1 - owner);
    losing_await(&f, 1 - owner, LOSING_ROWS + 1);
    must(daemon_launch(&f.daemon[owner], &e), e);
    fixture_reconnect(&f, owner);
    await_both(generation);
}

static void test_heal_lost__goes_on_where_its_coordinator_dies_in_the_scan(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    unsigned owner = begin_and_hold();
    losing_throttle(&f, 0, 6000);
    add_and_commit(1 - owner);
    must(client_wait_status_least(&f.client[1 - owner], FILTER, "job_repair_rows", 6000, HEALING_WAIT_MS, &e),
         e);
    daemon_kill(&f.daemon[owner]);
    fixture_all_present(&f, 1 - owner, 0, LOSING_ROWS + 1);
    losing_throttle(&f, 1 - owner, 0);
    losing_await(&f, 1 - owner, LOSING_ROWS + 1);
    must(daemon_launch(&f.daemon[owner], &e), e);
    fixture_reconnect(&f, owner);
    await_both(generation);
}

/* It wakes when another one has taken over, and when that has ended. */
static void test_heal_lost__goes_on_where_its_coordinator_stops(void **state)
{
    (void)state;
    int64_t generation = fixture_generation(&f, 0);
    for (int late = 0; late < 2; late++) {
        unsigned owner = begin_and_hold();
        daemon_pause(&f.daemon[owner]);
        clock_sleep_us(LEASE_US + 1500 * 1000);
        fixture_all_present(&f, 1 - owner, 0, LOSING_ROWS);
        if (!late)
            daemon_resume(&f.daemon[owner]);
        add_and_commit(1 - owner);
        losing_await(&f, 1 - owner, LOSING_ROWS + 1);
        if (late)
            daemon_resume(&f.daemon[owner]);
        fixture_reconnect(&f, owner);
        fixture_all_present(&f, owner, 0, LOSING_ROWS + 1); /* with its first answers */
        await_both(generation);
        fixture_sql(f.db, "DELETE FROM short_link WHERE code = 'c30000'");
    }
}

/* The other one has the view from before: it sleeps from before the loss, or while the shards are lost, until
 * they are being filled, or until they are. */
static void test_heal_lost__is_nothing_to_a_coordinator_that_slept(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    for (int until_end = 0; until_end < 2; until_end++) {
        fixture_all_present(&f, 1, 0, LOSING_ROWS); /* it has the view, and connections */
        daemon_pause(&f.daemon[1]);
        unsigned owner = begin_and_hold();
        assert_int_equal(owner, 0);
        if (until_end) {
            add_and_commit(0);
            losing_await(&f, 0, LOSING_ROWS + 1);
        }
        /* What it is asked first, it answers under the view that it knows. */
        daemon_resume(&f.daemon[1]);
        fixture_all_present(&f, 1, 0, LOSING_ROWS);
        must(client_madd(&f.client[1], FILTER, fixture_code, 0, LOSING_ROWS / 10, &e), e);
        if (!until_end)
            add_and_commit(1);
        await_both(generation);
        fixture_sql(f.db, "DELETE FROM short_link WHERE code = 'c30000'");
    }
}

/* Whenever it is. */
static void test_heal_lost__goes_on_where_coordinators_die_at_any_time(void **state)
{
    (void)state;
    enum { ROUNDS = 5 }; /* a loss that no request meets is looked for every 30 s */
    struct error e = {""};
    int64_t generation = fixture_generation(&f, 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned victim = round % 2;
        fixture_sql(f.db, "BEGIN");
        fixture_insert(f.db, LOSING_ROWS + round, 1);
        int64_t epoch = healing_number(&f, 1 - victim, "epoch");
        losing_flush(&f, 1 + round % 2);
        bool added =
            client_madd(&f.client[1 - victim], FILTER, fixture_code, LOSING_ROWS + round, 1, &e) == ERR_OK;
        fixture_sql(f.db, "COMMIT");
        assert_true(added);
        clock_sleep_us(random_u64() % (400 * 1000));
        daemon_kill(&f.daemon[victim]);
        losing_noticed(&f, 1 - victim, epoch);
        losing_await(&f, 1 - victim, LOSING_ROWS + round + 1);
        fixture_all_present(&f, 1 - victim, 0, LOSING_ROWS + round + 1);
        must(daemon_launch(&f.daemon[victim], &e), e);
        fixture_reconnect(&f, victim);
        losing_is_whole(&f, LOSING_ROWS + round + 1);
        assert_int_equal(fixture_generation(&f, 0), generation);
    }
}

/* With an argument only the tests whose names match it. */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_heal_lost__goes_on_where_its_coordinator_dies_in_the_settle),
        TEST(test_heal_lost__goes_on_where_its_coordinator_dies_in_the_scan),
        TEST(test_heal_lost__goes_on_where_its_coordinator_stops),
        TEST(test_heal_lost__is_nothing_to_a_coordinator_that_slept),
        TEST(test_heal_lost__goes_on_where_coordinators_die_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
