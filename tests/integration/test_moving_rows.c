/* SPDX-License-Identifier: MIT */
/* `scan = ctid` while UPDATEs move rows behind the blocks that are read. A rebuild misses none of them. */
#include "tests/integration/fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"

enum { ROWS = 600, LATE = 30 };

static struct fixture fixture;
static struct temp_postgres standby;
static atomic_bool stop;
static atomic_uint moves;

/* Three rows fill a block, so an UPDATE moves them. A reader takes a while for each row that is moved; or, as
 * all connections of a job do, for each of the first rows. */
static const char schema[] =
    "CREATE FUNCTION slow(id bigint) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN "
    "IF id > 540 AND current_setting('application_name') = 'twinbloom reader' THEN PERFORM pg_sleep(0.02); "
    "END IF; RETURN true; END $$;"
    "CREATE FUNCTION slow_at_first(id bigint) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN "
    "IF id <= 60 AND current_setting('application_name') LIKE 'twinbloom %' THEN PERFORM pg_sleep(0.02); "
    "END IF; RETURN true; END $$;"
    "ALTER TABLE short_link ADD pad text, ADD n int, ALTER pad SET STORAGE PLAIN;"
    "ALTER TABLE short_link SET (autovacuum_enabled = off);"
    "UPDATE short_link SET pad = repeat('x', 2500)";

static int setup(void **state)
{
    (void)state;
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1,
                                                            .postgres = true,
                                                            .rows = ROWS,
                                                            .schema = schema,
                                                            .settings = "max_standby_streaming_delay = 0\n"});
    fixture_sql(fixture.db, "VACUUM FULL short_link");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    int stopped = fixture_stop(&fixture);
    temp_postgres_fini(&standby);
    return stopped;
}

static void start_daemon(const char *postgres, const char *where, const char *expansion)
{
    struct error e = {""};
    char filters[300];
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\ngrace = 0s\nfollow = no\nscan = ctid\nsweep = no\n"
                   "where = %s\n",
                   where);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = fixture.postgres.dsn,
                                     .postgres = postgres,
                                     .expansion = expansion,
                                     .filters = filters};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture.daemons = 1;
    fixture_reconnect(&fixture, 0);
    fixture_wait(&fixture, 0, "built", "1");
    fixture_wait(&fixture, 0, "job_state", "done");
}

static const char moving[] = "UPDATE short_link SET n = 1 WHERE id > 540";
static char moving_late[] = "UPDATE short_link SET n = 1 WHERE id > 600";

static void *move(void *arg)
{
    PGconn *db = PQconnectdb(fixture.postgres.dsn);
    const char *sql = arg == NULL ? moving : arg;
    while (!atomic_load(&stop)) {
        PQclear(PQexec(db, sql));
        (void)atomic_fetch_add(&moves, 1);
        clock_sleep_us(5000);
    }
    PQfinish(db);
    return NULL;
}

/* Rebuild; the rows begin to move at @step. */
static void rebuild(const char *step)
{
    pthread_t thread;
    atomic_store(&stop, false);
    atomic_store(&moves, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "scan");
    fixture_sql(fixture.db, moving);
    fixture_wait(&fixture, 0, "job_step", step);
    assert_int_equal(pthread_create(&thread, NULL, move, NULL), 0);
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 0, "job_state", "done");
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    assert_true(atomic_load(&moves) > 10);
    fixture_all_present(&fixture, 0, 0, ROWS);
}

static void test_job__misses_no_row_that_moves(void **state)
{
    (void)state;
    start_daemon("", "public.slow(t.id)", "");
    rebuild("scan");
}

/* After the cutover the table changes, so all rows are compared. Rows that came meanwhile, and that nobody
 * has added, move behind the blocks that are read. */
static void test_comparison_after_the_cutover__misses_no_row_that_moves(void **state)
{
    (void)state;
    pthread_t thread;
    start_daemon("", "public.slow_at_first(t.id)", "readers = 1\n"); /* who reads page after page */
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "confirm");
    fixture_insert(fixture.db, ROWS, LATE);
    fixture_sql(fixture.db, "UPDATE short_link SET pad = repeat('x', 2500) WHERE id > 600");
    fixture_sql(fixture.db, "ALTER TABLE short_link ADD extra int"); /* waits for the sample */
    atomic_store(&stop, false);
    atomic_store(&moves, 0);
    assert_int_equal(pthread_create(&thread, NULL, move, moving_late), 0);
    fixture_wait(&fixture, 0, "job_state", "healed");
    atomic_store(&stop, true);
    (void)pthread_join(thread, NULL);
    assert_true(atomic_load(&moves) > 10);
    fixture_all_present(&fixture, 0, 0, ROWS + LATE);
}

/* There, what the primary has removed ends a statement with an old snapshot. Then the primary is read. */
static void test_job__ends_though_a_standby_keeps_no_snapshot(void **state)
{
    (void)state;
    struct error e = {""};
    char postgres[200];
    must(temp_postgres_start_standby(&standby, &fixture.postgres, &e), e);
    (void)snprintf(postgres, sizeof(postgres), "read_dsn = %s\n", standby.dsn);
    start_daemon(postgres, "public.slow(t.id)", "");
    rebuild("catch_up");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_job__misses_no_row_that_moves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_comparison_after_the_cutover__misses_no_row_that_moves, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_job__ends_though_a_standby_keeps_no_snapshot, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
