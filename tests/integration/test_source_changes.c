/* SPDX-License-Identifier: MIT */
/* The source changes while a filter is rebuilt from it: tables are replaced, rows move. In each variation
 * every row of the table that has the name in the end is present. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 6000, SCANNED = 2000, CAPACITY = 20000, END_MS = 60000, EARLIER = 1000000 };

static struct fixture fixture;

/* --- the source --- */

/* Make a table of links with the ids 1 .. @rows. Its codes begin at @first. */
static void make_table(const char *name, unsigned first, unsigned rows)
{
    char sql[600];
    (void)snprintf(sql, sizeof(sql),
                   "DROP TABLE IF EXISTS %s CASCADE; CREATE TABLE %s (id bigint PRIMARY KEY, "
                   "code text, url text, deleted_at timestamptz); INSERT INTO %s "
                   "SELECT n, 'c' || %u + n, '' FROM generate_series(1, %u) AS n",
                   name, name, name, first, rows);
    fixture_sql(fixture.db, sql);
}

/* Every row that the table has now is present, and there are @wanted rows. */
static void every_row_is_present(unsigned wanted)
{
    PGresult *r = PQexec(fixture.db, "SELECT code FROM short_link WHERE deleted_at IS NULL");
    unsigned absent = 0;
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    assert_int_equal(PQntuples(r), wanted);
    for (int i = 0; i < PQntuples(r); i++) {
        struct error e = {""};
        int64_t present = 0;
        must(client_integer(&fixture.client[0], &present, &e, "BF.EXISTS " FILTER " %s", PQgetvalue(r, i, 0)),
             e);
        absent += present != 1;
    }
    PQclear(r);
    if (absent > 0)
        fail_msg("%u of %u rows are absent", absent, wanted);
}

/* --- a rebuild --- */

/* Make rows that no generation had before. Return where codes begin that no row has. */
static unsigned fresh_rows(void)
{
    static unsigned next = EARLIER;
    make_table("short_link", next, ROWS);
    next += 10 * ROWS;
    return next - 9 * ROWS;
}

/* Start a rebuild, and wait until a part of the rows was read. Return the generation before. */
static int64_t rebuild_to_mid_scan(void)
{
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_step", "scan", END_MS, &e), e);
    must(client_wait_status_least(&fixture.client[0], FILTER, "job_rows", SCANNED, END_MS, &e), e);
    return before;
}

static void expect_end(int64_t before, const char *state)
{
    struct error e = {""};
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, END_MS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "phase", "STEADY", END_MS, &e), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", state, END_MS, &e), e);
}

static void change_in_mid_scan(const char *sql, unsigned rows)
{
    int64_t before = rebuild_to_mid_scan();
    fixture_sql(fixture.db, sql);
    expect_end(before, "done");
    every_row_is_present(rows);
}

/* --- another table has the name --- */

#define SWAP "ALTER TABLE short_link RENAME TO earlier; ALTER TABLE other RENAME TO short_link;"
#define SWAP_BACK "ALTER TABLE short_link RENAME TO other; ALTER TABLE earlier RENAME TO short_link;"

static void test_rename__in_mid_scan_has_the_build_begin_again(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("other", first, ROWS);
    change_in_mid_scan("BEGIN;" SWAP "COMMIT", ROWS);
}

/* A rename without a transaction leaves a moment without the table. */
static void test_rename__that_leaves_a_gap_is_waited_for(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("other", first, ROWS);
    int64_t before = rebuild_to_mid_scan();
    fixture_sql(fixture.db, "ALTER TABLE short_link RENAME TO earlier");
    clock_sleep_us(700 * 1000);
    fixture_sql(fixture.db, "ALTER TABLE other RENAME TO short_link");
    expect_end(before, "done");
    every_row_is_present(ROWS);
}

static void test_rename__that_leaves_a_gap_does_not_keep_an_operator_waiting(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    (void)rebuild_to_mid_scan();
    fixture_sql(fixture.db, "ALTER TABLE short_link RENAME TO earlier");
    clock_sleep_us(1000 * 1000);
    must(client_ok(&fixture.client[0], &e, "TB.ABORT " FILTER), e);
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", "aborted", END_MS, &e), e);
    fixture_sql(fixture.db, "ALTER TABLE earlier RENAME TO short_link");
}

