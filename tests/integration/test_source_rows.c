/* SPDX-License-Identifier: MIT */
/* Number and place of rows: estimates, the last id, cuts, the row of a key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

static uint64_t estimate(const struct temp_postgres *p, const char *table, const char *where)
{
    struct source *s = database_source(p, table, where);
    uint64_t rows = UINT64_MAX;
    struct error e = {0};
    must(source_rows_estimate(s, &rows, &e), &e);
    source_close(s);
    return rows;
}

static void test_source_rows_estimate__is_exact_when_small_and_near_when_large(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "small", 1000);
    database_short_links(pg, "large", 100000);
    database_run(pg, "UPDATE large SET deleted_at = now() WHERE id %% 4 = 0; ANALYZE large; CREATE TABLE "
                     "empty (LIKE small)");
    assert_int_equal(estimate(p, "empty", ""), 0);
    assert_int_equal(estimate(p, "small", ""), 1000);
    assert_int_equal(estimate(p, "small", "id <= 30"), 10);
    uint64_t all = estimate(p, "large", "");
    assert_true(all > 80000 && all < 125000);
    uint64_t live = estimate(p, "large", "deleted_at IS NULL");
    assert_true(live > 60000 && live < 90000);
    PQfinish(pg);
}

static void test_source_rows_estimate__counts_where_nothing_was_analysed(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE fresh (id bigint PRIMARY KEY, code text) WITH (autovacuum_enabled = off);"
                 "INSERT INTO fresh SELECT n, 'c' || n FROM generate_series(1, 50000) AS n;"
                 "CREATE TABLE parts (id bigint PRIMARY KEY, code text) PARTITION BY RANGE (id);"
                 "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (20001) WITH "
                 "(autovacuum_enabled = off);"
                 "CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (20001) TO (99999) WITH "
                 "(autovacuum_enabled = off);"
                 "INSERT INTO parts SELECT n, 'c' || n FROM generate_series(1, 40000) AS n; ANALYZE parts_1");
    char *tuples = database_value(pg, "SELECT reltuples FROM pg_class WHERE relname = 'fresh'");
    assert_string_equal(tuples, "-1");
    free(tuples);
    assert_int_equal(estimate(p, "fresh", ""), 50000);
    assert_int_equal(estimate(p, "fresh", "code LIKE '%7'"), 5000);
    assert_int_equal(estimate(p, "parts", "id % 2 = 0"), 20000);
    PQfinish(pg);
}

static void test_source_rows_estimate__is_that_of_all_tables(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "sum_1", 100);
    database_short_links(pg, "sum_2", 30);
    assert_int_equal(estimate(p, "sum_1, sum_2", "id <= 60"), 40);
    struct source *s = database_source(p, "sum_1, sum_2", NULL);
    struct error e = {0};
    uint64_t rows = 0;
    must(source_table_rows(s, 1, &rows, &e), &e);
    assert_int_equal(rows, 30);
    source_close(s);
    PQfinish(pg);
}

/* --- how they are known --- */

static struct source_rows look(const struct temp_postgres *p, const char *table, const char *where)
{
    struct source *s = database_source(p, table, where);
    struct source_rows rows;
    struct error e = {0};
    must(source_rows_look(s, &rows, &e), &e);
    source_close(s);
    return rows;
}

static void expect_look(const struct temp_postgres *p, const char *table, const char *where,
                        enum source_rows_by by, uint64_t least, uint64_t most)
{
    struct source_rows rows = look(p, table, where);
    if (rows.by != by || rows.margin < least || rows.margin > most)
        fail_msg("%s, %s: %llu rows by %d, margin %llu", table, where, (unsigned long long)rows.rows,
                 (int)rows.by, (unsigned long long)rows.margin);
}

