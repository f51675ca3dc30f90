/* SPDX-License-Identifier: MIT */
/* Pages in the order of ids: each row comes once, whatever its id and its key. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

static void test_scan_page__covers_each_row_once_for_any_page_size(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "once", 1000);
    struct source *s = database_source(p, "once", NULL);
    static const size_t sizes[] = {1, 7, 1000, 1001};
    for (size_t i = 0; i < 4; i++) {
        struct rows rows = {0};
        size_t pages = rows_between(s, 0, "", "", sizes[i], rows_note, &rows);
        assert_int_equal(rows.count, 1000);
        assert_int_equal(pages, (1000 + sizes[i] - 1) / sizes[i]);
        rows_expect(&rows, 3, 3000);
    }
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__begins_behind_after_and_ends_with_upto(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "bounds", 1000);
    struct source *s = database_source(p, "bounds", "");
    struct rows rows = {0};
    (void)rows_between(s, 0, "300", "601", 7, rows_note, &rows); /* 601 lies in a gap */
    rows_expect(&rows, 303, 600);
    rows = (struct rows){0};
    (void)rows_between(s, 0, "", "600", 33, rows_note, &rows);
    rows_expect(&rows, 3, 600);
    rows = (struct rows){0};
    assert_int_equal(rows_between(s, 0, "3000", "", 7, rows_note, &rows), 0);
    assert_int_equal(rows_between(s, 0, "600", "300", 7, rows_note, &rows), 0);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__moves_the_range_to_its_last_row_and_stays_at_the_end(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "moves", 10);
    struct source *s = database_source(p, "moves", NULL);
    struct scan_range range = {.after = ""};
    struct rows seen = {0};
    const struct scan_options o = {.limit = 7, .timeout_ms = ROWS_WAIT_MS, .row = rows_note, .arg = &seen};
    struct error e = {0};
    size_t rows = 0;
    bool ended = true;
    must(scan_page(s, &range, &o, &rows, &ended, &e), &e);
    assert_int_equal(rows, 7);
    assert_false(ended);
    assert_string_equal(range.after, "21");
    for (int i = 0; i < 2; i++) { /* the second time, no rows are left */
        must(scan_page(s, &range, &o, &rows, &ended, &e), &e);
        assert_int_equal(rows, i == 0 ? 3 : 0);
        assert_true(ended);
        assert_string_equal(range.after, "30");
    }
    rows_expect(&seen, 3, 30);
    const struct scan_options none = {.timeout_ms = ROWS_WAIT_MS, .row = rows_note, .arg = &seen};
    assert_int_equal(scan_page(s, &range, &none, &rows, &ended, &e), ERR_RANGE);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__reads_the_rows_of_the_condition_only(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "conditional", 1000);
    database_run(pg, "UPDATE conditional SET deleted_at = now() WHERE id > 1500");
    struct source *s = database_source(p, "conditional", "deleted_at IS NULL OR id = 1503 -- with a comment");
    struct rows rows = {0};
    (void)rows_between(s, 0, "", "", 10, rows_note, &rows);
    rows_expect(&rows, 3, 1503);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__hands_out_null_and_empty_keys_as_such(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE holes (id int PRIMARY KEY, code text);"
                     "INSERT INTO holes VALUES (1, 'c9'), (2, NULL), (3, ''), (4, NULL);"
                     "CREATE TABLE raw_holes (id int PRIMARY KEY, code bytea);"
                     "INSERT INTO raw_holes VALUES (1, 'c9'), (2, NULL), (3, ''), (4, NULL)");
    static const char *const tables[] = {"holes", "raw_holes"};
    for (size_t i = 0; i < 2; i++) {
        struct source *s = database_source(p, tables[i], NULL);
        struct rows rows = {0};
        (void)rows_between(s, 0, "", "", 3, rows_note, &rows);
        assert_int_equal(rows.count, 4);
        assert_int_equal(rows.nulls, 2);
        assert_int_equal(rows.empty, 1);
        assert_int_equal(rows.times[9], 1);
        source_close(s);
    }
    PQfinish(pg);
}

