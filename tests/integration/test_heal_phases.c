/* SPDX-License-Identifier: MIT */
/* A lagging replica takes over in each phase of an expansion. No acknowledged key is missing in either
 * generation, and a build does not rely on its writes to the lost master. */
#include "tests/integration/healing.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, ADDED = 300, EACH = 50 };

static struct fixture f;

static int setup_with(const char *grace)
{
    const struct fixture_options o = {
        .masters = 3,
        .replicas = 3,
        .daemons = 2,
        .postgres = true,
        .rows = ROWS,
        .capacity = 60000,
        .rate = "0.001",
        .redis_lines = "shard_bytes = 4KiB\n",
        .expansion = "lease = 2s\ncheckpoint_interval = 20ms\nreaders = 1\npage_rows = 500\n",
        .schema = healing_gate,
        .where = "public.gate(id)",
        .grace = grace,
        .service = "check_interval = 200ms\ntimeout = 5s\n"};
    return fixture_start(&f, &o);
}

static int setup(void **state)
{
    (void)state;
    return setup_with("100ms");
}

static int setup_with_grace(void **state)
{
    (void)state;
    return setup_with("1h");
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&f);
}

static void await_step(const char *step)
{
    struct error e = {""};
    must(client_wait_status(&f.client[0], FILTER, "job_step", step, HEALING_WAIT_MS, &e), e);
}

static void ends_well(int64_t generation, uint64_t count)
{
    struct error e = {""};
    must(client_wait_status(&f.client[0], FILTER, "phase", "STEADY", HEALING_WAIT_MS, &e), e);
    must(client_wait_status(&f.client[0], FILTER, "degraded", "0", HEALING_WAIT_MS, &e), e);
    must(client_wait_status(&f.client[0], FILTER, "job_state", "done", HEALING_WAIT_MS, &e), e);
    assert_int_equal(fixture_generation(&f, 0), generation);
    for (unsigned d = 0; d < 2; d++) {
        must(client_wait_status(&f.client[d], FILTER, "degraded", "0", HEALING_WAIT_MS, &e), e);
        fixture_all_present(&f, d, 0, count);
        assert_in_range(fixture_false_positives(&f, d, 10000), 0, 60);
    }
}

static void add_and_fail_over(unsigned node)
{
    healing_insert_and_add(&f, 0, ROWS, ADDED, EACH);
    for (unsigned d = 0; d < 2; d++)
        if (process_running(&f.daemon[d].process))
            healing_is_resident(&f, d);
    (void)healing_fail_over(&f, node);
}

static void test_heal__in_the_settle(void **state)
{
    (void)state;
    unsigned node = healing_other(&f, 0);
    PGconn *other = PQconnectdb(f.postgres.dsn);
    int64_t generation = fixture_generation(&f, 0);
    fixture_sql(other, "BEGIN");
    fixture_sql(other, "SELECT 1");
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    await_step("settle");
    clock_sleep_us(200 * 1000);
    healing_cut_off(&f, node);
    add_and_fail_over(node);
    healing_await(&f, 0, ROWS + ADDED);
    fixture_sql(other, "COMMIT");
    PQfinish(other);
    ends_well(generation + 1, ROWS + ADDED);
}

/* Rebuild while the replica has the empty shards of the new generation, but none of the writes to them. */
static void rebuild_cut_off(unsigned node, unsigned d, const char *command)
{
    healing_shut(&f, HEALING_FIRST);
    fixture_ask(&f, d, command);
    await_step("scan");
    clock_sleep_us(200 * 1000);
    healing_cut_off(&f, node);
    healing_open(&f, HEALING_FIRST);
}

