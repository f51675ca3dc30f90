/* SPDX-License-Identifier: MIT */
/* Filters with a source that are full before an expansion has ended get further layers. */
#include "tests/integration/fixture.h"

#include <inttypes.h>

/* More rows than are counted exactly, as counting would evaluate the gate. */
enum {
    ROWS = 20000,
    CAPACITY = 30000,
    FILLING = 10400 /* some keys look present */,
    STEADY_MS = 60000,
    ABSENT = 40000
};
#define RATE 0.01

static struct fixture fixture;

/* A gate that stops the scan, as in test_takeover.c: one row can only be read while nobody holds an advisory
 * lock. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 10000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static int setup(void **state)
{
    (void)state;
    return fixture_start(&fixture, &(struct fixture_options){
                                       .nodes = 2,
                                       .daemons = 2,
                                       .postgres = true,
                                       .rows = ROWS,
                                       .capacity = CAPACITY,
                                       .rate = "0.01",
                                       .expansion = "lease = 2s\nrows_per_second = 20000\npage_rows = 100\n",
                                       .schema = gate,
                                       .where = "public.gate(id)"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

static void wait_least(unsigned d, const char *field, int64_t value)
{
    struct error e = {""};
    must(client_wait_status_least(&fixture.client[d], FILTER, field, value, STEADY_MS, &e), e);
}

static int64_t number(unsigned d, const char *field)
{
    struct error e = {""};
    int64_t n = 0;
    must(client_status_number(&fixture.client[d], FILTER, field, &n, &e), e);
    return n;
}

/* Add keys only by BF.ADD: the table does not matter for the fill. */
static void add(unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    must(client_madd(&fixture.client[d], FILTER, fixture_code, first, count, &e), e);
}

static void present_everywhere(uint64_t first, uint64_t count)
{
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&fixture, d, first, count);
}

/* At most 1.5 times the configured rate while a generation has layers, and four standard deviations. */
static void rate_is_bounded(unsigned d, double times)
{
    double mean = ABSENT * RATE * times;
    uint64_t most = (uint64_t)(mean + 4 * 25);
    uint64_t positives = fixture_false_positives(&fixture, d, ABSENT);
    if (positives > most)
        fail_msg("%" PRIu64 " false positives of %d, at most %" PRIu64 " expected", positives, ABSENT, most);
}

static void set_gate(bool shut)
{
    fixture_sql(fixture.db, shut ? "SELECT pg_advisory_lock(7)" : "SELECT pg_advisory_unlock(7)");
}

/* The scan hangs, so no expansion ends, and the current generation fills up: it gets a layer, and another
 * one. */
static void test_generation_in_use__gets_a_layer_when_it_is_full_before_the_cutover(void **state)
{
    (void)state;
    enum { FIRST = 100000 };
    int64_t before = fixture_generation(&fixture, 0);
    set_gate(true);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " CAPACITY 100000");
    fixture_wait(&fixture, 1, "job_step", "scan");
    add(0, FIRST, FILLING);
    wait_least(1, "layers", 2);
    assert_int_equal(fixture_generation(&fixture, 1), before);
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, FILLING);
    /* New keys go into the newer layer, and the rate stays bounded. */
    add(1, FIRST + CAPACITY, 8000);
    present_everywhere(FIRST + CAPACITY, 8000);
    fixture_wait(&fixture, 1, "phase", "BUILDING");
    fixture_wait(&fixture, 1, "has_layers", "1");
    rate_is_bounded(0, 1.5);
    rate_is_bounded(1, 1.5);
    set_gate(false);
    fixture_wait(&fixture, 0, "job_state", "done");
    assert_int_equal(fixture_generation(&fixture, 0), before + 1);
    assert_int_equal(number(0, "layers"), 1);
    fixture_wait(&fixture, 0, "has_layers", "0");
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, FILLING);
    present_everywhere(FIRST + CAPACITY, 8000);
    rate_is_bounded(0, 1);
}

/* More rows than planned come during the scan: the new generation has one layer nevertheless, and is rebuilt
 * at once. */
static void test_generation_that_is_built__is_rebuilt_at_once_when_more_comes_than_was_planned(void **state)
{
    (void)state;
    enum { FIRST = 200000 };
    int64_t before = fixture_generation(&fixture, 0);
    set_gate(true);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " CAPACITY 21000");
    fixture_wait(&fixture, 1, "job_step", "scan");
    /* Insert rows, too: a filter with several layers is rebuilt into one at once, which drops keys without
     * rows. */
    fixture_insert(fixture.db, FIRST, 6000);
    add(0, FIRST, 6000);
    set_gate(false);
    fixture_wait(&fixture, 0, "job_state", "done");
    assert_true(fixture_generation(&fixture, 0) > before);
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, 6000);
    wait_least(0, "generation", before + 2);
    fixture_wait(&fixture, 0, "phase", "STEADY");
    assert_int_equal(number(0, "layers"), 1);
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, 6000);
    rate_is_bounded(0, 1.5);
}

/* As above, and the driver is killed: another one goes on from the checkpoint. */
static void test_generation_that_is_built__keeps_its_rows_when_another_driver_goes_on(void **state)
{
    (void)state;
    struct error e = {""};
    enum { FIRST = 300000 };
    int64_t before = fixture_generation(&fixture, 1);
    set_gate(true);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " CAPACITY 21000 HOLD");
    fixture_wait(&fixture, 1, "job_step", "scan");
    add(1, FIRST, 21500);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    set_gate(false);
    fixture_wait(&fixture, 1, "job_step", "hold");
    add(1, FIRST + 50000, 200);
    fixture_ask(&fixture, 1, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 1, "job_state", "done");
    assert_true(fixture_generation(&fixture, 1) > before);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    present_everywhere(0, ROWS);
}

/* No expansion runs: the controller adds the layer. */
static void test_generation_in_use__gets_a_layer_when_no_expansion_may_start(void **state)
{
    (void)state;
    enum { FIRST = 400000 };
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_ask(&fixture, 0, "TB.ABORT " FILTER); /* no expansion starts for ten minutes */
    fixture_wait(&fixture, 0, "job_state", "aborted");
    add(0, FIRST, FILLING);
    fixture_wait(&fixture, 1, "phase", "OVERFLOW");
    wait_least(1, "layers", 2);
    add(1, FIRST + CAPACITY, 8000);
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, FILLING);
    present_everywhere(FIRST + CAPACITY, 8000);
    rate_is_bounded(0, 1.5);
    /* From OVERFLOW an operator's rebuild leads back to one layer. */
    fixture_ask(&fixture, 1, "TB.REBUILD " FILTER " CAPACITY 100000");
    fixture_wait(&fixture, 1, "job_state", "done");
    fixture_wait(&fixture, 1, "phase", "STEADY");
    assert_int_equal(number(1, "layers"), 1);
    present_everywhere(0, ROWS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_generation_in_use__gets_a_layer_when_it_is_full_before_the_cutover),
        TEST(test_generation_that_is_built__is_rebuilt_at_once_when_more_comes_than_was_planned),
        TEST(test_generation_that_is_built__keeps_its_rows_when_another_driver_goes_on),
        TEST(test_generation_in_use__gets_a_layer_when_no_expansion_may_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
