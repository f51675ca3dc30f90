/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "migrate/scan.h"
#include "tests/integration/database.h"

enum { WAIT_MS = 20000 };

/* Read from @after to the end; every row of the scan through @on_row. Returns how many pages had rows. */
typedef void row_fn(void *arg, const struct scan_row *row);

static size_t read_all(struct source *s, const char *after, const char *upto, size_t page_rows,
                       row_fn *on_row, void *arg)
{
    struct scan *scan = NULL;
    struct error e = {0};
    must(scan_open(&scan, s, after, upto, page_rows, &e), &e);
    size_t pages = 0;
    for (;;) {
        struct scan_page page;
        must(scan_next(scan, &page, WAIT_MS, &e), &e);
        if (page.count == 0)
            break;
        assert_true(page.count <= page_rows);
        pages++;
        for (size_t i = 0; i < page.count; i++)
            on_row(arg, &page.rows[i]);
    }
    scan_close(scan);
    return pages;
}

/* How often each id was seen, by the number behind the first letter of its code. */
struct seen {
    unsigned char times[4096];
    size_t rows;
    size_t nulls;
    size_t empty;
};

static void note_row(void *arg, const struct scan_row *row)
{
    struct seen *seen = arg;
    seen->rows++;
    if (row->key == NULL) {
        seen->nulls++;
    } else if (row->length == 0) {
        seen->empty++;
    } else {
        char digits[16] = {0};
        assert_true(row->length < sizeof(digits));
        memcpy(digits, row->key + 1, row->length - 1);
        unsigned long id = strtoul(digits, NULL, 10);
        assert_true(id < sizeof(seen->times));
        seen->times[id]++;
    }
}

static void expect_ids(const struct seen *seen, unsigned from, unsigned to)
{
    for (unsigned id = 0; id < sizeof(seen->times); id++)
        assert_int_equal(seen->times[id], id % 3 == 0 && id >= from && id <= to);
}

static void test_scan_next__covers_each_row_once_for_any_page_size(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "once", 1000);
    struct source *s = database_source(p, "once", NULL);
    static const size_t sizes[] = {1, 7, 1000, 1001};
    for (size_t i = 0; i < 4; i++) {
        struct seen seen = {0};
        size_t pages = read_all(s, "", "", sizes[i], note_row, &seen);
        assert_int_equal(seen.rows, 1000);
        assert_int_equal(pages, (1000 + sizes[i] - 1) / sizes[i]);
        expect_ids(&seen, 3, 3000);
    }
    source_close(s);
    PQfinish(pg);
}

static void test_scan_open__begins_behind_after_and_ends_with_upto(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "bounds", 1000);
    struct source *s = database_source(p, "bounds", "");
    struct seen seen = {0};
    (void)read_all(s, "300", "601", 7, note_row, &seen); /* 601 lies in a gap */
    expect_ids(&seen, 303, 600);
    seen = (struct seen){0};
    (void)read_all(s, "", "600", 33, note_row, &seen);
    expect_ids(&seen, 3, 600);
    seen = (struct seen){0};
    assert_int_equal(read_all(s, "3000", "", 7, note_row, &seen), 0);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_next__reads_the_rows_of_the_condition_only(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "conditional", 1000);
    database_run(pg, "UPDATE conditional SET deleted_at = now() WHERE id > 1500");
    struct source *s = database_source(p, "conditional", "deleted_at IS NULL OR id = 1503 -- with a comment");
    struct seen seen = {0};
    (void)read_all(s, "", "", 10, note_row, &seen);
    expect_ids(&seen, 3, 1503);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_next__hands_out_null_and_empty_keys_as_such(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE holes (id int PRIMARY KEY, code text)");
    database_run(pg, "INSERT INTO holes VALUES (1, 'c9'), (2, NULL), (3, ''), (4, NULL)");
    struct source *s = database_source(p, "holes", NULL);
    struct seen seen = {0};
    (void)read_all(s, "", "", 3, note_row, &seen);
    assert_int_equal(seen.rows, 4);
    assert_int_equal(seen.nulls, 2);
    assert_int_equal(seen.empty, 1);
    assert_int_equal(seen.times[9], 1);
    source_close(s);
    PQfinish(pg);
}

static void copy_row(void *arg, const struct scan_row *row)
{
    buffer_append(arg, row->key, row->length);
    buffer_append(arg, "|", 1);
}

/* The keys of a table, each followed by a bar. */
static void expect_keys(const struct temp_postgres *p, const char *table, const char *keys, size_t length)
{
    struct source *s = database_source(p, table, NULL);
    struct buffer got = {0};
    struct error e = {0};
    must(source_check(s, &e), &e);
    (void)read_all(s, "", "", 2, copy_row, &got);
    assert_int_equal(got.length, length);
    assert_memory_equal(got.data, keys, length);
    buffer_fini(&got);
    source_close(s);
}

