/* SPDX-License-Identifier: MIT */
/* A real standby: its lag as a source reports it, and reading from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "migrate/source/readers.h"
#include "migrate/source/scan.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

enum { PATIENCE_MS = 20000 };

static double lag_of(struct source *s)
{
    struct error e = {0};
    double seconds = -99;
    must(source_replication_lag(s, &seconds, &e), &e);
    return seconds;
}

/* Write until the lag is in the range. Standbys report once a second. */
static double wait_for_lag(struct source *s, PGconn *pg, double least, double most)
{
    uint64_t until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    for (;;) {
        double lag = lag_of(s);
        if (lag >= least && lag <= most)
            return lag;
        if (clock_mono_us() > until)
            fail_msg("the lag is %g, not between %g and %g", lag, least, most);
        database_run(pg, "INSERT INTO written VALUES (1)");
        clock_sleep_us(100000);
    }
}

/* Sessions report their transactions once a second at most. */
static void test_source_transactions__are_those_of_all_sessions(void **state)
{
    struct source *s = database_source(*state, "link", NULL);
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct error e = {0};
    uint64_t before = 0, now = 0, until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    must(source_transactions(s, &before, &e), &e);
    for (unsigned n = 0; n < 500; n++)
        database_run(pg, "SELECT 1");
    do {
        if (clock_mono_us() > until)
            fail_msg("%llu transactions, then %llu", (unsigned long long)before, (unsigned long long)now);
        clock_sleep_us(50000);
        database_run(pg, "SELECT 1");
        must(source_transactions(s, &now, &e), &e);
    } while (now < before + 500);
    PQfinish(pg);
    source_close(s);
}

static void test_source_replication_lag__is_0_without_a_standby(void **state)
{
    struct source *s = database_source(*state, "link", NULL);
    assert_true(lag_of(s) == 0);
    source_close(s);
}

static void test_source_replication_lag__grows_while_a_standby_does_not_replay(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres standby;
    struct error e = {0};
    PGconn *pg = database_connect(primary, "postgres", "test");
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    PGconn *on_standby = database_connect(&standby, "postgres", "test");
    struct source *s = database_source(primary, "link", NULL);
    (void)wait_for_lag(s, pg, 0, 1);
    database_run(on_standby, "SELECT pg_wal_replay_pause()");
    double first = wait_for_lag(s, pg, 2, 20);
    (void)wait_for_lag(s, pg, first + 1, 40);
    database_run(on_standby, "SELECT pg_wal_replay_resume()");
    (void)wait_for_lag(s, pg, 0, 1);
    source_close(s);
    PQfinish(on_standby);
    PQfinish(pg);
    temp_postgres_fini(&standby);
}