/* Expect the keys of a table, each followed by a bar. */
static void expect_keys(const struct temp_postgres *p, const char *table, const char *keys, size_t length)
{
    struct source *s = database_source(p, table, NULL);
    struct buffer got = {0};
    struct error e = {0};
    must(source_check(s, &e), &e);
    (void)rows_between(s, 0, "", "", 2, rows_join, &got);
    if (got.length != length || memcmp(got.data, keys, length) != 0)
        fail_msg("%s: the keys are %s", table, buffer_text(&got));
    buffer_fini(&got);
    source_close(s);
}

static void test_scan_page__gives_the_bytes_that_clients_send_for_every_type(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg,
        "CREATE DOMAIN link AS text; CREATE DOMAIN blob AS bytea;"
        "CREATE TABLE raw (id int PRIMARY KEY, code bytea);"
        "INSERT INTO raw VALUES (1, '\\x00ff00'), (2, '\\x'), (3, '\\x0a'), (4, '\\x5c4e');"
        "CREATE TABLE raw_domain (id int PRIMARY KEY, code blob); INSERT INTO raw_domain VALUES (1, '\\x00');"
        "CREATE TABLE uuids (id int PRIMARY KEY, code uuid);"
        "INSERT INTO uuids VALUES (1, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');"
        "CREATE TABLE numbers (id int PRIMARY KEY, code bigint); INSERT INTO numbers VALUES (1, -42), (2, 7);"
        "CREATE TABLE small (id int PRIMARY KEY, code smallint); INSERT INTO small VALUES (1, 0);"
        "CREATE TABLE chars (id int PRIMARY KEY, code char(5)); INSERT INTO chars VALUES (1, 'ab');"
        "CREATE TABLE varchars (id int PRIMARY KEY, code varchar(9)); INSERT INTO varchars VALUES (1, 'a b "
        "');"
        "CREATE TABLE domains (id int PRIMARY KEY, code link); INSERT INTO domains VALUES (1, U&'\\00fc');"
        "CREATE TABLE escaped (id int PRIMARY KEY, code text); INSERT INTO escaped VALUES "
        "(1, E'\\b\\f\\n\\r\\t\\x0b'), (2, E'\\\\'), (3, E'\\\\N'), (4, E'\\\\.'), (5, E'\\\\x41'), (6, "
        "E'\\\\n\\\\'), "
        "(7, E'a\\x01\\x7f\"\\'');"
        "CREATE TABLE \"Odd \"\"name\" (id int PRIMARY KEY, code text);"
        "INSERT INTO \"Odd \"\"name\" VALUES (1, 'x');");
#define EXPECT_KEYS(table, keys) expect_keys(p, table, keys, sizeof(keys) - 1)
    EXPECT_KEYS("raw", "\0\xff\0||\n|\\N|");
    EXPECT_KEYS("raw_domain", "\0|");
    EXPECT_KEYS("uuids", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|");
    EXPECT_KEYS("numbers", "-42|7|");
    EXPECT_KEYS("small", "0|");
    EXPECT_KEYS("chars", "ab|");
    EXPECT_KEYS("varchars", "a b |");
    EXPECT_KEYS("domains", "\xc3\xbc|");
    EXPECT_KEYS("escaped", "\b\f\n\r\t\v|\\|\\N|\\.|\\x41|\\n\\|a\x01\x7f\"'|");
    EXPECT_KEYS("public.\"Odd \"\"name\"", "x|");
    PQfinish(pg);
}

static void measure(void *arg, const char *key, size_t length)
{
    size_t *all = arg;
    *all += length;
    for (size_t i = 0; i < length; i++)
        if (key[i] != 'k')
            fail_msg("byte %zu of a key is %d", i, key[i]);
}

static void test_scan_page__takes_a_key_of_a_mebibyte(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE long_keys (id int PRIMARY KEY, code text);"
                     "INSERT INTO long_keys SELECT n, repeat('k', 1 << 20) FROM generate_series(1, 3) AS n;"
                     "CREATE TABLE long_raw (id int PRIMARY KEY, code bytea);"
                     "INSERT INTO long_raw SELECT id, code::bytea FROM long_keys");
    static const char *const tables[] = {"long_keys", "long_raw"};
    for (size_t i = 0; i < 2; i++) {
        struct source *s = database_source(p, tables[i], NULL);
        size_t length = 0;
        (void)rows_between(s, 0, "", "", 2, measure, &length);
        assert_int_equal(length, 3 << 20);
        source_close(s);
    }
    PQfinish(pg);
}