static void test_rename__and_back_is_seen(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("other", first, ROWS);
    int64_t before = rebuild_to_mid_scan();
    fixture_sql(fixture.db, "BEGIN;" SWAP "COMMIT");
    clock_sleep_us(300 * 1000);
    fixture_sql(fixture.db, "BEGIN;" SWAP_BACK "COMMIT");
    expect_end(before, "done");
    every_row_is_present(ROWS);
}

/* The new driver compares the table with what the dead driver had noted. */
static void test_rename__while_no_coordinator_runs_is_seen_by_the_next(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    struct error e = {""};
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("other", first, ROWS);
    int64_t before = rebuild_to_mid_scan();
    daemon_kill(&fixture.daemon[0]);
    fixture_sql(fixture.db, "BEGIN;" SWAP "COMMIT");
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    expect_end(before, "done");
    every_row_is_present(ROWS);
}

/* --- the table is another one by itself --- */

static void test_truncate__and_lower_ids_are_found(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    char sql[300];
    (void)snprintf(sql, sizeof(sql),
                   "BEGIN; TRUNCATE short_link; INSERT INTO short_link SELECT n, 'c' || %u + n, '' "
                   "FROM generate_series(1, 500) AS n; COMMIT",
                   first);
    change_in_mid_scan(sql, 500);
}

/* Without a sweep, a scan by ids does not look again at what lies below its position. */
static void test_truncate__is_noticed_without_a_sweep(void **state)
{
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".sweep no");
    test_truncate__and_lower_ids_are_found(state);
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".sweep yes");
}

/* In a scan by blocks, a position belongs to one file. */
static void test_blocks__of_another_file_have_the_build_begin_again(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("other", first, ROWS);
    fixture_sql(
        fixture.db,
        "ALTER TABLE short_link ADD COLUMN wide text; UPDATE short_link SET wide = repeat('x', 1500)");
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".scan ctid");
    change_in_mid_scan("VACUUM FULL short_link", ROWS);
    change_in_mid_scan("BEGIN;" SWAP "COMMIT", ROWS);
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".scan keyset");
}

static void test_type__of_the_key_changes_what_the_keys_are(void **state)
{
    (void)state;
    (void)fresh_rows();
    change_in_mid_scan("ALTER TABLE short_link ALTER COLUMN code TYPE varchar(40) USING 'x' || code", ROWS);
}

static void test_type__of_the_id_changes_its_order(void **state)
{
    (void)state;
    (void)fresh_rows();
    change_in_mid_scan("ALTER TABLE short_link ALTER COLUMN id TYPE text", ROWS);
}

static void test_columns__that_change_names_change_the_keys(void **state)
{
    (void)state;
    (void)fresh_rows();
    fixture_sql(fixture.db,
                "ALTER TABLE short_link ADD COLUMN short text; UPDATE short_link SET short = 's' || code");
    change_in_mid_scan("BEGIN; ALTER TABLE short_link RENAME COLUMN code TO long; "
                       "ALTER TABLE short_link RENAME COLUMN short TO code; COMMIT",
                       ROWS);
}

/* --- rows by other ways --- */

static void test_rows__that_copy_and_triggers_bring_are_found(void **state)
{
    (void)state;
    unsigned first = fresh_rows();
    char sql[900];
    (void)snprintf(
        sql, sizeof(sql),
        "CREATE OR REPLACE FUNCTION twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO short_link VALUES (new.id - 100000, 'c' || %u + new.id::int, ''); RETURN NULL; END $$; "
        "CREATE TRIGGER twice AFTER INSERT ON short_link FOR EACH ROW WHEN (new.id > -1000) "
        "EXECUTE FUNCTION twice()",
        first + 100000);
    fixture_sql(fixture.db, sql);
    int64_t before = rebuild_to_mid_scan();
    (void)snprintf(sql, sizeof(sql),
                   "COPY short_link (id, code, url) FROM PROGRAM "
                   "'seq 1 200 | sed \"s/.*/-&\\tc&%u\\t-/\"'",
                   first);
    fixture_sql(fixture.db, sql);
    expect_end(before, "done");
    every_row_is_present(ROWS + 400);
}

/* --- partitions --- */

