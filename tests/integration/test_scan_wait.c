/* SPDX-License-Identifier: MIT */
/* A page ends before its last row: by the connection, the deadline, the watch, or an error of the statement.
 * The range does not change, and the page can be read again. */
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
#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

struct watcher {
    unsigned calls, end_at; /* @end_at: the call that ends the wait; 0: never */
};

static enum err on_watch(void *arg, struct error *e)
{
    struct watcher *w = arg;
    return ++w->calls == w->end_at ? error_set(e, ERR_CANCELLED, "the watcher has had enough") : ERR_OK;
}

static struct source *open_watched(const struct temp_postgres *p, const char *table, const char *where,
                                   struct watcher *w)
{
    struct source_config config = {.dsn = p->dsn,
                                   .table = table,
                                   .id_column = "id",
                                   .key = "code",
                                   .where = where,
                                   .watch = {on_watch, w}};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    return s;
}

/* Read one page. Its rows go to @seen only if the whole page was handed out. */
static enum err one_page(struct source *s, struct scan_range *range, unsigned timeout_ms, struct rows *seen,
                         bool *ended, struct error *e)
{
    struct rows more = *seen;
    const struct scan_options o = {.limit = 100, .timeout_ms = timeout_ms, .row = rows_note, .arg = &more};
    size_t rows = 0;
    enum err err = scan_page(s, range, &o, &rows, ended, e);
    if (err == ERR_OK)
        *seen = more;
    return err;
}

static void terminate(PGconn *pg)
{
    database_run(pg, "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity "
                     "WHERE application_name = 'twinbloom'");
}

static void test_scan_page__says_unreachable_when_the_backend_is_gone_and_goes_on_at_the_range(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "killed", 1000);
    struct source *s = database_source(p, "killed", NULL);
    struct scan_range range = {.after = ""};
    struct error e = {0};
    struct rows rows = {0};
    bool ended = false;
    for (int n = 0; n < 3; n++)
        must(one_page(s, &range, ROWS_WAIT_MS, &rows, &ended, &e), &e);
    terminate(pg);
    assert_int_equal(one_page(s, &range, ROWS_WAIT_MS, &rows, &ended, &e), ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "table public.killed: a page of rows could not be read"));
    assert_int_equal(one_page(s, &range, ROWS_WAIT_MS, &rows, &ended, &e), ERR_UNREACHABLE);
    source_close(s);
    rows_expect(&rows, 3, 900);
    assert_string_equal(range.after, "900");
    s = database_source(p, "killed", NULL);
    (void)rows_read(s, &range, NULL, 100, rows_note, &rows);
    rows_expect(&rows, 3, 3000);
    source_close(s);
    PQfinish(pg);
}

/* The connection dies when some of the page's rows are handed out already. */
static void test_scan_page__keeps_the_range_when_the_backend_dies_within_a_page(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg,
                 "CREATE FUNCTION die_at(n bigint) RETURNS bool LANGUAGE plpgsql AS "
                 "$$ BEGIN IF n = 30 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; "
                 "RETURN true; END $$;"
                 "CREATE TABLE deadly (id bigint PRIMARY KEY, code text);"
                 "INSERT INTO deadly SELECT 3 * n, 'c' || 3 * n || repeat(' ', 11 - length('c' || 3 * n)) "
                 "FROM generate_series(1, 900) AS n");
    struct source *s = database_source(p, "deadly", "public.die_at(id - 2670)");
    struct scan_range range = {.after = ""};
    struct rows seen = {0};
    const struct scan_options o = {.limit = 1000, .timeout_ms = ROWS_WAIT_MS, .row = rows_note, .arg = &seen};
    struct error e = {0};
    size_t rows = 0;
    bool ended = false;
    assert_int_equal(scan_page(s, &range, &o, &rows, &ended, &e), ERR_UNREACHABLE);
    assert_true(seen.count > 0 && seen.count < 900); /* the server sends what fills its buffer */
    assert_string_equal(range.after, "");
    source_close(s);
    PQfinish(pg);
}

static void test_scan_page__keeps_the_range_when_a_row_fails(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "failing", 1000);
    struct source *s = database_source(p, "failing", "6 / (id - 2700) IS NOT NULL");
    struct scan_range range = {.after = ""}, before = {.after = "", .upto = "2699"};
    struct rows seen = {0}, again = {0};
    const struct scan_options o = {.limit = 1000, .timeout_ms = ROWS_WAIT_MS, .row = rows_note, .arg = &seen};
    struct error e = {0};
    size_t rows = 0;
    bool ended = false;
    assert_int_equal(scan_page(s, &range, &o, &rows, &ended, &e), ERR_REFUSED);
    assert_non_null(strstr(e.text, "SQLSTATE 22012"));
    assert_true(seen.count > 0);
    assert_string_equal(range.after, "");
    (void)rows_read(s, &before, NULL, 1000, rows_note, &again); /* the connection still works */
    rows_expect(&again, 3, 2697);
    source_close(s);
    PQfinish(pg);
}