static void test_scan_next__gives_the_bytes_that_clients_send_for_every_type(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg,
        "CREATE DOMAIN link AS text; CREATE DOMAIN blob AS bytea;"
        "CREATE TABLE raw (id int PRIMARY KEY, code bytea);"
        "INSERT INTO raw VALUES (1, '\\x00ff00'), (2, '\\x'), (3, '\\x0a');"
        "CREATE TABLE raw_domain (id int PRIMARY KEY, code blob); INSERT INTO raw_domain VALUES (1, '\\x00');"
        "CREATE TABLE uuids (id int PRIMARY KEY, code uuid);"
        "INSERT INTO uuids VALUES (1, 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11');"
        "CREATE TABLE numbers (id int PRIMARY KEY, code bigint); INSERT INTO numbers VALUES (1, -42), (2, 7);"
        "CREATE TABLE chars (id int PRIMARY KEY, code char(5)); INSERT INTO chars VALUES (1, 'ab');"
        "CREATE TABLE varchars (id int PRIMARY KEY, code varchar(9)); INSERT INTO varchars VALUES (1, 'a b "
        "');"
        "CREATE TABLE domains (id int PRIMARY KEY, code link); INSERT INTO domains VALUES (1, U&'\\00fc');"
        "CREATE TABLE \"Odd \"\"name\" (id int PRIMARY KEY, code text);"
        "INSERT INTO \"Odd \"\"name\" VALUES (1, 'x');");
#define EXPECT_KEYS(table, keys) expect_keys(p, table, keys, sizeof(keys) - 1)
    EXPECT_KEYS("raw", "\0\xff\0||\n|");
    EXPECT_KEYS("raw_domain", "\0|");
    EXPECT_KEYS("uuids", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11|");
    EXPECT_KEYS("numbers", "-42|7|");
    EXPECT_KEYS("chars", "ab|");
    EXPECT_KEYS("varchars", "a b |");
    EXPECT_KEYS("domains", "\xc3\xbc|");
    EXPECT_KEYS("public.\"Odd \"\"name\"", "x|");
    PQfinish(pg);
}

static void measure_row(void *arg, const struct scan_row *row)
{
    size_t *length = arg;
    *length += row->length;
    for (size_t i = 0; i < row->length; i++)
        assert_int_equal(row->key[i], 'k');
}

static void test_scan_next__takes_a_key_of_a_mebibyte(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE long_keys (id int PRIMARY KEY, code text);"
                     "INSERT INTO long_keys SELECT n, repeat('k', 1 << 20) FROM generate_series(1, 3) AS n");
    struct source *s = database_source(p, "long_keys", NULL);
    size_t length = 0;
    (void)read_all(s, "", "", 2, measure_row, &length);
    assert_int_equal(length, 3 << 20);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_next__walks_ids_of_other_types_than_integers(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    static const char *const ids[] = {
        "uuid|gen_random_uuid()",
        "text COLLATE \"C\"|'Id ' || n",
        "text COLLATE \"en-x-icu\"|chr(40 + n % 80) || n || E'\\'\\\\'", /* sorts unlike its bytes */
        "varchar(20)|md5(n::text)::varchar(20)",
        "char(12)|'x' || n",
        "bytea|decode(md5(n::text), 'hex')",
        "numeric|n / 7.0",
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
        struct source *s = database_source(p, "walk", NULL);
        struct error e = {0};
        must(source_check(s, &e), &e);
        assert_false(source_id_is_integer(s));
        char last[64];
        must(source_max_id(s, last, sizeof(last), &e), &e);
        if (strncmp(ids[i], "timestamptz", 11) == 0) /* one form, whatever the role's settings are */
            assert_string_equal(last, "2000-05-25 18:00:00.000499+00");
        struct seen seen = {0};
        (void)read_all(s, "", last, 7, note_row, &seen);
        expect_ids(&seen, 3, 1500);
        source_close(s);
    }
    database_run(pg, "ALTER ROLE postgres RESET ALL");
    PQfinish(pg);
}

static void test_scan_next__refuses_an_id_too_long_to_note(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE long_ids (id text PRIMARY KEY, code text);"
                     "INSERT INTO long_ids VALUES (repeat('i', 256), 'c')");
    struct source *s = database_source(p, "long_ids", NULL);
    struct scan *scan = NULL;
    struct scan_page page;
    struct error e = {0};
    must(scan_open(&scan, s, "", "", 10, &e), &e);
    assert_int_equal(scan_next(scan, &page, WAIT_MS, &e), ERR_RANGE);
    scan_close(scan);
    source_close(s);
    PQfinish(pg);
}

