/* SPDX-License-Identifier: MIT */
/* Exactly the rows newer or older than a horizon, whichever transaction wrote them; and samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

/* The horizon must find the rows that get keys above 3000, and no others. */
static void test_scan_page__finds_exactly_the_rows_newer_than_a_horizon(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test"), *early = database_connect(p, "postgres", "early");
    database_short_links(pg, "young", 1000);
    struct source *s = database_source(p, "young", NULL);
    char horizon[SOURCE_HORIZON_MAX];
    struct error e = {0};
    database_run(early,
                 "BEGIN; INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (1, 'c1', '')");
    database_run(pg, "UPDATE young SET url = 'before' WHERE id <= 30"); /* ends before the horizon is taken */
    must(source_horizon(s, horizon, &e), &e);
    struct rows rows = {0};
    rows_newer(s, horizon, 4, &rows);
    assert_int_equal(rows.count, 0);
    database_run(early, "COMMIT"); /* got its transaction id before the horizon */
    static const char *const writes[] = {
        "INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (3001, 'c3003', ''), (2, 'c3006', "
        "'')",
        "UPDATE young SET code = 'c3009' WHERE id = 600",
        "UPDATE young SET code = 'c3012' WHERE id = 603; UPDATE young SET url = 'twice' WHERE id = 603",
        "DELETE FROM young WHERE id = 606; INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE "
        "VALUES (606, 'c3015', '')",
        "INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (609, 'lost', '') "
        "ON CONFLICT (id) DO UPDATE SET code = 'c3018'",
        "BEGIN; SAVEPOINT a; INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (4, 'c3021', "
        "'');"
        "SAVEPOINT b; INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (5, 'c3024', '');"
        "RELEASE b; SAVEPOINT c; INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (7, 'c7', "
        "'x');"
        "ROLLBACK TO c; COMMIT",
        "BEGIN; INSERT INTO young (id, code, url) OVERRIDING SYSTEM VALUE VALUES (8, 'c4', ''); ROLLBACK",
        "DELETE FROM young WHERE id = 612",
        "BEGIN; SELECT * FROM young WHERE id = 615 FOR UPDATE; COMMIT", /* writes the lock, not the row */
        "VACUUM young",
    };
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        database_run(pg, "%s", writes[i]);
    for (size_t limit = 1; limit < 100; limit *= 4) {
        rows = (struct rows){0};
        rows_newer(s, horizon, limit, &rows);
        rows_expect(&rows, 3003, 3024);
    }
    must(source_horizon(s, horizon, &e), &e);
    rows = (struct rows){0};
    rows_newer(s, horizon, 4, &rows);
    assert_int_equal(rows.count, 0);
    source_close(s);
    PQfinish(early);
    PQfinish(pg);
}

static void test_scan_page__finds_newer_rows_after_they_were_frozen(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "frozen", 100);
    struct source *s = database_source(p, "frozen", NULL);
    char horizon[SOURCE_HORIZON_MAX];
    struct error e = {0};
    must(source_horizon(s, horizon, &e), &e);
    database_run(pg, "UPDATE frozen SET code = 'c' || 900 + id WHERE id <= 30");
    database_run(pg, "VACUUM (FREEZE) frozen");
    struct rows rows = {0};
    rows_newer(s, horizon, 4, &rows);
    rows_expect(&rows, 903, 930);
    source_close(s);
    PQfinish(pg);
}

/* --- samples --- */

struct sampled {
    size_t count;
    uint64_t sum, largest;
};

static void note_sample(void *arg, const char *key, size_t length)
{
    struct sampled *sampled = arg;
    char digits[16] = {0};
    assert_true(length != 1 && length < sizeof(digits));
    if (length > 0)
        memcpy(digits, key + 1, length - 1);
    uint64_t id = strtoull(digits, NULL, 10);
    assert_true(id % 3 == 0);
    sampled->count++;
    sampled->sum += id;
    if (id > sampled->largest)
        sampled->largest = id;
}

static struct sampled sample(const struct temp_postgres *p, const char *tables, const char *horizon,
                             size_t count)
{
    struct source *s = database_source(p, tables, NULL);
    struct error e = {0};
    struct sampled sampled = {0};
    must(scan_sample(s, horizon, count, note_sample, &sampled, &e), &e);
    source_close(s);
    return sampled;
}