static void make_partitions(unsigned first)
{
    char sql[900];
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS short_link, part_1, part_2, part_3 CASCADE");
    (void)snprintf(
        sql, sizeof(sql),
        "CREATE TABLE short_link (id bigint PRIMARY KEY, code text, url text, deleted_at timestamptz) "
        "PARTITION BY RANGE (id); "
        "CREATE TABLE part_1 PARTITION OF short_link FOR VALUES FROM (1001) TO (4001); "
        "CREATE TABLE part_2 PARTITION OF short_link FOR VALUES FROM (4001) TO (7001); "
        "CREATE TABLE part_3 (LIKE short_link INCLUDING ALL); "
        "INSERT INTO short_link SELECT n, 'c' || %u + n, '' FROM generate_series(1001, 7000) AS n; "
        "INSERT INTO part_3 SELECT n, 'c' || %u + n, '' FROM generate_series(1, 1000) AS n",
        first, first);
    fixture_sql(fixture.db, sql);
}

static void test_partition__with_lower_ids_is_attached(void **state)
{
    (void)state;
    make_partitions(fresh_rows());
    change_in_mid_scan("ALTER TABLE short_link ATTACH PARTITION part_3 FOR VALUES FROM (1) TO (1001)",
                       ROWS + 1000);
}

static void test_partition__is_away_while_the_scan_passes(void **state)
{
    (void)state;
    make_partitions(fresh_rows());
    int64_t before = rebuild_to_mid_scan();
    fixture_sql(fixture.db, "ALTER TABLE short_link DETACH PARTITION part_2");
    clock_sleep_us(300 * 1000);
    fixture_sql(fixture.db,
                "ALTER TABLE short_link ATTACH PARTITION part_2 FOR VALUES FROM (4001) TO (7001)");
    expect_end(before, "done");
    every_row_is_present(ROWS);
}

/* No index covers the ids of a table and its children, so nobody could read them in order. */
static void test_children__by_inheritance_end_a_build_that_would_begin_again(void **state)
{
    (void)state;
    struct error e = {""};
    char text[600], sql[400];
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS child");
    (void)snprintf(sql, sizeof(sql),
                   "CREATE TABLE child (LIKE short_link INCLUDING ALL); "
                   "INSERT INTO child SELECT -n, 'c' || %u + n, '' FROM generate_series(1, 100) AS n",
                   first);
    fixture_sql(fixture.db, sql);
    int64_t before = rebuild_to_mid_scan();
    fixture_sql(fixture.db, "ALTER TABLE child INHERIT short_link");
    must(client_wait_status(&fixture.client[0], FILTER, "job_state", "failed", END_MS, &e), e);
    must(client_status(&fixture.client[0], FILTER, "job_error", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "has children by inheritance"));
    assert_int_equal(fixture_generation(&fixture, 0), before);
    fixture_sql(fixture.db, "DROP TABLE child");
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    expect_end(before, "done");
    every_row_is_present(ROWS);
}

static unsigned times(const char *event)
{
    char *log = process_log(&fixture.daemon[0].process);
    unsigned n = 0;
    assert_non_null(log);
    for (const char *at = strstr(log, event); at != NULL; at = strstr(at + 1, event))
        n++;
    free(log);
    return n;
}

/* Attach nine partitions whose ids are lower than those that the scan has passed. Each partition is filled
 * before. */
static void attach_new_partitions_in_mid_scan(void)
{
    unsigned first = fresh_rows();
    char sql[500];
    make_partitions(first);
    int64_t before = rebuild_to_mid_scan();
    for (unsigned i = 0; i < 9; i++) {
        (void)snprintf(sql, sizeof(sql),
                       "CREATE TABLE new_%u (LIKE short_link INCLUDING ALL); "
                       "INSERT INTO new_%u SELECT n, 'c' || %u + n, '' FROM generate_series(%u, %u) AS n; "
                       "ALTER TABLE short_link ATTACH PARTITION new_%u FOR VALUES FROM (%u) TO (%u)",
                       i, i, first, i * 100 + 1, i * 100 + 100, i, i * 100 + 1, i * 100 + 101);
        fixture_sql(fixture.db, sql);
        clock_sleep_us(100 * 1000);
    }
    expect_end(before, "done");
    every_row_is_present(ROWS + 900);
    fixture_sql(fixture.db, "DROP TABLE short_link CASCADE");
}

