/* SPDX-License-Identifier: MIT */
/* Readers without disturbances: each row comes once; the ranges that are left at any moment; pauses and
 * limits. */
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
#include "tests/integration/rows.h"

static void test_readers__hand_out_each_row_once(void **state)
{
    static const unsigned counts[] = {0, 1, 2, 4, 16};
    struct source *s = database_source(*state, READING_TABLES, NULL);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct reading *reading = reading_new();
        struct readers_options o = reading_options(reading, s, NULL, 0);
        o.count = counts[i];
        struct readers *r = reading_start(&o);
        reading_end(r);
        struct readers_progress progress;
        readers_progress(r, &progress);
        assert_int_equal(progress.rows, READING_ROWS);
        assert_true(progress.page_ms > 0);
        struct reading_left left;
        reading_left(reading, r, &left);
        assert_int_equal(left.count, 0);
        assert_int_equal(left.next_table, source_tables(s));
        readers_stop(r);
        reading_expect_all(reading, true);
        reading_free(reading);
    }
    source_close(s);
}

static void test_readers__hand_out_each_row_once_by_blocks(void **state)
{
    static const unsigned counts[] = {1, 4, 16};
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct rows_parts parts = rows_parts(s);
    assert_int_equal(parts.count, 6);
    for (size_t i = 0; i < 3; i++) {
        struct reading *reading = reading_new();
        struct readers_options o = reading_options(reading, s, parts.list, parts.count);
        o.count = counts[i];
        struct readers *r = reading_start(&o);
        reading_end(r);
        readers_stop(r);
        reading_expect_all(reading, true);
        reading_free(reading);
    }
    free(parts.list);
    source_close(s);
}

/* Of the connections that the role may have, one is the source's. */
static void test_readers__are_as_many_as_the_server_lets_in(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE ROLE limited LOGIN CONNECTION LIMIT 3;"
                     "GRANT SELECT ON ALL TABLES IN SCHEMA public TO limited");
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://limited@127.0.0.1:%u/postgres", (unsigned)p->port);
    const struct source_config config = {
        .dsn = dsn, .table = READING_TABLES, .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 20000, &e), &e);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    o.count = 16;
    struct readers *r = reading_start(&o);
    reading_end(r);
    unsigned left_out = readers_left_out(r, &e);
    readers_stop(r);
    reading_expect_all(reading, true);
    assert_in_range(left_out, 1, 14); /* one session is the source's; how many it lets in in turn is chance */
    assert_non_null(strstr(e.text, "too many connections for role \"limited\""));
    reading_free(reading);
    source_close(s);
    PQfinish(pg);
}

/* Count the row. */
static void on_key(void *arg, unsigned i, const char *key, size_t length)
{
    (void)i;
    (void)key;
    (void)length;
    (void)__atomic_add_fetch((unsigned *)arg, 1, __ATOMIC_RELAXED);
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    (void)arg;
    (void)i;
    (void)e;
    return ERR_OK;
}

static void test_readers__count_rows_whose_key_is_null(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg,
                 "CREATE TABLE keyless (id int PRIMARY KEY, code text);"
                 "INSERT INTO keyless SELECT n, CASE n %% 10 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'k' END "
                 "FROM generate_series(1, 1000) AS n");
    struct source *s = database_source(*state, "keyless", NULL);
    unsigned rows = 0;
    const struct readers_options o = {.source = s,
                                      .count = 2,
                                      .timeout_ms = 20000,
                                      .page_ms = 50,
                                      .page_rows = 300,
                                      .work = {.tables = 1},
                                      .row = on_key,
                                      .page = on_page,
                                      .arg = &rows};
    struct readers *r = NULL;
    struct error e = {0};
    struct readers_progress progress;
    must(readers_start(&r, &o, &e), &e);
    reading_end(r);
    readers_progress(r, &progress);
    readers_stop(r);
    assert_int_equal(rows, 900);
    assert_int_equal(progress.rows, 1000);
    assert_int_equal(progress.skipped_null, 100);
    source_close(s);
    PQfinish(pg);
}

