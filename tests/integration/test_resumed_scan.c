/* SPDX-License-Identifier: MIT */
/* A coordinator dies while it reads the table for a rebuild, and the next one goes on. What the first one has
 * noted no longer fits: no row is missed. */
#include "tests/integration/fixture.h"

#include <stdio.h>

enum { ROWS = 6000, LAST_PART = 200, SCANNED = 1000, CAPACITY = 20000, END_MS = 60000 };

static struct fixture fixture;

/* Rows have code n and id n + 1, as in short_link, and a block holds some five of them. */
static void make_partitions(void)
{
    char sql[900];
    (void)snprintf(
        sql, sizeof(sql),
        "DROP TABLE short_link; "
        "CREATE TABLE short_link (id bigint PRIMARY KEY, code text, url text, deleted_at timestamptz) "
        "PARTITION BY RANGE (id); "
        "CREATE TABLE part_0 PARTITION OF short_link FOR VALUES FROM (-1000) TO (1); "
        "CREATE TABLE part_1 PARTITION OF short_link FOR VALUES FROM (1) TO (%u); "
        "CREATE TABLE part_2 PARTITION OF short_link FOR VALUES FROM (%u) TO (1000000); "
        "INSERT INTO short_link SELECT n + 1, 'c' || n, repeat('u', 1500) "
        "FROM generate_series(0, %u) AS n",
        ROWS - LAST_PART + 1, ROWS - LAST_PART + 1, ROWS - 1);
    fixture_sql(fixture.db, sql);
}

static const char rebuild[] = "lease = 2s\nverify_sample = 1\npage_rows = 100\ncheckpoint_interval = 20ms\n"
                              "readers = 1\nrows_per_second = 2000\n";

static int start(const char *filter, void (*prepare)(struct fixture *f))
{
    return fixture_start(&fixture, &(struct fixture_options){.nodes = 1,
                                                             .daemons = 1,
                                                             .postgres = true,
                                                             .rows = ROWS,
                                                             .capacity = CAPACITY,
                                                             .rate = "0.001",
                                                             .expansion = rebuild,
                                                             .filter = filter,
                                                             .prepare = prepare});
}

static int setup(void **state)
{
    (void)state;
    return start("", NULL);
}

static const char *dsn_of(const char *database)
{
    static char dsn[96];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://postgres@127.0.0.1:%u/%s", (unsigned)fixture.postgres.port,
                   database);
    return dsn;
}

/* Another database of the server, whose catalog is the same, and which has rows with ids below all others. */
static void make_copy(struct fixture *f)
{
    char sql[200];
    fixture_sql(f->db, "CREATE DATABASE copy TEMPLATE postgres");
    PGconn *db = PQconnectdb(dsn_of("copy"));
    assert_int_equal(PQstatus(db), CONNECTION_OK);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE "
                   "SELECT -n, 'c' || (%u + n), '' FROM generate_series(0, %u) AS n",
                   (unsigned)ROWS, LAST_PART - 1);
    fixture_sql(db, sql);
    PQfinish(db);
}

static int setup_copy(void **state)
{
    (void)state;
    return start("", make_copy);
}

static int setup_blocks(void **state)
{
    (void)state;
    int code = start("scan = ctid\n", NULL);
    make_partitions();
    return code;
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

/* Have the coordinator die after a checkpoint in mid-scan. Return the generation before. */
static int64_t die_in_mid_scan(void)
{
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    must(client_wait_status(&fixture.client[0], FILTER, "job_step", "scan", END_MS, &e), e);
    must(client_wait_status_least(&fixture.client[0], FILTER, "job_checkpoint_rows", SCANNED, END_MS, &e), e);
    daemon_kill(&fixture.daemon[0]);
    return before;
}

static void next_goes_on(int64_t before, uint64_t rows)
{
    struct error e = {""};
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, END_MS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "phase", "STEADY", END_MS, &e), e);
    fixture_wait(&fixture, 0, "job_state", "done");
    fixture_all_present(&fixture, 0, 0, rows);
}

static void rewrite(const char *dsn, const char *where)
{
    struct error e = {""};
    char filters[300];
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER
                   "]\ncapacity = %u\nerror_rate = 0.001\ntable = short_link\nid_column = id\n"
                   "key = code\nwhere = %s\ngrace = 500ms\nfollow = no\n",
                   (unsigned)CAPACITY, where);
    const struct daemon_options o = {
        .nodes = fixture.node_list, .dsn = dsn, .expansion = rebuild, .filters = filters};
    must(daemon_rewrite(&fixture.daemon[0], &o, &e), e);
}

/* The first coordinator had another condition, which hid a few rows that it has passed. */
static void test_condition__that_differs_has_the_scan_begin_again(void **state)
{
    (void)state;
    struct error e = {""};
    rewrite(fixture.postgres.dsn, "id > 300");
    must(daemon_reload(&fixture.daemon[0], &e), e);
    int64_t before = die_in_mid_scan();
    rewrite(fixture.postgres.dsn, "deleted_at IS NULL");
    next_goes_on(before, ROWS);
}

static void test_database__that_differs_has_the_scan_begin_again(void **state)
{
    (void)state;
    int64_t before = die_in_mid_scan();
    rewrite(dsn_of("copy"), "deleted_at IS NULL");
    next_goes_on(before, ROWS + LAST_PART);
}

/* Positions count the partitions, so an empty one has its place. */
static void test_partition__that_gets_its_first_row_shifts_no_other(void **state)
{
    (void)state;
    int64_t before = die_in_mid_scan();
    char sql[100];
    (void)snprintf(sql, sizeof(sql), "INSERT INTO short_link VALUES (-5, 'c%u', '')", (unsigned)ROWS);
    fixture_sql(fixture.db, sql);
    next_goes_on(before, ROWS + 1);
}

static void test_partition__that_loses_all_rows_shifts_no_other(void **state)
{
    (void)state;
    fixture_sql(fixture.db,
                "INSERT INTO short_link SELECT -n, 'x' || n, '' FROM generate_series(1, 10) AS n");
    int64_t before = die_in_mid_scan();
    fixture_sql(fixture.db, "DELETE FROM short_link WHERE id < 0");
    fixture_sql(fixture.db, "VACUUM part_0");
    next_goes_on(before, ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_condition__that_differs_has_the_scan_begin_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_database__that_differs_has_the_scan_begin_again, setup_copy,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_partition__that_gets_its_first_row_shifts_no_other, setup_blocks,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_partition__that_loses_all_rows_shifts_no_other, setup_blocks,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