static void test_partition__that_is_new_does_not_have_the_build_begin_again(void **state)
{
    (void)state;
    unsigned changes = times("event=source_changed");
    attach_new_partitions_in_mid_scan();
    assert_int_equal(times("event=source_changed"), changes);
}

/* Without a sweep, nothing looks for rows with lower ids. */
static void test_partition__that_is_new_is_noticed_without_a_sweep(void **state)
{
    (void)state;
    unsigned changes = times("event=source_changed");
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".sweep no");
    attach_new_partitions_in_mid_scan();
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".sweep yes");
    assert_true(times("event=source_changed") > changes);
}

/* --- after the cutover --- */

/* Transactions that follow one another, so that one is open at every moment. Each wait for transactions lasts
 * for a while. */
struct rota {
    PGconn *db[2];
    unsigned turn;
};

static void rota_begin(struct rota *r)
{
    for (unsigned i = 0; i < 2; i++)
        r->db[i] = PQconnectdb(fixture.postgres.dsn);
    r->turn = 0;
    fixture_sql(r->db[0], "BEGIN");
    fixture_sql(r->db[0], "DO $$BEGIN PERFORM pg_current_xact_id(); END$$");
}

static void rota_turn(struct rota *r)
{
    r->turn = 1 - r->turn;
    fixture_sql(r->db[r->turn], "BEGIN");
    fixture_sql(r->db[r->turn], "DO $$BEGIN PERFORM pg_current_xact_id(); END$$");
    clock_sleep_us(200 * 1000);
    fixture_sql(r->db[1 - r->turn], "COMMIT");
}

static void rota_end(struct rota *r)
{
    fixture_sql(r->db[r->turn], "COMMIT");
    for (unsigned i = 0; i < 2; i++)
        PQfinish(r->db[i]);
}

/* Rebuild up to the job's last catch-up, in which the job waits for a transaction. */
static int64_t rebuild_behind_the_cutover(struct rota *r)
{
    struct error e = {""};
    char phase[40] = "";
    int64_t before = fixture_generation(&fixture, 0);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER), e);
    rota_begin(r);
    for (int i = 0; i < 200 && strcmp(phase, "SWITCHED") != 0; i++) {
        rota_turn(r);
        must(client_status(&fixture.client[0], FILTER, "phase", phase, sizeof(phase), &e), e);
    }
    assert_string_equal(phase, "SWITCHED");
    return before;
}

static void expect_healed(int64_t before, unsigned rows)
{
    struct error e = {""};
    char text[600];
    expect_end(before, "healed");
    every_row_is_present(rows);
    must(client_status(&fixture.client[0], FILTER, "job_error", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "after the cutover"));
    redisReply *r = client_command(&fixture.client[0], "TB.HISTORY " FILTER);
    assert_non_null(r);
    bool told = false;
    for (size_t i = 0; r->elements > 0 && i < r->element[0]->elements; i++)
        told |=
            r->element[0]->element[i]->str != NULL && strcmp(r->element[0]->element[i]->str, "healed") == 0;
    freeReplyObject(r);
    assert_true(told);
}

static void test_rename__after_the_cutover_is_healed_and_said(void **state)
{
    (void)state;
    struct rota r;
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("other", first, ROWS);
    int64_t before = rebuild_behind_the_cutover(&r);
    fixture_sql(fixture.db, "BEGIN;" SWAP "COMMIT");
    rota_end(&r);
    expect_healed(before, ROWS);
}

#define VISIBLE "CREATE OR REPLACE FUNCTION visible(bigint) RETURNS boolean LANGUAGE sql AS $$SELECT "

/* The rows were in the table all the time, but the condition hid most of them. */
static void test_verify__that_fails_after_the_cutover_is_healed_and_said(void **state)
{
    (void)state;
    struct rota r;
    (void)fresh_rows();
    fixture_sql(fixture.db, VISIBLE "$1 % 1000 = 0$$");
    int64_t before = rebuild_behind_the_cutover(&r);
    fixture_sql(fixture.db, VISIBLE "true$$");
    rota_end(&r);
    expect_healed(before, ROWS);
}

/* A source that changes again and again cannot be read, so the filter is rolled back to the former
 * generation. */
