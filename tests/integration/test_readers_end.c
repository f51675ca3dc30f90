/* SPDX-License-Identifier: MIT */
/* Readers that end before all rows are read: the reason, and the ranges that are left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/reading.h"

enum { PATIENCE_MS = 30000 };

static enum err wait_for_end(struct readers *r, struct error *e)
{
    enum err code = ERR_OK;
    uint64_t until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    while (!readers_ended(r, 100, &code, e))
        if (clock_mono_us() > until)
            fail_msg("the readers do not end");
    return code;
}

static void on_slow_pages(struct reading *reading, struct readers_options *o)
{
    o->page_rows = 2000;
    reading->nap_us = 2000;
}

/* The remaining ranges are complete: readers that start there read the rest. */
static void expect_rest(struct reading *reading, struct readers *r, struct readers_options o)
{
    struct reading_left left;
    reading_left(reading, r, &left);
    reading_expect_left(reading, &left);
    readers_stop(r);
    reading_forget(reading, &left);
    reading->fail_at = 0;
    o.work.next_table = left.next_table;
    o.work.ranges = left.ranges;
    o.work.range_count = left.count;
    r = reading_start(&o);
    reading_end(r);
    readers_stop(r);
    reading_expect_all(reading, false);
}

static void test_readers_ended__tells_of_a_backend_that_died(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    on_slow_pages(reading, &o);
    struct readers *r = reading_start(&o);
    struct error e = {0};
    reading_wait(reading, 10);
    database_run(pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                     "'twinbloom reader' LIMIT 1");
    assert_int_equal(wait_for_end(r, &e), ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "table public.r_"));
    assert_non_null(strstr(e.text, "Postgres: "));
    enum err again = ERR_OK;
    assert_true(readers_ended(r, 0, &again, &e));
    assert_int_equal(again, ERR_UNREACHABLE);
    expect_rest(reading, r, o);
    reading_free(reading);
    source_close(s);
    PQfinish(pg);
}

static void test_readers_ended__tells_what_a_page_came_to(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    static const unsigned pages[] = {1, 7, 40};
    for (size_t i = 0; i < 3; i++) {
        struct reading *reading = reading_new();
        struct readers_options o = reading_options(reading, s, NULL, 0);
        on_slow_pages(reading, &o);
        reading->fail_at = pages[i];
        struct readers *r = reading_start(&o);
        struct error e = {0};
        assert_int_equal(wait_for_end(r, &e), ERR_FULL);
        assert_non_null(strstr(e.text, "no room on page"));
        expect_rest(reading, r, o);
        reading_free(reading);
    }
    source_close(s);
}

static void test_readers_ended__tells_of_a_table_that_cannot_be_read(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    struct error e = {0};
    database_run(pg, "ALTER TABLE r_few RENAME TO r_gone");
    struct readers *r = reading_start(&o);
    assert_int_equal(wait_for_end(r, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "r_few\" does not exist"));
    database_run(pg, "ALTER TABLE r_gone RENAME TO r_few");
    expect_rest(reading, r, o);
    reading_free(reading);
    source_close(s);
    PQfinish(pg);
}

static void test_readers_ended__tells_of_blocks_that_were_written_anew(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct source_part *parts = NULL;
    size_t count = 0;
    struct error e = {0};
    must(source_parts(s, &parts, &count, &e), &e);
    database_run(pg, "VACUUM FULL r_small");
    struct readers_options o = reading_options(reading, s, parts, count);
    struct readers *r = reading_start(&o);
    assert_int_equal(wait_for_end(r, &e), ERR_CHANGED);
    assert_non_null(strstr(e.text, "r_small was rewritten"));
    readers_stop(r);
    reading_free(reading);
    free(parts);
    source_close(s);
    PQfinish(pg);
}