static void test_source_rows_look__says_how_rows_are_known(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "SET default_statistics_target = 100;"
                     "CREATE TABLE known_few (id int PRIMARY KEY, code text);"
                     "INSERT INTO known_few SELECT n, 'c' FROM generate_series(1, 4999) AS n;"
                     "CREATE TABLE known (id int PRIMARY KEY, code text) WITH (autovacuum_enabled = off);"
                     "INSERT INTO known SELECT n, 'c' FROM generate_series(1, 100000) AS n");
    expect_look(p, "known_few", "id % 2 = 0", SOURCE_ROWS_COUNTED, 0, 0);
    expect_look(p, "known", "id % 2 = 0", SOURCE_ROWS_COUNTED, 0, 0); /* no statistics, so counted */
    database_run(pg, "VACUUM known");                                 /* counts rows, samples no column */
    expect_look(p, "known", "", SOURCE_ROWS_PLANNED, 0, 100000);
    expect_look(p, "known", "code = 'd'", SOURCE_ROWS_GUESSED, 0, UINT64_MAX);
    expect_look(p, "known_few, known", "code = 'd'", SOURCE_ROWS_GUESSED, 0, UINT64_MAX);
    database_run(pg, "ANALYZE known");
    expect_look(p, "known", "code = 'c'", SOURCE_ROWS_PLANNED, 0, 100000);
    expect_look(p, "known", "id <= 50000", SOURCE_ROWS_PLANNED, 1100, 101200); /* 4 standard errors of 289 */
    expect_look(p, "known_few, known", "code = 'c'", SOURCE_ROWS_PLANNED, 0, 100000);
    assert_int_equal(look(p, "known_few, known", "code = 'd'").rows / 100, 0);
    PQfinish(pg);
}

/* Wait until the server has counted a session's changes, which happens at the session's end at the latest.
 * Only counted changes are deducted by ANALYZE. */
static void wait_for_changes(PGconn *pg, const char *table, uint64_t wanted)
{
    uint64_t changed = 0;
    for (int i = 0; i < 400 && changed < wanted; i++) {
        char *text = database_value(pg, "SELECT pg_stat_get_mod_since_analyze('%s'::regclass)", table);
        changed = strtoull(text, NULL, 10);
        free(text);
        clock_sleep_us(20000);
    }
    assert_int_equal(changed, wanted);
}

static void test_source_rows_look__does_not_trust_statistics_that_are_old(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE stale (id int PRIMARY KEY, code text) WITH (autovacuum_enabled = off);"
                     "INSERT INTO stale SELECT n, 'c' FROM generate_series(1, 20000) AS n");
    PQfinish(pg);
    pg = database_connect(p, "postgres", "test");
    wait_for_changes(pg, "stale", 20000);
    database_run(pg, "ANALYZE stale");
    expect_look(p, "stale", "code = 'c'", SOURCE_ROWS_PLANNED, 0, 0);
    PGconn *writer = database_connect(p, "postgres", "test");
    database_run(writer, "UPDATE stale SET code = 'd' WHERE id <= 8000");
    PQfinish(writer);
    wait_for_changes(pg, "stale", 8000);
    expect_look(p, "stale", "code = 'c'", SOURCE_ROWS_PLANNED, 8000, 8000);
    database_run(pg, "ANALYZE stale");
    expect_look(p, "stale", "code = 'c'", SOURCE_ROWS_PLANNED, 0, 0);
    assert_in_range(look(p, "stale", "code = 'c'").rows, 11980, 12020);
    PQfinish(pg);
}

static void test_source_rows_margin__is_that_of_a_sample(void **state)
{
    (void)state;
    assert_int_equal(source_rows_margin(0, 0, 0), 0);
    assert_int_equal(source_rows_margin(1000, 20000, 0), 0); /* the sample has all rows */
    assert_int_equal(source_rows_margin(1000, 20000, 70), 70);
    assert_int_equal(source_rows_margin(750000, 1000000, 0), 10000); /* 4 standard errors of 2500 */
    assert_int_equal(source_rows_margin(750000, 1000000, 5), 10005);
    assert_int_equal(source_rows_margin(2000000, 1000000, 0), 0);
    assert_int_equal(source_rows_margin(1, 2, UINT64_MAX), UINT64_MAX);
}

/* --- where --- */

