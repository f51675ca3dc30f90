/* SPDX-License-Identifier: MIT */
/* Pages in the order of a table's blocks; and rows with known ids. */
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

static void test_scan_page__reads_the_whole_table_once_by_blocks(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "blocks", 1000);
    database_run(pg, "CREATE TABLE empty (id int PRIMARY KEY, code text)");
    struct source *s = database_source(p, "empty, blocks", NULL);
    struct rows_parts parts = rows_parts(s);
    assert_int_equal(parts.count, 2);
    assert_int_equal(parts.list[0].blocks, 0);
    assert_int_equal(parts.list[1].table, 1);
    assert_string_equal(parts.list[1].name, "public.blocks");
    assert_true(parts.list[1].blocks > 5);
    const size_t sizes[] = {1, 3, parts.list[1].blocks, parts.list[1].blocks + 1};
    for (size_t i = 0; i < 4; i++) {
        struct rows rows = {0};
        struct scan_range range = rows_part_range(&parts, 1);
        (void)rows_read(s, &range, parts.list, sizes[i], rows_note, &rows);
        rows_expect(&rows, 3, 3000);
        assert_string_equal(range.after, range.upto);
    }
    free(parts.list);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__takes_a_range_of_blocks_in_two(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "halves", 1000);
    struct source *s = database_source(p, "halves", "id <> 1500");
    struct rows_parts parts = rows_parts(s);
    struct scan_range ranges[] = {rows_part_range(&parts, 0), rows_part_range(&parts, 0),
                                  rows_part_range(&parts, 0)};
    (void)snprintf(ranges[0].upto, sizeof(ranges[0].upto), "4");
    (void)snprintf(ranges[1].after, sizeof(ranges[1].after), "4");
    (void)snprintf(ranges[2].after, sizeof(ranges[2].after), "999"); /* behind the table's end: no rows */
    struct rows rows = {0};
    for (size_t i = 0; i < 3; i++)
        (void)rows_read(s, &ranges[i], parts.list, 2, rows_note, &rows);
    assert_int_equal(rows.count, 999);
    rows.times[1500]++;
    rows_expect(&rows, 3, 3000);
    free(parts.list);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__says_conflict_when_the_blocks_were_written_anew(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    static const char *const rewrites[] = {"VACUUM FULL anew", "CLUSTER anew USING anew_pkey",
                                           "TRUNCATE anew",
                                           "ALTER TABLE anew ALTER url TYPE varchar(99) USING 'x' || url",
                                           "ALTER TABLE anew RENAME TO old; CREATE TABLE anew (LIKE old)"};
    for (size_t i = 0; i < 5; i++) {
        database_run(pg, "DROP TABLE IF EXISTS anew, old");
        database_short_links(pg, "anew", 1000);
        struct source *s = database_source(p, "anew", NULL);
        struct rows_parts parts = rows_parts(s);
        struct scan_range range = rows_part_range(&parts, 0);
        struct rows seen = {0};
        const struct scan_options o = {
            .limit = 3, .parts = parts.list, .timeout_ms = ROWS_WAIT_MS, .row = rows_note, .arg = &seen};
        struct error e = {0};
        size_t rows = 0;
        bool ended = false;
        must(scan_page(s, &range, &o, &rows, &ended, &e), &e);
        assert_string_equal(range.after, "3");
        database_run(pg, "VACUUM (ANALYZE) anew"); /* moves no row */
        must(scan_page(s, &range, &o, &rows, &ended, &e), &e);
        database_run(pg, "%s", rewrites[i]);
        enum err err = scan_page(s, &range, &o, &rows, &ended, &e);
        if (err != ERR_CHANGED || strstr(e.text, "table public.anew was rewritten") == NULL)
            fail_msg("%s: %s: %s", rewrites[i], error_name(err), e.text);
        assert_string_equal(range.after, "6");
        free(parts.list);
        source_close(s);
    }
    PQfinish(pg);
}

/* Make partitions of partitions. One has its columns in another order, and one is empty. */
static void make_partitions(PGconn *pg)
{
    database_run(
        pg, "CREATE SCHEMA elsewhere;"
            "CREATE TABLE parted (id bigint PRIMARY KEY, code text) PARTITION BY RANGE (id);"
            "CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (600);"
            "CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (600) TO (1200) PARTITION BY HASH "
            "(id);"
            "CREATE TABLE parted_2a PARTITION OF parted_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);"
            "CREATE TABLE elsewhere.\"parted 2b\" PARTITION OF parted_2 FOR VALUES WITH (MODULUS 2, "
            "REMAINDER 1);"
            "CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (1200) TO (1800);"
            "CREATE TABLE parted_4 (pad int, code text, id bigint NOT NULL); ALTER TABLE parted_4 DROP pad;"
            "ALTER TABLE parted ATTACH PARTITION parted_4 FOR VALUES FROM (1800) TO (9000);"
            "INSERT INTO parted SELECT 3 * n, 'c' || 3 * n FROM generate_series(1, 399) AS n;"
            "INSERT INTO parted SELECT 3 * n, 'c' || 3 * n FROM generate_series(600, 1000) AS n;"
            "CREATE TABLE beside (id bigint PRIMARY KEY, code text);"
            "INSERT INTO beside SELECT 3 * n, 'c' || 3 * n FROM generate_series(400, 599) AS n");
}