/* Read all 500 rows of "walk" up to its last id, with pages of every size that matters. */
static void walk(const struct temp_postgres *p, const char *id_column, const char *wanted_last)
{
    struct source_config config = {.dsn = p->dsn, .table = "walk", .id_column = id_column, .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    char last[SOURCE_ID_MAX];
    must(source_open(&s, &config, 10000, &e), &e);
    must(source_check(s, &e), &e);
    assert_false(source_id_is_integer(s));
    must(source_last_id(s, 0, last, &e), &e);
    if (wanted_last != NULL)
        assert_string_equal(last, wanted_last);
    static const size_t sizes[] = {1, 7, 500};
    for (size_t i = 0; i < 3; i++) {
        struct rows rows = {0};
        (void)rows_between(s, 0, "", last, sizes[i], rows_note, &rows);
        rows_expect(&rows, 3, 1500);
    }
    source_close(s);
}

static void test_scan_page__walks_ids_of_other_types_than_integers(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    static const char *const ids[] = {
        "uuid|gen_random_uuid()",
        "text COLLATE \"C\"|'Id ' || n",
        "text COLLATE \"C\"|chr(1 + n % 300) || n || E'\\b\\f\\n\\r\\t\\x0b\\\\\\'\"\\\\N\\\\.'",
        "text COLLATE \"en-x-icu\"|chr(40 + n % 80) || n || E'\\'\\\\'", /* its order differs from that of its
                                                                            bytes */
        "varchar(20)|md5(n::text)::varchar(20)",
        "char(12)|'x' || n",
        "bytea|decode(md5(n::text), 'hex')",
        "numeric|n / 7.0",
        "date|date '1999-12-31' + n",
        "timestamptz|timestamptz '1999-12-31 23:59:59.999999+02' + n * interval '7 hours 1 microsecond'",
    };
    database_run(pg, "ALTER ROLE postgres SET timezone = 'America/New_York'; ALTER ROLE postgres SET "
                     "datestyle = 'German'");
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        const char *bar = strchr(ids[i], '|');
        database_run(pg, "DROP TABLE IF EXISTS walk; CREATE TABLE walk (id %.*s PRIMARY KEY, code text)",
                     (int)(bar - ids[i]), ids[i]);
        database_run(pg, "INSERT INTO walk SELECT %s, 'c' || 3 * n FROM generate_series(1, 500) AS n",
                     bar + 1);
        bool times = strncmp(ids[i], "timestamptz", 11) == 0; /* one form, whatever the role's settings */
        walk(p, "id", times ? "2000-05-25 18:00:00.000499+00" : NULL);
    }
    database_run(pg, "ALTER ROLE postgres RESET ALL");
    PQfinish(pg);
}

static void test_scan_page__walks_ids_of_several_columns(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    static const char *const ids[] = {
        "tenant text, n int|CASE n % 3 WHEN 0 THEN '' WHEN 1 THEN E'a\\tb' ELSE E'\\\\,\\'\\n' END, n",
        "n int, tenant text|n / 10, repeat('''', n % 10)",
        "day date, \"the, id\" uuid|date '2020-01-01' + n % 5, gen_random_uuid()",
        "a int, b int, c int|n / 100, -(n / 10 % 10), n % 10",
    };
    static const char *const columns[] = {"tenant, n", "n,tenant", "day,\"the, id\"", " a , b , c "};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        const char *bar = strchr(ids[i], '|');
        database_run(pg, "DROP TABLE IF EXISTS walk; CREATE TABLE walk (%.*s, code text, PRIMARY KEY (%s))",
                     (int)(bar - ids[i]), ids[i], columns[i]);
        database_run(pg, "INSERT INTO walk SELECT %s, 'c' || 3 * n FROM generate_series(1, 500) AS n",
                     bar + 1);
        walk(p, columns[i], i == 3 ? "5\t0\t0" : NULL);
    }
    PQfinish(pg);
}