static void test_scan_sample__draws_from_all_rows_older_than_the_horizon(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "few", 1000);
    database_short_links(pg, "many", 200000);
    database_run(pg, "CREATE TABLE none (id bigint PRIMARY KEY, code text)");
    char horizon[SOURCE_HORIZON_MAX];
    struct source *s = database_source(p, "few", NULL);
    struct error e = {0};
    must(source_horizon(s, horizon, &e), &e);
    source_close(s);
    database_run(pg,
                 "UPDATE few SET url = 'new' WHERE id > 1500; UPDATE many SET url = 'new' WHERE id > 300000;"
                 "ANALYZE few, many");
    static const struct {
        const char *table;
        bool older;
        size_t wanted;
        uint64_t last;
    } rows[] = {{"few", false, 100, 3000},
                {"few", true, 200, 1500},
                {"many", false, 10000, 600000},
                {"many", true, 2000, 300000}};
    for (size_t i = 0; i < 4; i++) {
        struct sampled sampled = sample(p, rows[i].table, rows[i].older ? horizon : "", rows[i].wanted);
        assert_int_equal(sampled.count, rows[i].wanted);
        assert_true(sampled.largest <= rows[i].last);
        double mean = (double)sampled.sum / (double)sampled.count / (double)rows[i].last;
        assert_true(mean > 0.35 && mean < 0.65);
    }
    assert_int_equal(sample(p, "none", "", 100).count, 0);
    PQfinish(pg);
}

/* Each table's share of the sample is its share of the rows. */
static void test_scan_sample__gives_each_table_its_share(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE TABLE share_1 (id int PRIMARY KEY, code text); INSERT INTO share_1 SELECT n, 'c3' "
            "FROM generate_series(1, 1000) AS n;"
            "CREATE TABLE share_2 (id int PRIMARY KEY, code text); INSERT INTO share_2 SELECT n, 'c0' "
            "FROM generate_series(1, 3000) AS n;"
            "CREATE TABLE share_3 (id int PRIMARY KEY, code text); INSERT INTO share_3 VALUES (1, NULL), "
            "(2, '')");
    struct sampled sampled = sample(p, "share_1, share_2", "", 400);
    assert_int_equal(sampled.count, 400);
    assert_int_equal(sampled.sum, 3 * 100);
    assert_int_equal(sample(p, "share_3", "", 10).count, 1); /* the empty key */
    assert_int_equal(sample(p, "share_1, share_2", "", 9999).count, 4000);
    PQfinish(pg);
}

/* --- 32 bits --- */

/* The server's transaction ids wrap around. A horizon from before finds either all rows or none. */
static void test_horizon__is_not_taken_for_a_later_one_when_ids_went_round(void **state)
{
    struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "round", 100);
    struct source *s = database_source(p, "round", NULL);
    char before[SOURCE_HORIZON_MAX], after[SOURCE_HORIZON_MAX], id[64];
    struct error e = {0};
    must(source_horizon(s, before, &e), &e);
    source_close(s);
    PQfinish(pg);
    temp_postgres_stop(p);
    must(temp_postgres_set_epoch(p, 1, &e), &e);
    must(temp_postgres_restart(p, &e), &e);
    pg = database_connect(p, "postgres", "test");
    s = database_source(p, "round", NULL);
    must(source_horizon(s, after, &e), &e);
    assert_true(strtoull(after, NULL, 10) - strtoull(before, NULL, 10) >= 1ull << 32);
    database_run(pg, "UPDATE round SET url = 'x' WHERE id <= 30");
    struct rows rows = {0};
    rows_newer(s, after, 4, &rows);
    rows_expect(&rows, 3, 30);
    rows = (struct rows){0};
    must(scan_sample(s, after, 1000, rows_note, &rows, &e), &e);
    rows_expect(&rows, 33, 300);
    rows = (struct rows){0};
    rows_newer(s, before, 4, &rows);
    rows_expect(&rows, 3, 300);
    rows = (struct rows){0};
    must(scan_sample(s, before, 1000, rows_note, &rows, &e), &e);
    assert_int_equal(rows.count, 0);
    enum source_finding finding = SOURCE_ROW_UNKNOWN;
    must(source_find_key(s, "c30", 3, after, &finding, id, &e), &e);
    assert_int_equal(finding, SOURCE_ROW_NEW);
    must(source_find_key(s, "c33", 3, after, &finding, id, &e), &e);
    assert_int_equal(finding, SOURCE_ROW_OLD);
    must(source_find_key(s, "c30", 3, before, &finding, id, &e), &e);
    assert_int_equal(finding, SOURCE_ROW_NEW);
    source_close(s);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_page__finds_exactly_the_rows_newer_than_a_horizon),
        cmocka_unit_test(test_scan_page__finds_newer_rows_after_they_were_frozen),
        cmocka_unit_test(test_scan_sample__draws_from_all_rows_older_than_the_horizon),
        cmocka_unit_test(test_scan_sample__gives_each_table_its_share),
        cmocka_unit_test(test_horizon__is_not_taken_for_a_later_one_when_ids_went_round),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