static void test_readers__end_with_the_bounds_of_tables_and_ranges(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    char upto[6][SOURCE_ID_MAX] = {"", "", "1500", "", "", "30000"};
    struct scan_range ranges[] = {{.table = 2, .after = "1500", .upto = "2400"},
                                  {.table = 2, .after = "2400"}};
    struct readers_options o = reading_options(reading, s, NULL, 0);
    o.work.upto = (const char(*)[SOURCE_ID_MAX])upto;
    struct readers *r = reading_start(&o);
    reading_end(r);
    readers_stop(r);
    assert_int_equal(reading->times[210499], 1); /* id 1500 of r_small */
    assert_int_equal(reading->times[210500], 0);
    assert_int_equal(reading->times[211003 + 9999], 1); /* id 30000 of r_medium */
    assert_int_equal(reading->times[211003 + 10000], 0);
    o.work = (struct readers_work){.ranges = ranges, .range_count = 2};
    r = reading_start(&o); /* ranges alone, no tables */
    reading_end(r);
    readers_stop(r);
    for (unsigned row = 0; row < 211003; row++)
        if (reading->times[row] != 1)
            fail_msg("row %u came %u times", row, reading->times[row]);
    reading_free(reading);
    source_close(s);
}

/* --- what is left --- */

static void test_readers_left__and_what_came_are_all_rows_at_any_moment(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    o.page_rows = 2000;
    reading->nap_us = 2000;
    struct readers *r = reading_start(&o);
    struct reading_left left;
    enum err code = ERR_OK;
    struct error e = {0};
    unsigned moments = 0;
    while (!readers_ended(r, 1, &code, &e)) {
        reading_left(reading, r, &left);
        reading_expect_left(reading, &left);
        moments++;
    }
    must(code, &e);
    assert_true(moments > 10);
    readers_stop(r);
    reading_expect_all(reading, true);
    reading_free(reading);
    source_close(s);
}

/* Readers end and others resume, as after the death of a driver: what came after the last look at the
 * remaining ranges is forgotten. The rows that were read by the looks add up to all rows. */
static void resume_again_and_again(struct source *s, const struct rows_parts *parts)
{
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, parts->list, parts->count);
    o.page_rows = 2000;
    reading->nap_us = 1000;
    struct reading_left left = {.next_table = 0};
    unsigned starts = 0;
    uint64_t rows = 0;
    for (bool ended = false; !ended; starts++) {
        enum err code = ERR_OK;
        struct error e = {0};
        o.work.next_table = left.next_table;
        o.work.ranges = left.ranges;
        o.work.range_count = left.count;
        for (size_t i = 0; i < left.count; i++)
            left.ranges[i].blocks = false; /* a job's record says so once for all ranges */
        o.count = 1 + starts % 5;
        unsigned most = parts->count > 0 ? 3 : 20; /* a page of blocks has many rows */
        unsigned wanted = reading_pages(reading) + 1 + (unsigned)rand() % most; // NOLINT: any number will do
        struct readers *r = reading_start(&o);
        while (!ended && reading_pages(reading) < wanted)
            ended = readers_ended(r, 1, &code, &e);
        must(code, &e);
        reading_left(reading, r, &left);
        rows += left.done.rows;
        if (!o.work.blocks)
            reading_expect_left(reading, &left);
        readers_stop(r);
        reading_forget(reading, &left);
    }
    assert_true(starts > 2);
    assert_int_equal(left.count, 0);
    assert_int_equal(rows, READING_ROWS);
    reading_expect_all(reading, false);
    reading_free(reading);
}

static void test_readers_left__is_where_others_can_go_on(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    const struct rows_parts none = {NULL, 0};
    struct rows_parts parts = rows_parts(s);
    resume_again_and_again(s, &none);
    resume_again_and_again(s, &parts);
    free(parts.list);
    source_close(s);
}

