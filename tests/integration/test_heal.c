/* SPDX-License-Identifier: MIT */
/* A master of a cluster dies, and its replica has missed the last writes. The processes that added those keys
 * write them again, without reading the table. If those processes died too, the table is read. No
 * acknowledged key is reported absent meanwhile. */
#include "tests/integration/healing.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, ADDED = 600, EACH = 50, ADDER = 2, EPOCHS = 100 };

static struct fixture f;

static int setup_with(unsigned daemons)
{
    const struct fixture_options o = {.masters = 3,
                                      .replicas = 3,
                                      .daemons = daemons,
                                      .postgres = true,
                                      .rows = ROWS,
                                      .capacity = 60000,
                                      .rate = "0.001",
                                      .redis_lines = "shard_bytes = 4KiB\n",
                                      .expansion = "lease = 2s\n",
                                      .service = "check_interval = 200ms\ntimeout = 5s\n"};
    return fixture_start(&f, &o);
}

static int setup(void **state)
{
    (void)state;
    return setup_with(2);
}

static int setup_three(void **state)
{
    (void)state;
    return setup_with(3);
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

/* A process that starts afterwards has the keys only from Redis. */
static void test_heal__by_those_who_have_added_needs_no_table(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t count = ROWS;
    int64_t generation = fixture_generation(&f, 0);
    for (unsigned node = 0; node < 2; node++) {
        healing_cut_off(&f, healing_other(&f, node));
        healing_insert_and_add(&f, node, count, ADDED, EACH);
        count += ADDED;
        for (unsigned d = 0; d < 2; d++)
            healing_is_resident(&f, d);
        if (node == 1) {
            PQfinish(f.db);
            f.db = NULL;
            temp_postgres_stop(&f.postgres);
        }
        unsigned heir = healing_fail_over(&f, healing_other(&f, node));
        healing_is_whole(&f, count);
        healing_is_accepted(&f, heir);
        assert_in_range(healing_number(&f, node, "epoch"), 1, EPOCHS);
    }
    assert_int_equal(fixture_generation(&f, 0), generation);
    clock_sleep_us(1500 * 1000); /* until the rest is folded */
    for (unsigned d = 0; d < 2; d++) {
        healing_start_again(&f, d);
        healing_is_whole(&f, count);
    }
    must(temp_postgres_restart(&f.postgres, &e), e);
}

/* Lose the keys together with the process that added them. The transaction with their rows is still open. */
static void lose_with_its_adder(uint64_t count)
{
    struct error e = {""};
    healing_cut_off(&f, healing_other(&f, 0));
    fixture_sql(f.db, "BEGIN");
    fixture_insert(f.db, ROWS, count);
    must(client_madd(&f.client[ADDER], FILTER, fixture_code, ROWS, count, &e), e);
    daemon_kill(&f.daemon[ADDER]);
    (void)healing_fail_over(&f, healing_other(&f, 0));
}

static void test_heal__of_what_a_dead_coordinator_added_reads_the_table(void **state)
{
    (void)state;
    struct error e = {""};
    char owner[128], pid[32];
    int64_t generation = fixture_generation(&f, 0);
    for (unsigned d = 0; d < 2; d++) /* who is not asked for the filter does not tend it */
        healing_is_resident(&f, d);
    lose_with_its_adder(ADDED);
    must(client_wait_status(&f.client[0], FILTER, "degraded", "1", HEALING_WAIT_MS, &e), e);
    must(client_wait_status(&f.client[0], FILTER, "job_step", "settle", HEALING_WAIT_MS, &e), e);
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&f, d, 0, ROWS + ADDED); /* as "maybe" */
    clock_sleep_us(500 * 1000);
    healing_is(&f, 0, "job_step", "settle"); /* the job waits for the transaction */
    must(client_status(&f.client[0], FILTER, "job_owner", owner, sizeof(owner), &e), e);
    (void)snprintf(pid, sizeof(pid), "-%d-", (int)f.daemon[0].process.pid);
    unsigned healer = strstr(owner, pid) != NULL ? 0 : 1;
    daemon_kill(&f.daemon[healer]); /* the other coordinator goes on with the job */
    clock_sleep_us(200 * 1000);
    healing_is(&f, 1 - healer, "degraded", "1");
    fixture_all_present(&f, 1 - healer, 0, ROWS + ADDED);
    fixture_sql(f.db, "COMMIT");
    healing_is_whole(&f, ROWS + ADDED);
    assert_true(fixture_generation(&f, 1 - healer) > generation);
    healing_start_again(&f, ADDER);
    healing_is_whole(&f, ROWS + ADDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heal__by_those_who_have_added_needs_no_table, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heal__of_what_a_dead_coordinator_added_reads_the_table,
                                        setup_three, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