/* Make the table "slow" of 30 rows. While the gate is closed, each row takes ten seconds. */
static void make_gate(PGconn *pg)
{
    database_short_links(pg, "slow", 30);
    database_run(pg, "CREATE TABLE gate (closed bool); INSERT INTO gate VALUES (true);"
                     "CREATE FUNCTION wait() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN IF (SELECT closed FROM public.gate) THEN PERFORM pg_sleep(10); END IF; RETURN "
                     "true; END $$");
}

/* Open the gate after a failed attempt, read all rows, and close the gate again. */
static void open_gate_and_read_all(PGconn *pg, struct source *s, struct scan_range *range)
{
    struct rows rows = {0};
    assert_string_equal(range->after, "");
    database_run(pg, "UPDATE gate SET closed = false");
    (void)rows_read(s, range, NULL, 10, rows_note, &rows);
    rows_expect(&rows, 3, 90);
    database_run(pg, "UPDATE gate SET closed = true");
}

static void expect_idle(PGconn *pg)
{
    char *active = database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND "
                                      "application_name = 'twinbloom'");
    assert_string_equal(active, "0");
    free(active);
}

static void test_scan_page__keeps_its_deadline_and_asks_again(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct source *s = database_source(p, "slow", "public.wait()");
    struct scan_range range = {.after = ""};
    struct rows rows = {0};
    struct error e = {0};
    bool ended = false;
    uint64_t began = clock_mono_us();
    assert_int_equal(one_page(s, &range, 300, &rows, &ended, &e), ERR_TIMEOUT);
    uint64_t took = clock_mono_us() - began;
    assert_true(took >= 300000 && took < 5000000);
    expect_idle(pg); /* the statement was stopped */
    open_gate_and_read_all(pg, s, &range);
    source_close(s);
    PQfinish(pg);
}

static void test_watch__ends_the_wait_for_a_page_and_loses_no_row(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    struct watcher w = {0};
    struct source *s = open_watched(p, "slow", "public.wait()", &w); /* the gate is closed */
    struct scan_range range = {.after = ""};
    struct rows rows = {0};
    struct error e = {0};
    bool ended = false;
    w = (struct watcher){.end_at = 3};
    uint64_t began = clock_mono_us();
    assert_int_equal(one_page(s, &range, ROWS_WAIT_MS, &rows, &ended, &e), ERR_CANCELLED);
    assert_true(clock_mono_us() - began < 5000000);
    assert_int_equal(w.calls, 3);
    assert_non_null(strstr(e.text, "the watcher has had enough"));
    expect_idle(pg);
    open_gate_and_read_all(pg, s, &range);
    source_close(s);
    PQfinish(pg);
}

/* Rows come every few milliseconds, so that no single wait is long. */
static void test_watch__is_asked_while_rows_keep_coming(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE trickle (id int PRIMARY KEY, code text);"
                     "ALTER TABLE trickle ALTER code SET STORAGE EXTERNAL;"
                     "INSERT INTO trickle SELECT n, repeat('k', 9000) FROM generate_series(1, 1000) AS n;"
                     "CREATE FUNCTION trickles() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN PERFORM pg_sleep(0.01); RETURN true; END $$");
    struct watcher w = {0};
    struct source *s = open_watched(p, "trickle", "public.trickles()", &w);
    struct scan_range range = {.after = ""};
    struct error e = {0};
    struct buffer keys = {0};
    const struct scan_options o = {.limit = 1000, .timeout_ms = ROWS_WAIT_MS, .row = rows_join, .arg = &keys};
    size_t rows = 0;
    bool ended = false;
    w = (struct watcher){.end_at = 3};
    assert_int_equal(scan_page(s, &range, &o, &rows, &ended, &e), ERR_CANCELLED);
    assert_true(keys.length > 0 && keys.length < (size_t)9001 * 1000);
    buffer_fini(&keys);
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
    struct source *s = open_watched(p, "slow", "public.wait()", &w);
    struct error e = {0};
    w = (struct watcher){.end_at = 3};
    uint64_t began = clock_mono_us();
    assert_int_equal(scan_sample(s, "", 10, no_key, NULL, &e), ERR_CANCELLED);
    assert_true(clock_mono_us() - began < 5000000);
    source_close(s);
}

static int setup(void **state)
{
    if (database_setup(state) != 0)
        return -1;
    PGconn *pg = database_connect(*state, "postgres", "test");
    make_gate(pg);
    PQfinish(pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan_page__says_unreachable_when_the_backend_is_gone_and_goes_on_at_the_range),
        cmocka_unit_test(test_scan_page__keeps_the_range_when_the_backend_dies_within_a_page),
        cmocka_unit_test(test_scan_page__keeps_the_range_when_a_row_fails),
        cmocka_unit_test(test_scan_page__keeps_its_deadline_and_asks_again),
        cmocka_unit_test(test_watch__ends_the_wait_for_a_page_and_loses_no_row),
        cmocka_unit_test(test_watch__is_asked_while_rows_keep_coming),
        cmocka_unit_test(test_watch__ends_a_sample),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