static struct source *open_by(const struct temp_postgres *p, const char *table, const char *id_column)
{
    struct source_config config = {.dsn = p->dsn, .table = table, .id_column = id_column, .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    return s;
}

static void expect_last(const struct temp_postgres *p, const char *table, const char *id_column,
                        const char *wanted)
{
    struct source *s = open_by(p, table, id_column);
    struct error e = {0};
    char last[SOURCE_ID_MAX];
    must(source_last_id(s, 0, last, &e), &e);
    assert_string_equal(last, wanted);
    source_close(s);
}

static void test_source_last_id__is_in_the_form_of_a_position(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE last (a int, b text, code text, PRIMARY KEY (a, b)); CREATE TABLE none (id "
                 "uuid PRIMARY KEY, code text)");
    expect_last(p, "last", "a,b", "");
    expect_last(p, "none", "id", "");
    database_run(pg, "INSERT INTO last VALUES (1, 'z', 'c'), (2, E'\\t\\\\', 'c'), (2, '', 'c')");
    expect_last(p, "last", "a,b", "2\t\\t\\\\");
    database_run(pg, "INSERT INTO last VALUES (3, repeat('x', 510), 'c')");
    struct source *s = open_by(p, "last", "a,b");
    char last[SOURCE_ID_MAX];
    struct error e = {0};
    assert_int_equal(source_last_id(s, 0, last, &e), ERR_RANGE);
    assert_non_null(strstr(e.text, "table public.last: an id of 512 bytes"));
    source_close(s);
    PQfinish(pg);
}

/* Return how many rows there are up to an id where a part ends. */
static uint64_t rows_upto(PGconn *pg, const char *table, const char *condition, const char *id)
{
    char *literal = PQescapeLiteral(pg, id, strlen(id));
    char *text = database_value(pg, "SELECT count(*) FROM %s WHERE %s%s", table, condition, literal);
    uint64_t n = strtoull(text, NULL, 10);
    PQfreemem(literal);
    free(text);
    return n;
}

static void test_source_split__cuts_a_large_table_into_parts_of_about_the_same_size(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE split (id uuid PRIMARY KEY, code text);" /* in random order on disk */
                     "INSERT INTO split SELECT gen_random_uuid(), 'c' FROM generate_series(1, 210000);"
                     "ANALYZE split");
    struct source *s = open_by(p, "split", "id");
    struct error e = {0};
    char ids[16][SOURCE_ID_MAX];
    static const struct {
        unsigned parts, cuts;
    } rows[] = {{1, 0}, {2, 1}, {4, 3}, {16, 3}}; /* a part has at least 50,000 rows */
    for (size_t i = 0; i < 4; i++) {
        unsigned cuts = 99;
        must(source_split(s, 0, rows[i].parts, ids, &cuts, &e), &e);
        assert_int_equal(cuts, rows[i].cuts);
        uint64_t before = 0, wanted = 210000 / (rows[i].cuts + 1);
        for (unsigned k = 0; k < cuts; k++) {
            uint64_t upto = rows_upto(pg, "split", "id <= ", ids[k]);
            if (upto - before < wanted / 2 || upto - before > wanted * 2)
                fail_msg("part %u of %u has %llu rows", k, cuts, (unsigned long long)(upto - before));
            before = upto;
        }
    }
    source_close(s);
    PQfinish(pg);
}

static void test_source_split__cuts_ids_of_several_columns_and_leaves_small_tables_whole(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE split_pairs (a text, b int, code text, PRIMARY KEY (a, b));"
                 "INSERT INTO split_pairs SELECT E'\\t' || n %% 7, n, 'c' FROM generate_series(1, 110000) AS "
                 "n; ANALYZE split_pairs;"
                 "CREATE TABLE split_none (a text, b int, code text, PRIMARY KEY (a, b))");
    database_short_links(pg, "split_small", 40000);
    struct source *s = open_by(p, "split_pairs, split_none", "a,b");
    struct error e = {0};
    char ids[16][SOURCE_ID_MAX];
    unsigned cuts = 99;
    must(source_split(s, 0, 16, ids, &cuts, &e), &e);
    assert_int_equal(cuts, 1);
    assert_memory_equal(ids[0], "\\t", 2);
    const char *tab = strchr(ids[0], '\t');
    assert_non_null(tab);
    size_t all = rows_between(s, 0, "", ids[0], 1000, rows_ignore, NULL);
    assert_true(all > 20 && all < 90); /* pages */
    assert_int_equal(all + rows_between(s, 0, ids[0], "", 1000, rows_ignore, NULL), 111);
    must(source_split(s, 1, 16, ids, &cuts, &e), &e);
    assert_int_equal(cuts, 0);
    source_close(s);
    s = open_by(p, "split_small", "id");
    must(source_split(s, 0, 16, ids, &cuts, &e), &e);
    assert_int_equal(cuts, 0);
    source_close(s);
    PQfinish(pg);
}