static void test_readers_start__says_what_it_cannot_do(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    struct readers *r = NULL;
    struct error e = {0};
    o.dsn = "postgresql://nobody@127.0.0.1:1/nothing";
    r = reading_start(&o);
    assert_int_equal(wait_for_end(r, &e), ERR_UNREACHABLE);
    o.dsn = NULL;
    expect_rest(reading, r, o);
    struct scan_range ranges[READERS_RANGES_MAX + 1] = {{.after = ""}};
    o.work = (struct readers_work){.ranges = ranges, .range_count = READERS_RANGES_MAX + 1};
    assert_int_equal(readers_start(&r, &o, &e), ERR_RANGE);
    o.work.range_count = 0;
    r = reading_start(&o); /* nothing to read */
    must(wait_for_end(r, &e), &e);
    readers_stop(r);
    reading_free(reading);
    source_close(s);
}

/* --- stop --- */

static void expect_gone(PGconn *pg)
{
    for (unsigned n = 0; n < 100; n++) {
        char *there = database_value(
            pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twinbloom reader'");
        bool gone = strcmp(there, "0") == 0;
        free(there);
        if (gone)
            return;
        clock_sleep_us(50000);
    }
    fail_msg("readers are still connected");
}

static void wait_for_statements(PGconn *pg, unsigned count)
{
    for (unsigned n = 0; n < 400; n++) {
        char *there = database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE application_name = "
                                         "'twinbloom reader' AND wait_event = 'PgSleep'");
        bool enough = strtoul(there, NULL, 10) >= count;
        free(there);
        if (enough)
            return;
        clock_sleep_us(50000);
    }
    fail_msg("%u statements do not begin", count);
}

/* A row of these tables takes a minute to read. */
static void test_readers_stop__does_not_wait_for_statements(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE FUNCTION wait() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN PERFORM pg_sleep(60); RETURN true; END $$");
    struct source *s = database_source(*state, "r_few, r_small, r_medium", "public.wait()");
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    o.count = 3;
    o.work.tables = 3;
    struct readers *r = reading_start(&o);
    wait_for_statements(pg, 3);
    struct reading_left left;
    reading_left(reading, r, &left);
    assert_int_equal(left.count + source_tables(s) - left.next_table, 3); /* nothing was read */
    enum err code = ERR_OK;
    struct error e = {0};
    assert_false(readers_ended(r, 10, &code, &e));
    uint64_t began = clock_mono_us();
    readers_stop(r);
    assert_true(clock_mono_us() - began < 10 * UINT64_C(1000000));
    expect_gone(pg);
    assert_int_equal(reading_pages(reading), 0);
    readers_stop(NULL);
    reading_free(reading);
    source_close(s);
    PQfinish(pg);
}

/* The readers rest, or the limit allows no page for a long time. */
static void test_readers_stop__does_not_wait_for_a_rest(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    for (int how = 0; how < 2; how++) {
        struct reading *reading = reading_new();
        struct readers_options o = reading_options(reading, s, NULL, 0);
        o.page_rows = 1000;
        struct readers *r = reading_start(&o);
        reading_wait(reading, 2);
        if (how == 0)
            (void)readers_rest(r);
        else
            readers_pace(r, 1, 0);
        clock_sleep_us(50000);
        uint64_t began = clock_mono_us();
        readers_stop(r);
        assert_true(clock_mono_us() - began < 10 * UINT64_C(1000000));
        reading_free(reading);
    }
    source_close(s);
}

static int setup(void **state)
{
    if (database_setup(state) != 0)
        return -1;
    PGconn *pg = database_connect(*state, "postgres", "test");
    reading_tables(pg);
    PQfinish(pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_ended__tells_of_a_backend_that_died),
        cmocka_unit_test(test_readers_ended__tells_what_a_page_came_to),
        cmocka_unit_test(test_readers_ended__tells_of_a_table_that_cannot_be_read),
        cmocka_unit_test(test_readers_ended__tells_of_blocks_that_were_written_anew),
        cmocka_unit_test(test_readers_start__says_what_it_cannot_do),
        cmocka_unit_test(test_readers_stop__does_not_wait_for_statements),
        cmocka_unit_test(test_readers_stop__does_not_wait_for_a_rest),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