/* A role without special rights sees that there is a standby, but not the standby's state. */
static void test_source_replication_lag__is_unknown_to_a_role_without_rights(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres standby;
    struct error e = {0};
    char dsn[128];
    PGconn *pg = database_connect(primary, "postgres", "test");
    database_run(pg, "CREATE ROLE app LOGIN; GRANT SELECT ON link TO app");
    (void)snprintf(dsn, sizeof(dsn), "postgresql://app@127.0.0.1:%u/postgres", (unsigned)primary->port);
    const struct source_config config = {.dsn = dsn, .table = "link", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    must(source_open(&s, &config, 10000, &e), &e);
    assert_true(lag_of(s) == 0);
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    (void)wait_for_lag(s, pg, -1, -1);
    database_run(pg, "GRANT pg_monitor TO app");
    (void)wait_for_lag(s, pg, 0, 1);
    source_close(s);
    PQfinish(pg);
    temp_postgres_fini(&standby);
}

static struct source *open_standby(const struct source *s, const struct temp_postgres *standby)
{
    struct source *there = NULL;
    struct error e = {0};
    const struct source_watch none = {NULL, NULL};
    must(source_open_another(&there, s, standby->dsn, "twinbloom reader", none, &e), &e);
    return there;
}

static bool has_replayed(struct source *s, const char *barrier)
{
    struct error e = {0};
    struct source_replay replay;
    must(source_has_replayed(s, barrier, &replay, &e), &e);
    return replay.there;
}

static void wait_until_replayed(struct source *s, const char *lsn)
{
    uint64_t until = clock_mono_us() + PATIENCE_MS * UINT64_C(1000);
    while (!has_replayed(s, lsn)) {
        if (clock_mono_us() > until)
            fail_msg("the standby does not replay up to %s", lsn);
        clock_sleep_us(10000);
    }
}

/* Expect the rows by id, the rows by blocks, and those newer than a horizon. */
static void expect_rows(struct source *s, unsigned last, const char *horizon, unsigned newer_from)
{
    struct rows by_id = {0}, by_blocks = {0}, newer = {0};
    struct source_part *parts = NULL;
    size_t count = 0;
    struct error e = {0};
    (void)rows_between(s, 0, "", "", 7, rows_note, &by_id);
    rows_expect(&by_id, 3, last);
    must(source_parts(s, &parts, &count, &e), &e);
    assert_int_equal(count, 1);
    struct scan_range range = {.blocks = true, .after = "0", .upto = "99"};
    (void)rows_read(s, &range, parts, 1, rows_note, &by_blocks);
    rows_expect(&by_blocks, 3, last);
    const struct scan_options o = {
        .limit = 99, .parts = parts, .newer = horizon, .timeout_ms = 20000, .row = rows_note, .arg = &newer};
    struct scan_range again = {.blocks = true, .after = "0", .upto = "99"};
    size_t rows = 0;
    bool ended = false;
    must(scan_page(s, &again, &o, &rows, &ended, &e), &e);
    assert_true(ended);
    rows_expect(&newer, newer_from, last);
    free(parts);
}

/* A standby that has replayed up to the barrier shows everything that ended on the primary before the
 * barrier. */
static void test_source_barrier__is_where_a_standby_shows_what_ended_before(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres standby;
    struct error e = {0};
    char lsn[SOURCE_BARRIER_MAX], horizon[SOURCE_HORIZON_MAX];
    PGconn *pg = database_connect(primary, "postgres", "test");
    database_short_links(pg, "read_there", 100);
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    PGconn *on_standby = database_connect(&standby, "postgres", "test");
    struct source *s = database_source(primary, "read_there", NULL);
    must(source_horizon(s, horizon, &e), &e);
    must(source_barrier(s, lsn, &e), &e);
    struct source *there = open_standby(s, &standby);
    wait_until_replayed(there, lsn);
    expect_rows(there, 300, horizon, 301);
    database_run(on_standby, "SELECT pg_wal_replay_pause()");
    database_run(pg,
                 "INSERT INTO read_there (id, code, url) OVERRIDING SYSTEM VALUE VALUES (303, 'c303', '')");
    must(source_barrier(s, lsn, &e), &e);
    assert_true(has_replayed(s, lsn)); /* true on the primary at once */
    for (int n = 0; n < 5; n++) {
        clock_sleep_us(100000);
        assert_false(has_replayed(there, lsn));
    }
    expect_rows(there, 300, horizon, 301);
    database_run(on_standby, "SELECT pg_wal_replay_resume()");
    wait_until_replayed(there, lsn);
    expect_rows(there, 303, horizon, 303);
    assert_int_equal(source_barrier(there, lsn, &e), ERR_REFUSED); /* only the primary can set a barrier */
    source_close(there);
    source_close(s);
    PQfinish(on_standby);
    PQfinish(pg);
    temp_postgres_fini(&standby);
}

/* --- readers --- */

static void count_row(void *arg, unsigned i, const char *key, size_t length)
{
    (void)i;
    (void)key;
    (void)length;
    (*(unsigned *)arg)++;
}

static enum err no_page(void *arg, unsigned i, struct error *e)
{
    (void)arg;
    (void)i;
    (void)e;
    return ERR_OK;
}

/* Read the table of @s at @dsn by one reader. Returns the number of rows. */
static unsigned read_at(struct source *s, const char *dsn, const char *barrier, enum err *code,
                        struct error *e)
{
    unsigned rows = 0;
    struct readers *r = NULL;
    const struct readers_options o = {.source = s,
                                      .dsn = dsn,
                                      .barrier = barrier,
                                      .count = 1,
                                      .timeout_ms = 1000,
                                      .page_ms = 50,
                                      .page_rows = 1000,
                                      .work = {.tables = 1},
                                      .row = count_row,
                                      .page = no_page,
                                      .arg = &rows};
    must(readers_start(&r, &o, e), e);
    while (!readers_ended(r, 100, code, e))
        ;
    readers_stop(r);
    return rows;
}

static void expect_refusal(struct source *s, const struct temp_postgres *at, const char *barrier,
                           const char *why)
{
    enum err code = ERR_OK;
    struct error e = {0};
    assert_int_equal(read_at(s, at->dsn, barrier, &code, &e), 0);
    assert_int_equal(code, ERR_TIMEOUT);
    if (strstr(e.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, why);
}

static void expect_reading(struct source *s, const struct temp_postgres *at, const char *barrier,
                           unsigned rows)
{
    enum err code = ERR_OK;
    struct error e = {0};
    assert_int_equal(read_at(s, at->dsn, barrier, &code, &e), rows);
    must(code, &e);
}

/* One standby has replayed, and the reader's connection leads to another one. */
static void test_readers__read_only_where_all_that_they_need_is_shown(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres first, second, stranger;
    struct error e = {0};
    char barrier[SOURCE_BARRIER_MAX];
    PGconn *pg = database_connect(primary, "postgres", "test");
    database_short_links(pg, "read_by", 100);
    must(temp_postgres_start_standby(&first, primary, &e), &e);
    must(temp_postgres_start_standby(&second, primary, &e), &e);
    must(temp_postgres_start(&stranger, NULL, &e), &e);
    PGconn *on_second = database_connect(&second, "postgres", "test");
    struct source *s = database_source(primary, "read_by", NULL);
    struct source *waited_for = open_standby(s, &first);
    database_run(on_second, "SELECT pg_wal_replay_pause()");
    database_run(pg, "INSERT INTO read_by (id, code, url) OVERRIDING SYSTEM VALUE VALUES (303, 'c303', '')");
    must(source_barrier(s, barrier, &e), &e);
    wait_until_replayed(waited_for, barrier);
    expect_reading(s, &first, barrier, 101);
    expect_reading(s, primary, barrier, 101);
    expect_refusal(s, &second, barrier, "the standby has not replayed up to ");
    database_run(on_second, "SELECT pg_wal_replay_resume()");
    expect_reading(s, &second, barrier, 101);

    database_run(on_second, "SELECT pg_promote()");
    must(source_barrier(s, barrier, &e), &e);
    expect_refusal(s, &second, barrier, "the server is no standby, and not the server of dsn");
    struct source *promoted = open_standby(s, &second);
    must(source_barrier(promoted, barrier, &e), &e);
    expect_reading(s, &second, barrier, 101);
    expect_refusal(s, &first, barrier,
                   "the standby is on timeline 00000001, and the server of dsn on 00000002");
    PGconn *there = database_connect(&stranger, "postgres", "test");
    database_short_links(there, "read_by", 100);
    expect_refusal(s, &stranger, barrier, "the server has another system identifier than the one of dsn");
    PQfinish(there);
    source_close(promoted);
    source_close(waited_for);
    source_close(s);
    PQfinish(on_second);
    PQfinish(pg);
    temp_postgres_fini(&stranger);
    temp_postgres_fini(&second);
    temp_postgres_fini(&first);
}

/* The standby cancels a read that delays the replay of a lock. */
static void test_scan_page__says_so_when_a_standby_must_go_on_replaying(void **state)
{
    const struct temp_postgres *primary = *state;
    struct temp_postgres standby;
    struct error e = {0};
    PGconn *pg = database_connect(primary, "postgres", "test");
    database_run(pg, "CREATE FUNCTION linger() RETURNS bool LANGUAGE plpgsql AS "
                     "$$ BEGIN PERFORM pg_sleep(0.1); RETURN true; END $$");
    database_short_links(pg, "conflicts", 100);
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    PGconn *on_standby = database_connect(&standby, "postgres", "test");
    database_run(on_standby, "ALTER SYSTEM SET max_standby_streaming_delay = '100ms'");
    database_run(on_standby, "SELECT pg_reload_conf()");
    struct source *s = database_source(primary, "conflicts", "public.linger()");
    struct source *there = open_standby(s, &standby);
    struct scan_range range = {.after = ""};
    struct rows seen = {0};
    const struct scan_options o = {.limit = 100, .timeout_ms = 30000, .row = rows_note, .arg = &seen};
    size_t rows = 0;
    bool ended = false;
    assert_int_equal(PQsendQuery(pg, "SELECT pg_sleep(1); ALTER TABLE conflicts ADD extra int"), 1);
    enum err err = scan_page(there, &range, &o, &rows, &ended, &e);
    if (err != ERR_TIMEOUT || strstr(e.text, "conflict with recovery") == NULL)
        fail_msg("%s: %s", error_name(err), e.text);
    assert_string_equal(range.after, "");
    source_close(there);
    source_close(s);
    PQfinish(on_standby);
    PQfinish(pg);
    temp_postgres_fini(&standby);
}

static int setup(void **state)
{
    if (database_setup(state) != 0)
        return -1;
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_short_links(pg, "link", 100);
    database_run(pg, "CREATE TABLE written (n int)");
    PQfinish(pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_source_transactions__are_those_of_all_sessions),
        cmocka_unit_test(test_source_replication_lag__is_0_without_a_standby),
        cmocka_unit_test(test_source_replication_lag__grows_while_a_standby_does_not_replay),
        cmocka_unit_test(test_source_replication_lag__is_unknown_to_a_role_without_rights),
        cmocka_unit_test(test_source_barrier__is_where_a_standby_shows_what_ended_before),
        cmocka_unit_test(test_readers__read_only_where_all_that_they_need_is_shown),
        cmocka_unit_test(test_scan_page__says_so_when_a_standby_must_go_on_replaying),
    };
    return cmocka_run_group_tests(tests, setup, database_teardown);
}