/* An empty partition is listed, too: positions count the parts, and it may get rows. */
static void test_source_parts__are_the_partitions(void **state)
{
    const struct temp_postgres *p = *state;
    struct source *s = database_source(p, "beside, parted", NULL);
    struct rows_parts parts = rows_parts(s);
    static const char *const names[] = {"public.beside",           "public.parted_1", "public.parted_2a",
                                        "elsewhere.\"parted 2b\"", "public.parted_3", "public.parted_4"};
    assert_int_equal(parts.count, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(parts.list[i].name, names[i]);
        assert_int_equal(parts.list[i].table, i > 0);
        assert_true((parts.list[i].blocks > 0) == (i != 4) && parts.list[i].file[0] != '\0');
    }
    free(parts.list);
    struct rows rows = {0};
    rows_newer(s, NULL, 2, &rows);
    rows_expect(&rows, 3, 3000);
    source_close(s);
}

static struct source *open_as(const struct temp_postgres *p, const char *role, const char *table)
{
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://%s@127.0.0.1:%u/postgres", role, (unsigned)p->port);
    struct source_config config = {.dsn = dsn, .table = table, .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    must(source_check(s, &e), &e);
    return s;
}

static void expect_all(struct source *s)
{
    struct rows rows = {0};
    rows_newer(s, NULL, 1, &rows);
    rows_expect(&rows, 3, 3000);
}

static void test_source_parts__are_whole_tables_for_a_role_that_may_not_read_partitions(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    static const char *const too_little[] = {
        "CREATE ROLE above LOGIN; GRANT SELECT ON beside, parted, parted_1 TO above",
        "GRANT USAGE ON SCHEMA elsewhere TO above",
        "GRANT SELECT (id, code, ctid) ON parted_2a, elsewhere.\"parted 2b\", parted_4, parted_3 TO above",
        ("REVOKE SELECT (code) ON parted_4 FROM above;" /* the key's column */
         "GRANT SELECT (xmin) ON parted_2a, elsewhere.\"parted 2b\", parted_4, parted_3 TO above"),
        ("REVOKE ALL ON SCHEMA elsewhere FROM above;"
         "GRANT SELECT ON ALL TABLES IN SCHEMA public, elsewhere TO above"),
    };
    for (size_t i = 0; i < sizeof(too_little) / sizeof(too_little[0]); i++) {
        database_run(pg, "%s", too_little[i]);
        struct source *s = open_as(p, "above", "beside,parted");
        struct rows_parts parts = rows_parts(s);
        assert_int_equal(parts.count, 2);
        assert_true(parts.list[0].blocks > 0);
        assert_string_equal(parts.list[1].name, "public.parted");
        assert_int_equal(parts.list[1].blocks, 0);
        assert_string_equal(parts.list[1].file, "");
        free(parts.list);
        expect_all(s);
        source_close(s);
    }
    database_run(pg, "GRANT USAGE ON SCHEMA elsewhere TO above");
    struct source *s = open_as(p, "above", "beside,parted");
    struct rows_parts parts = rows_parts(s);
    assert_int_equal(parts.count, 6);
    free(parts.list);
    expect_all(s);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__finds_newer_rows_of_whole_tables(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE ROLE high LOGIN; GRANT SELECT ON beside, parted TO high");
    struct source *s = open_as(p, "high", "beside, parted");
    char horizon[SOURCE_HORIZON_MAX];
    struct error e = {0};
    must(source_horizon(s, horizon, &e), &e);
    database_run(pg, "UPDATE parted SET code = 'c3003' WHERE id = 300;"
                     "UPDATE beside SET code = 'c3006' WHERE id = 1200");
    struct rows rows = {0};
    rows_newer(s, horizon, 1, &rows);
    rows_expect(&rows, 3003, 3006);
    database_run(pg, "UPDATE parted SET code = 'c300' WHERE id = 300;"
                     "UPDATE beside SET code = 'c1200' WHERE id = 1200");
    source_close(s);
    PQfinish(pg);
}

/* --- rows whose ids are known --- */

static void expect_keys_of(const struct temp_postgres *p, const char *id_column, const char *const *ids,
                           size_t count, const char *keys)
{
    struct source_config config = {.dsn = p->dsn,
                                   .table = "other,known",
                                   .id_column = id_column,
                                   .key = "code",
                                   .where = "code <> 'no'"};
    struct source *s = NULL;
    struct buffer got = {0};
    struct error e = {0};
    const struct scan_options o = {.timeout_ms = ROWS_WAIT_MS, .row = rows_join, .arg = &got};
    must(source_open(&s, &config, 10000, &e), &e);
    must(scan_keys_of(s, 1, ids, count, &o, &e), &e);
    assert_string_equal(buffer_text(&got), keys);
    buffer_fini(&got);
    source_close(s);
}

static void test_scan_keys_of__gives_the_keys_of_rows_that_are_there(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE other (id bigint PRIMARY KEY, b text, code text);"
                     "CREATE TABLE known (id bigint PRIMARY KEY, code text);"
                     "INSERT INTO known VALUES (1, 'one'), (2, 'no'), (-3, E'th\\tree'), (4, 'four')");
    static const char *const ids[] = {"-3", "9", "2"}, *const one[] = {"1"};
    expect_keys_of(p, "id", ids, 3, "th\tree|");
    expect_keys_of(p, "id", one, 1, "one|");
    expect_keys_of(p, "id", one, 0, "");
    database_run(pg, "DROP TABLE known;"
                     "CREATE TABLE known (id bigint, b text, code text, PRIMARY KEY (id, b));"
                     "INSERT INTO known VALUES (1, '', 'one'), (1, E'\\t''\\\\', 'two'), (2, '', 'no')");
    static const char *const pairs[] = {"1\t\\t'\\\\", "2\t", "1\tx"}, *const pair[] = {"1\t"};
    expect_keys_of(p, "id,b", pairs, 3, "two|");
    expect_keys_of(p, "id,b", pair, 1, "one|");
    PQfinish(pg);
}

static void count_row(void *arg, const char *key, size_t length)
{
    (void)key;
    (void)length;
    ++*(size_t *)arg;
}

/* The server plans a list of such ids for each partition, in a time that grows with the square of the list: a
 * full batch in one statement would take longer than the default timeout, each time anew. */
static void test_scan_keys_of__reads_many_ids_of_several_columns_in_many_partitions(void **state)
{
    enum { IDS = 1000, DEFAULT_TIMEOUT_MS = 10000 };
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE wide (a int, b int, code text, PRIMARY KEY (a, b)) PARTITION BY HASH (b)");
    for (int from = 0; from < 600; from += 100) /* each transaction within max_locks_per_transaction */
        database_run(pg,
                     "DO $$BEGIN FOR i IN %d..%d LOOP EXECUTE format('CREATE TABLE wide%%s PARTITION OF wide "
                     "FOR VALUES WITH (MODULUS 600, REMAINDER %%s)', i, i); END LOOP; END$$",
                     from, from + 99);
    database_run(pg, "INSERT INTO wide SELECT g, g, 'c' || g FROM generate_series(0, 999) AS g");
    static char texts[IDS][24];
    const char *ids[IDS];
    for (int i = 0; i < IDS; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%d\t%d", i, i);
        ids[i] = texts[i];
    }
    struct source_config config = {.dsn = p->dsn, .table = "wide", .id_column = "a,b", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    size_t rows = 0;
    const struct scan_options o = {.timeout_ms = DEFAULT_TIMEOUT_MS, .row = count_row, .arg = &rows};
    must(source_open(&s, &config, DEFAULT_TIMEOUT_MS, &e), &e);
    must(scan_keys_of(s, 0, ids, IDS, &o, &e), &e);
    assert_int_equal(rows, IDS);
    rows = 0;
    must(scan_keys_of(s, 0, ids, IDS - 1, &o, &e), &e); /* the last statement has fewer */
    assert_int_equal(rows, IDS - 1);
    source_close(s);
    PQfinish(pg);
}

static int setup(void **state)
{
    if (database_setup(state) != 0)
        return -1;
    PGconn *pg = database_connect(*state, "postgres", "test");
    make_partitions(pg);
    PQfinish(pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_page__reads_the_whole_table_once_by_blocks),
        cmocka_unit_test(test_scan_page__takes_a_range_of_blocks_in_two),
        cmocka_unit_test(test_scan_page__says_conflict_when_the_blocks_were_written_anew),
        cmocka_unit_test(test_source_parts__are_the_partitions),
        cmocka_unit_test(test_source_parts__are_whole_tables_for_a_role_that_may_not_read_partitions),
        cmocka_unit_test(test_scan_page__finds_newer_rows_of_whole_tables),
        cmocka_unit_test(test_scan_keys_of__gives_the_keys_of_rows_that_are_there),
        cmocka_unit_test(test_scan_keys_of__reads_many_ids_of_several_columns_in_many_partitions),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