/* --- rest, limit --- */

static void test_readers_rest__begins_no_page_until_they_go_on(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    o.page_rows = 2000;
    reading->nap_us = 2000;
    struct readers *r = reading_start(&o);
    for (unsigned n = 1; n <= 3; n++) {
        struct reading_left left, later;
        reading_wait(reading, 8 * n);
        while (!readers_rest(r))
            clock_sleep_us(1000);
        reading_left(reading, r, &left);
        assert_true(left.count > 0); /* the readers rest before the end */
        clock_sleep_us(300000);
        reading_left(reading, r, &later);
        assert_true(readers_rest(r));
        assert_int_equal(later.pages, left.pages);
        assert_int_equal(later.count, left.count);
        assert_memory_equal(later.ranges, left.ranges, left.count * sizeof(left.ranges[0]));
        readers_go_on(r);
    }
    reading_end(r);
    readers_stop(r);
    reading_expect_all(reading, true);
    reading_free(reading);
    source_close(s);
}

/* The readers together may exceed the limit only by the pages that are under way at once. */
static void test_readers_pace__holds_for_all_together(void **state)
{
    enum { RATE = 20000, PAGE = 1000, AT_ONCE = READING_READERS * PAGE };
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    struct readers_progress progress = {.rows = 0};
    o.page_rows = PAGE;
    uint64_t began = clock_mono_us();
    struct readers *r = reading_start(&o);
    readers_pace(r, RATE, 0);
    while (progress.rows < 2 * RATE) {
        readers_pace(r, RATE, 0); /* setting the same limit again changes nothing */
        clock_sleep_us(10000);
        readers_progress(r, &progress);
        double most = (double)(clock_mono_us() - began) / 1e6 * RATE + 3 * AT_ONCE;
        if ((double)progress.rows > most)
            fail_msg("%llu rows, no more than %.0f were allowed", (unsigned long long)progress.rows, most);
    }
    readers_pace(r, 0, 0);
    reading_end(r);
    readers_stop(r);
    reading_expect_all(reading, true);
    reading_free(reading);
    source_close(s);
}

/* Only some readers may work at once, as if others loaded the database. */
static void test_readers_pace__lets_some_rest(void **state)
{
    struct source *s = database_source(*state, READING_TABLES, NULL);
    struct reading *reading = reading_new();
    struct readers_options o = reading_options(reading, s, NULL, 0);
    o.page_rows = 1000;
    o.at_once = 1;
    reading->nap_us = 2000;
    struct readers *r = reading_start(&o);
    reading_wait(reading, 20);
    assert_int_equal(reading_most_at_once(reading), 1);
    readers_pace(r, 0, 2);
    reading_wait(reading, reading_pages(reading) + 30);
    assert_int_equal(reading_most_at_once(reading), 2);
    readers_pace(r, 0, 0);
    reading_end(r);
    assert_in_range(reading_most_at_once(reading), 3, READING_READERS);
    readers_stop(r);
    reading_expect_all(reading, true);
    reading_free(reading);
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
        cmocka_unit_test(test_readers__hand_out_each_row_once),
        cmocka_unit_test(test_readers__hand_out_each_row_once_by_blocks),
        cmocka_unit_test(test_readers__are_as_many_as_the_server_lets_in),
        cmocka_unit_test(test_readers__count_rows_whose_key_is_null),
        cmocka_unit_test(test_readers__end_with_the_bounds_of_tables_and_ranges),
        cmocka_unit_test(test_readers_left__and_what_came_are_all_rows_at_any_moment),
        cmocka_unit_test(test_readers_left__is_where_others_can_go_on),
        cmocka_unit_test(test_readers_rest__begins_no_page_until_they_go_on),
        cmocka_unit_test(test_readers_pace__holds_for_all_together),
        cmocka_unit_test(test_readers_pace__lets_some_rest),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