static void test_scan_page__keeps_bounds_of_several_columns(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE pairs (a text, b int, code text, PRIMARY KEY (a, b));"
                     "INSERT INTO pairs SELECT E'\\t' || n / 10, n %% 10, 'c' || 3 * n "
                     "FROM generate_series(10, 99) AS n");
    struct source_config config = {.dsn = p->dsn, .table = "pairs", .id_column = "a,b", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    struct rows rows = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    (void)rows_between(s, 0, "\\t2\t5", "\\t4\t3", 4, rows_note, &rows);
    rows_expect(&rows, 26 * 3, 43 * 3);
    source_close(s);
    PQfinish(pg);
}

/* An escaped byte takes two bytes of a position. */
static void test_scan_page__refuses_an_id_too_long_to_note(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE long_ids (id text PRIMARY KEY, code text);"
                     "INSERT INTO long_ids VALUES (repeat('a', 511), 'c3'), (repeat('i', 512), 'c6'), "
                     "(repeat(E'\\t', 256), 'c9'), ('', 'c12')");
    static const char *const refused[] = {"length(id) = 512", "length(id) = 256", "id = ''"};
    for (size_t i = 0; i < 3; i++) {
        struct source *s = database_source(p, "long_ids", refused[i]);
        struct scan_range range = {.after = ""};
        struct rows seen = {0};
        const struct scan_options o = {
            .limit = 10, .timeout_ms = ROWS_WAIT_MS, .row = rows_note, .arg = &seen};
        struct error e = {0};
        size_t rows = 0;
        bool ended = false;
        assert_int_equal(scan_page(s, &range, &o, &rows, &ended, &e), ERR_RANGE);
        assert_non_null(strstr(e.text, "table public.long_ids"));
        assert_string_equal(range.after, "");
        uint64_t there = 0;
        must(source_rows_estimate(s, &there, &e), &e); /* the connection still works */
        assert_int_equal(there, 1);
        source_close(s);
    }
    struct source *s = database_source(p, "long_ids", "length(id) = 511");
    struct rows rows = {0};
    (void)rows_between(s, 0, "", "", 1, rows_note, &rows);
    rows_expect(&rows, 3, 3);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__reads_the_table_it_was_asked_for(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE first_one (id int PRIMARY KEY, code text); INSERT INTO first_one VALUES "
                     "(1, 'c3'); CREATE TABLE second_one (pad int, code char(9), id int PRIMARY KEY);"
                     "INSERT INTO second_one VALUES (0, 'c6', 1), (0, 'c9', 2)");
    struct source *s = database_source(p, "first_one, second_one", NULL);
    assert_int_equal(source_tables(s), 2);
    struct rows rows = {0};
    (void)rows_between(s, 1, "", "", 1, rows_note, &rows);
    rows_expect(&rows, 6, 9);
    (void)rows_between(s, 0, "", "", 1, rows_note, &rows);
    rows_expect(&rows, 3, 9);
    source_close(s);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_page__covers_each_row_once_for_any_page_size),
        cmocka_unit_test(test_scan_page__begins_behind_after_and_ends_with_upto),
        cmocka_unit_test(test_scan_page__moves_the_range_to_its_last_row_and_stays_at_the_end),
        cmocka_unit_test(test_scan_page__reads_the_rows_of_the_condition_only),
        cmocka_unit_test(test_scan_page__hands_out_null_and_empty_keys_as_such),
        cmocka_unit_test(test_scan_page__gives_the_bytes_that_clients_send_for_every_type),
        cmocka_unit_test(test_scan_page__takes_a_key_of_a_mebibyte),
        cmocka_unit_test(test_scan_page__walks_ids_of_other_types_than_integers),
        cmocka_unit_test(test_scan_page__walks_ids_of_several_columns),
        cmocka_unit_test(test_scan_page__keeps_bounds_of_several_columns),
        cmocka_unit_test(test_scan_page__refuses_an_id_too_long_to_note),
        cmocka_unit_test(test_scan_page__reads_the_table_it_was_asked_for),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