/* Blocks and checkpoints of the first rows are only on the master that dies. */
static void fail_over_in_the_scan(bool kill_the_driver)
{
    struct error e = {""};
    unsigned node = healing_other(&f, 1);
    int64_t generation = fixture_generation(&f, 0), missing = 0;
    healing_shut(&f, HEALING_MIDDLE);
    rebuild_cut_off(node, 1, "TB.REBUILD " FILTER);
    must(client_wait_status_least(&f.client[0], FILTER, "job_checkpoint_rows", 5000, HEALING_WAIT_MS, &e), e);
    if (kill_the_driver)
        daemon_kill(&f.daemon[1]);
    add_and_fail_over(node);
    healing_open(&f, HEALING_MIDDLE);
    if (kill_the_driver)
        must(daemon_launch(&f.daemon[1], &e), e);
    fixture_reconnect(&f, 1);
    healing_await(&f, 0, ROWS + ADDED);
    ends_well(generation + 1, ROWS + ADDED);
    must(client_status_number(&f.client[0], FILTER, "job_verify_missing", &missing, &e), e);
    assert_int_equal(missing, 0);
}

static void test_heal__in_the_scan(void **state)
{
    (void)state;
    fail_over_in_the_scan(false);
}

static void test_heal__in_the_scan_when_its_driver_is_gone(void **state)
{
    (void)state;
    fail_over_in_the_scan(true);
}

/* The generation is built and verified, and loses data before it is used. */
static void test_heal__before_the_cutover(void **state)
{
    (void)state;
    unsigned node = healing_other(&f, 0);
    int64_t generation = fixture_generation(&f, 0);
    rebuild_cut_off(node, 0, "TB.REBUILD " FILTER " HOLD");
    await_step("hold");
    add_and_fail_over(node);
    healing_await(&f, 0, ROWS + ADDED);
    await_step("hold");
    fixture_ask(&f, 0, "TB.CUTOVER " FILTER);
    ends_well(generation + 1, ROWS + ADDED);
}

/* The replica lacks all writes of the build, but the coordinators have them in memory. */
static void test_heal__after_the_cutover(void **state)
{
    (void)state;
    unsigned node = healing_other(&f, 1);
    int64_t generation = fixture_generation(&f, 0);
    rebuild_cut_off(node, 0, "TB.REBUILD " FILTER);
    await_step("grace");
    add_and_fail_over(node);
    healing_await(&f, 0, ROWS + ADDED);
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&f, d, 0, ROWS + ADDED);
    await_step("grace");
    fixture_ask(&f, 0, "TB.FINISH " FILTER);
    ends_well(generation + 1, ROWS + ADDED);
}

/* The old generation is current again, and the master of a third of its shards dies. */
static void test_heal__after_a_rollback(void **state)
{
    (void)state;
    unsigned node = healing_other(&f, 0);
    int64_t generation = fixture_generation(&f, 0);
    fixture_ask(&f, 0, "TB.REBUILD " FILTER);
    await_step("grace");
    healing_cut_off(&f, node);
    fixture_ask(&f, 0, "TB.ROLLBACK " FILTER);
    await_step("hold");
    add_and_fail_over(node);
    healing_await(&f, 0, ROWS + ADDED);
    assert_int_equal(fixture_generation(&f, 0), generation);
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&f, d, 0, ROWS + ADDED);
    await_step("hold");
    fixture_ask(&f, 0, "TB.CUTOVER " FILTER);
    await_step("grace");
    fixture_ask(&f, 0, "TB.FINISH " FILTER);
    ends_well(generation + 3,
              ROWS + ADDED); /* it was read before the rollback: its number is not used again */
}

/* The job has ended, and the replica has none of its writes. */
static void test_heal__when_a_build_has_just_ended(void **state)
{
    (void)state;
    unsigned node = healing_other(&f, 1);
    int64_t generation = fixture_generation(&f, 0);
    rebuild_cut_off(node, 0, "TB.REBUILD " FILTER);
    ends_well(generation + 1, ROWS);
    add_and_fail_over(node);
    healing_await(&f, 0, ROWS + ADDED);
    ends_well(generation + 1, ROWS + ADDED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_heal__in_the_settle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heal__in_the_scan, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heal__in_the_scan_when_its_driver_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heal__before_the_cutover, setup, teardown),
        cmocka_unit_test_setup_teardown(test_heal__after_the_cutover, setup_with_grace, teardown),
        cmocka_unit_test_setup_teardown(test_heal__after_a_rollback, setup_with_grace, teardown),
        cmocka_unit_test_setup_teardown(test_heal__when_a_build_has_just_ended, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