static void test_scan_next__says_unreachable_when_the_backend_is_gone_and_goes_on_at_the_last_id(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "killed", 1000);
    struct source *s = database_source(p, "killed", NULL);
    struct scan *scan = NULL;
    struct scan_page page;
    struct error e = {0};
    struct seen seen = {0};
    char last[SCAN_ID_MAX] = "";
    must(scan_open(&scan, s, "", "", 100, &e), &e);
    enum err err = ERR_OK;
    for (int n = 0; n < 10 && err == ERR_OK; n++) {
        if (n == 3)
            database_run(pg, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                             "WHERE application_name = 'twinbloom'");
        err = scan_next(scan, &page, WAIT_MS, &e);
        for (size_t i = 0; err == ERR_OK && i < page.count; i++)
            note_row(&seen, &page.rows[i]);
        if (err == ERR_OK)
            memcpy(last, page.last_id, sizeof(last));
    }
    assert_int_equal(err, ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "killed"));
    assert_int_equal(scan_next(scan, &page, WAIT_MS, &e), ERR_UNREACHABLE);
    scan_close(scan);
    source_close(s);
    assert_true(seen.rows >= 300 && seen.rows < 1000);
    s = database_source(p, "killed", NULL);
    (void)read_all(s, last, "", 100, note_row, &seen);
    expect_ids(&seen, 3, 3000);
    source_close(s);
    PQfinish(pg);
}

/* The scan of table "slow" from its first row, after an attempt that failed; closes the gate again. */
static void open_gate_and_read_all(PGconn *pg, struct scan *scan)
{
    struct seen seen = {0};
    struct scan_page page;
    struct error e = {0};
    database_run(pg, "UPDATE gate SET closed = false");
    for (int n = 0; n < 3; n++) {
        must(scan_next(scan, &page, WAIT_MS, &e), &e);
        for (size_t i = 0; i < page.count; i++)
            note_row(&seen, &page.rows[i]);
    }
    expect_ids(&seen, 3, 90);
    database_run(pg, "UPDATE gate SET closed = true");
}

static void test_scan_next__keeps_its_deadline_and_asks_again(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "slow", 30);
    /* While the gate is closed a page takes ten seconds. */
    database_run(pg, "CREATE TABLE gate (closed bool); INSERT INTO gate VALUES (true);"
                     "CREATE FUNCTION wait() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN IF (SELECT closed FROM public.gate) THEN PERFORM pg_sleep(10); END IF; RETURN "
                     "true; END $$");
    struct source *s = database_source(p, "slow", "public.wait()");
    struct scan *scan = NULL;
    struct scan_page page;
    struct error e = {0};
    must(scan_open(&scan, s, "", "", 10, &e), &e);
    uint64_t began = clock_mono_us();
    assert_int_equal(scan_next(scan, &page, 300, &e), ERR_TIMEOUT);
    uint64_t took = clock_mono_us() - began;
    assert_true(took >= 300000 && took < 3000000);
    open_gate_and_read_all(pg, scan);
    scan_close(scan);
    source_close(s);
    PQfinish(pg);
}

struct watcher {
    unsigned calls, end_at; /* of the wait; 0: never */
};

static enum err on_watch(void *arg, struct error *e)
{
    struct watcher *w = arg;
    return ++w->calls == w->end_at ? error_set(e, ERR_CANCELLED, "the watcher has had enough") : ERR_OK;
}

static struct source *watched_source(const struct temp_postgres *p, struct watcher *w)
{
    struct source_config config = {.dsn = p->dsn,
                                   .table = "slow",
                                   .id_column = "id",
                                   .key = "code",
                                   .where = "public.wait()",
                                   .watch = {on_watch, w}};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    return s;
}

static void test_watch__ends_the_wait_for_a_page_and_loses_no_row(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct watcher w = {0};
    struct source *s = watched_source(p, &w); /* the gate is closed */
    struct scan *scan = NULL;
    struct scan_page page;
    struct error e = {0};
    must(scan_open(&scan, s, "", "", 10, &e), &e);
    w = (struct watcher){.end_at = 3};
    uint64_t began = clock_mono_us();
    assert_int_equal(scan_next(scan, &page, WAIT_MS, &e), ERR_CANCELLED);
    assert_true(clock_mono_us() - began < 5000000);
    assert_int_equal(w.calls, 3);
    assert_non_null(strstr(e.text, "the watcher has had enough"));
    open_gate_and_read_all(pg, scan);
    scan_close(scan);
    source_close(s);
    PQfinish(pg);
}