/* --- the row of a key --- */

static void expect_finding(struct source *s, const char *key, size_t length, const char *horizon,
                           enum source_finding wanted, const char *wanted_id)
{
    enum source_finding finding = SOURCE_ROW_UNKNOWN;
    char id[64];
    struct error e = {0};
    must(source_find_key(s, key, length, horizon, &finding, id, &e), &e);
    if (finding != wanted || strcmp(id, wanted_id) != 0)
        fail_msg("%.*s: %d of id %s; expected %d of %s", (int)length, key, (int)finding, id, (int)wanted,
                 wanted_id);
}

static void test_source_find_key__knows_the_oldest_row_of_all_tables(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE TABLE find_text (id int PRIMARY KEY, code text, hidden bool DEFAULT false);"
            "CREATE TABLE find_raw (id int PRIMARY KEY, code bytea, hidden bool DEFAULT false);"
            "CREATE TABLE find_char (id int PRIMARY KEY, code char(9), hidden bool DEFAULT false);"
            "INSERT INTO find_text VALUES (1, 'old', false), (2, 'hidden', true), (3, E'x''\\\\', false);"
            "INSERT INTO find_raw VALUES (4, '\\x00ff'), (5, 'both');"
            "INSERT INTO find_char VALUES (6, 'blank')");
    struct source *s = database_source(p, "find_text, find_raw, find_char", "NOT hidden");
    char horizon[SOURCE_HORIZON_MAX];
    struct error e = {0};
    must(source_horizon(s, horizon, &e), &e);
    database_run(pg, "INSERT INTO find_text VALUES (7, 'new'), (8, 'both'), (9, 'old')");
    expect_finding(s, "old", 3, horizon, SOURCE_ROW_OLD, "1");
    expect_finding(s, "new", 3, horizon, SOURCE_ROW_NEW, "7");
    expect_finding(s, "both", 4, horizon, SOURCE_ROW_OLD, "5");
    expect_finding(s, "x'\\", 3, horizon, SOURCE_ROW_OLD, "3");
    expect_finding(s, "blank", 5, horizon, SOURCE_ROW_OLD, "6");
    expect_finding(s, "hidden", 6, horizon, SOURCE_ROW_GONE, "");
    expect_finding(s, "never", 5, horizon, SOURCE_ROW_GONE, "");
    expect_finding(s, "\0\xff", 2, horizon, SOURCE_ROW_OLD, "4");
    expect_finding(s, "\0\xfe", 2, horizon, SOURCE_ROW_UNKNOWN, ""); /* text cannot hold NUL */
    source_close(s);
    PQfinish(pg);
}

static void test_source_find_key__does_not_know_what_takes_too_long(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE find_late (a int, b text, code text, PRIMARY KEY (a, b));"
                     "INSERT INTO find_late VALUES (1, 'x', 'there')");
    struct source_config config = {.dsn = p->dsn, .table = "find_late", .id_column = "a,b", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 400, &e), &e);
    database_run(pg, "BEGIN; LOCK TABLE find_late");
    expect_finding(s, "there", 5, "", SOURCE_ROW_UNKNOWN, "");
    database_run(pg, "COMMIT");
    expect_finding(s, "there", 5, "9999999", SOURCE_ROW_OLD, "(1,x)");
    source_close(s);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_rows_estimate__is_exact_when_small_and_near_when_large),
        cmocka_unit_test(test_source_rows_estimate__counts_where_nothing_was_analysed),
        cmocka_unit_test(test_source_rows_estimate__is_that_of_all_tables),
        cmocka_unit_test(test_source_rows_look__says_how_rows_are_known),
        cmocka_unit_test(test_source_rows_look__does_not_trust_statistics_that_are_old),
        cmocka_unit_test(test_source_rows_margin__is_that_of_a_sample),
        cmocka_unit_test(test_source_last_id__is_in_the_form_of_a_position),
        cmocka_unit_test(test_source_split__cuts_a_large_table_into_parts_of_about_the_same_size),
        cmocka_unit_test(test_source_split__cuts_ids_of_several_columns_and_leaves_small_tables_whole),
        cmocka_unit_test(test_source_find_key__knows_the_oldest_row_of_all_tables),
        cmocka_unit_test(test_source_find_key__does_not_know_what_takes_too_long),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