static void test_rename__again_and_again_after_the_cutover_rolls_back(void **state)
{
    (void)state;
    struct rota r;
    struct error e = {""};
    char job[40] = "";
    unsigned first = fresh_rows();
    fixture_sql(fixture.db, "DROP TABLE IF EXISTS earlier");
    make_table("short_link", first, ROWS / 20);
    make_table("other", first + ROWS, ROWS / 20);
    int64_t before = rebuild_behind_the_cutover(&r);
    for (int i = 0; i < 100 && strcmp(job, "failed") != 0; i++) {
        fixture_sql(fixture.db, i % 2 == 0 ? "BEGIN;" SWAP "COMMIT" : "BEGIN;" SWAP_BACK "COMMIT");
        rota_turn(&r);
        must(client_status(&fixture.client[0], FILTER, "job_state", job, sizeof(job), &e), e);
    }
    rota_end(&r);
    assert_string_equal(job, "failed");
    must(client_wait_status(&fixture.client[0], FILTER, "phase", "STEADY", END_MS, &e), e);
    assert_int_equal(fixture_generation(&fixture, 0), before);
}

/* --- the way to it --- */

static bool warns_of(const char *dsn)
{
    struct error e = {""};
    struct daemon d = {.port = 0};
    const struct daemon_options o = {.nodes = fixture.node_list, .dsn = dsn};
    must(daemon_start(&d, &o, &e), e);
    char *log = process_log(&d.process);
    bool warns = strstr(log, "level=warn event=postgres_tls_unverified key=dsn") != NULL;
    free(log);
    assert_true(daemon_fini(&d));
    return warns;
}

static void test_dsn__without_a_certificate_that_is_checked_is_warned_of(void **state)
{
    (void)state;
    assert_true(warns_of("postgresql://app@192.0.2.1/links?connect_timeout=2"));
    assert_false(warns_of("postgresql://app@192.0.2.1/links?connect_timeout=2&sslmode=verify-full"));
    assert_false(warns_of(fixture.postgres.dsn));
}

/* --- all --- */

static int setup(void **state)
{
    (void)state;
    return fixture_start(
        &fixture,
        &(struct fixture_options){
            .nodes = 1,
            .daemons = 1,
            .postgres = true,
            .rows = 100,
            .capacity = CAPACITY,
            .rate = "0.001",
            .where = "deleted_at IS NULL AND public.visible(id::text::bigint)",
            .schema = VISIBLE "true$$",
            .expansion = "lease = 5s\nverify_sample = 1\npage_rows = 100\ncheckpoint_interval = 100ms\n"
                         "readers = 1\nrows_per_second = 4000\n"});
}

static int teardown(void **state)
{
    (void)state;
    return fixture_stop(&fixture);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rename__in_mid_scan_has_the_build_begin_again),
        cmocka_unit_test(test_rename__that_leaves_a_gap_is_waited_for),
        cmocka_unit_test(test_rename__that_leaves_a_gap_does_not_keep_an_operator_waiting),
        cmocka_unit_test(test_rename__and_back_is_seen),
        cmocka_unit_test(test_rename__while_no_coordinator_runs_is_seen_by_the_next),
        cmocka_unit_test(test_truncate__and_lower_ids_are_found),
        cmocka_unit_test(test_truncate__is_noticed_without_a_sweep),
        cmocka_unit_test(test_blocks__of_another_file_have_the_build_begin_again),
        cmocka_unit_test(test_type__of_the_key_changes_what_the_keys_are),
        cmocka_unit_test(test_type__of_the_id_changes_its_order),
        cmocka_unit_test(test_columns__that_change_names_change_the_keys),
        cmocka_unit_test(test_rows__that_copy_and_triggers_bring_are_found),
        cmocka_unit_test(test_partition__with_lower_ids_is_attached),
        cmocka_unit_test(test_partition__is_away_while_the_scan_passes),
        cmocka_unit_test(test_children__by_inheritance_end_a_build_that_would_begin_again),
        cmocka_unit_test(test_partition__that_is_new_does_not_have_the_build_begin_again),
        cmocka_unit_test(test_partition__that_is_new_is_noticed_without_a_sweep),
        cmocka_unit_test(test_rename__after_the_cutover_is_healed_and_said),
        cmocka_unit_test(test_rename__again_and_again_after_the_cutover_rolls_back),
        cmocka_unit_test(test_dsn__without_a_certificate_that_is_checked_is_warned_of),
        cmocka_unit_test(test_verify__that_fails_after_the_cutover_is_healed_and_said),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, teardown);
}