static void no_key(void *arg, const char *key, size_t length)
{
    (void)arg;
    fail_msg("a key of %zu bytes: %s", length, key);
}

static void test_watch__ends_a_sample(void **state)
{
    const struct temp_postgres *p = *state;
    struct watcher w = {0};
    struct source *s = watched_source(p, &w);
    struct error e = {0};
    w = (struct watcher){.end_at = 3};
    uint64_t began = clock_mono_us();
    assert_int_equal(scan_sample(s, "", 10, no_key, NULL, &e), ERR_CANCELLED);
    assert_true(clock_mono_us() - began < 5000000);
    source_close(s);
}

static void test_scan_close__leaves_the_source_usable_with_a_page_under_way(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "closed_early", 1000);
    struct source *s = database_source(p, "closed_early", NULL);
    struct scan *scan = NULL;
    struct error e = {0};
    char last[64];
    must(scan_open(&scan, s, "", "", 100, &e), &e);
    scan_close(scan);
    must(source_max_id(s, last, sizeof(last), &e), &e);
    assert_string_equal(last, "3000");
    struct seen seen = {0};
    (void)read_all(s, "", "", 100, note_row, &seen);
    expect_ids(&seen, 3, 3000);
    source_close(s);
    PQfinish(pg);
}

struct sampled {
    size_t count;
    uint64_t sum;
    uint64_t largest;
};

static void note_sample(void *arg, const char *key, size_t length)
{
    struct sampled *sampled = arg;
    char digits[16] = {0};
    assert_true(length > 1 && length < sizeof(digits));
    memcpy(digits, key + 1, length - 1);
    uint64_t id = strtoull(digits, NULL, 10);
    assert_true(id % 3 == 0);
    sampled->count++;
    sampled->sum += id;
    if (id > sampled->largest)
        sampled->largest = id;
}

static void test_scan_sample__draws_from_the_whole_range_below_the_bound(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "few", 1000);
    database_short_links(pg, "many", 200000);
    database_run(pg, "CREATE TABLE none (id int PRIMARY KEY, code text)");
    static const struct {
        const char *table;
        const char *upto;
        size_t wanted;
        uint64_t last;
    } rows[] = {{"few", "", 100, 3000},
                {"few", "1500", 200, 1500},
                {"many", "", 10000, 600000},
                {"many", "300000", 2000, 300000}};
    for (size_t i = 0; i < 4; i++) {
        struct source *s = database_source(p, rows[i].table, NULL);
        struct error e = {0};
        struct sampled sampled = {0};
        must(scan_sample(s, rows[i].upto, rows[i].wanted, note_sample, &sampled, &e), &e);
        assert_int_equal(sampled.count, rows[i].wanted);
        assert_true(sampled.largest <= rows[i].last);
        double mean = (double)sampled.sum / (double)sampled.count / (double)rows[i].last;
        assert_true(mean > 0.35 && mean < 0.65);
        source_close(s);
    }
    struct source *s = database_source(p, "none", NULL);
    struct error e = {0};
    struct sampled sampled = {0};
    must(scan_sample(s, "", 100, note_sample, &sampled, &e), &e);
    assert_int_equal(sampled.count, 0);
    source_close(s);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_next__covers_each_row_once_for_any_page_size),
        cmocka_unit_test(test_scan_open__begins_behind_after_and_ends_with_upto),
        cmocka_unit_test(test_scan_next__reads_the_rows_of_the_condition_only),
        cmocka_unit_test(test_scan_next__hands_out_null_and_empty_keys_as_such),
        cmocka_unit_test(test_scan_next__gives_the_bytes_that_clients_send_for_every_type),
        cmocka_unit_test(test_scan_next__takes_a_key_of_a_mebibyte),
        cmocka_unit_test(test_scan_next__walks_ids_of_other_types_than_integers),
        cmocka_unit_test(test_scan_next__refuses_an_id_too_long_to_note),
        cmocka_unit_test(
            test_scan_next__says_unreachable_when_the_backend_is_gone_and_goes_on_at_the_last_id),
        cmocka_unit_test(test_scan_next__keeps_its_deadline_and_asks_again),
        cmocka_unit_test(test_watch__ends_the_wait_for_a_page_and_loses_no_row),
        cmocka_unit_test(test_watch__ends_a_sample),
        cmocka_unit_test(test_scan_close__leaves_the_source_usable_with_a_page_under_way),
        cmocka_unit_test(test_scan_sample__draws_from_the_whole_range_below_the_bound),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
