/* SPDX-License-Identifier: MIT */
/* Readers whose pages all see one snapshot: rows that move, tables that change, and other servers. */
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
#include "migrate/source/transaction_wait.h"
#include "tests/integration/database.h"
#include "tests/integration/reading.h"
#include "tests/integration/rows.h"

enum { ROWS = 3000 };

static const struct source_watch nobody = {NULL, NULL};

/* Each page that ends runs @sql. */
struct pass {
    struct rows rows;
    PGconn *pg;
    const char *sql;
    unsigned pages;
};

static void on_row(void *arg, unsigned i, const char *key, size_t length)
{
    (void)i;
    rows_note(&((struct pass *)arg)->rows, key, length);
}

static enum err on_page(void *arg, unsigned i, struct error *e)
{
    struct pass *pass = arg;
    (void)i;
    pass->pages++;
    PGresult *result = PQexec(pass->pg, pass->sql);
    enum err code = PQresultStatus(result) == PGRES_COMMAND_OK
                        ? ERR_OK
                        : error_set(e, ERR_REFUSED, "%s", PQresultErrorMessage(result));
    PQclear(result);
    return code;
}

/* Read all blocks of @s with one reader, in pages of one block. */
static void read_all(struct source *s, struct pass *pass)
{
    struct source *holder = NULL;
    char snapshot[SOURCE_SNAPSHOT_MAX];
    struct error e = {0};
    must(source_open_another(&holder, s, NULL, "twinbloom job", nobody, &e), &e);
    must(source_snapshot_take(holder, snapshot, &e), &e);
    struct rows_parts parts = rows_parts(holder);
    struct readers_options o = {
        .source = s,
        .count = 1,
        .timeout_ms = ROWS_WAIT_MS,
        .rows_per_second = 1e6,
        .page_ms = 1,
        .work = {.blocks = true, .tables = (unsigned)parts.count, .parts = parts.list, .snapshot = snapshot},
        .row = on_row,
        .page = on_page,
        .arg = pass};
    struct readers *r = NULL;
    must(readers_start(&r, &o, &e), &e);
    reading_end(r);
    readers_stop(r);
    free(parts.list);
    source_close(holder);
    assert_true(pass->pages > 2);
}

/* Each row of this table fills a third of a block, so an UPDATE moves it to another one. */
static void make_table(PGconn *pg, const char *name)
{
    database_run(
        pg,
        "CREATE TABLE %s (id int PRIMARY KEY, code text, n int NOT NULL DEFAULT 0, pad text);"
        "ALTER TABLE %s ALTER pad SET STORAGE PLAIN;"
        "INSERT INTO %s SELECT 3 * n, 'c' || 3 * n, 0, repeat('x', 2500) FROM generate_series(1, 1000) AS n",
        name, name, name);
}

static void test_readers__miss_no_row_that_moves(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    make_table(pg, "moving");
    struct pass pass = {.pg = pg, .sql = "UPDATE moving SET n = n + 1 WHERE id > 2000"};
    struct source *s = database_source(*state, "moving", NULL);
    read_all(s, &pass);
    rows_expect(&pass.rows, 3, ROWS);
    source_close(s);
    PQfinish(pg);
}

/* Rows go to a table that was read before, as into an archive. */
static void test_readers__miss_no_row_that_goes_to_another_table(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    make_table(pg, "archive");
    make_table(pg, "live");
    database_run(pg, "DELETE FROM archive WHERE id > 1500; DELETE FROM live WHERE id <= 1500");
    struct pass pass = {
        .pg = pg,
        .sql = "WITH gone AS (DELETE FROM live WHERE id IN (SELECT id FROM live WHERE id > 2000 LIMIT 20) "
               "RETURNING *) INSERT INTO archive SELECT * FROM gone"};
    struct source *s = database_source(*state, "archive, live", NULL);
    read_all(s, &pass);
    rows_expect(&pass.rows, 3, ROWS);
    source_close(s);
    PQfinish(pg);
}

static void test_readers__let_a_table_be_altered_between_pages(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    make_table(pg, "altered");
    struct pass pass = {.pg = pg,
                        .sql = "SET lock_timeout = '5s'; ALTER TABLE altered ALTER n SET DEFAULT 1;"
                               "LOCK TABLE altered IN ACCESS EXCLUSIVE MODE"};
    struct source *s = database_source(*state, "altered", NULL);
    read_all(s, &pass);
    rows_expect(&pass.rows, 3, ROWS);
    source_close(s);
    PQfinish(pg);
}

static void expect_no_snapshot(struct source *s, const char *snapshot)
{
    struct error e = {0};
    assert_int_equal(source_snapshot_join(s, snapshot, &e), ERR_TIMEOUT);
    assert_string_equal(e.text, "the snapshot of this pass is gone, or is another server's");
    source_close(s);
}

static struct source *another(struct source *s)
{
    struct source *more = NULL;
    struct error e = {0};
    must(source_open_another(&more, s, NULL, "twinbloom reader", nobody, &e), &e);
    return more;
}

static void test_source_snapshot_join__refuses_one_that_is_gone_or_is_not_that_one(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_short_links(pg, "joined", 10);
    struct source *s = database_source(*state, "joined", NULL), *holder = another(s);
    char snapshot[SOURCE_SNAPSHOT_MAX], other[SOURCE_SNAPSHOT_MAX + 1];
    struct error e = {0};
    must(source_snapshot_take(holder, snapshot, &e), &e);
    struct source *joined = another(s);
    must(source_snapshot_join(joined, snapshot, &e), &e);
    source_close(joined);
    /* As another server's snapshot by the same name would look. */
    (void)snprintf(other, sizeof(other), "%s0", snapshot);
    expect_no_snapshot(another(s), other);
    source_close(holder);
    for (int n = 0; n < 1000; n++) { /* until the server has noticed */
        char *open = database_value(pg, "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%%'");
        bool none = strcmp(open, "0") == 0;
        free(open);
        if (none)
            break;
        clock_sleep_us(10000);
    }
    expect_no_snapshot(another(s), snapshot);
    source_close(s);
    PQfinish(pg);
}

/* As in a job that is paused. */
static void test_source_snapshot__rests_for_longer_than_a_statement_may_take(void **state)
{
    enum { TIMEOUT_MS = 500 };
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_short_links(pg, "resting", 10);
    const struct source_config config = {.dsn = p->dsn, .table = "resting", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    char snapshot[SOURCE_SNAPSHOT_MAX], last[SOURCE_ID_MAX];
    struct error e = {0};
    must(source_open(&s, &config, TIMEOUT_MS, &e), &e);
    struct source *holder = another(s), *joined = another(s), *late = another(s);
    must(source_snapshot_take(holder, snapshot, &e), &e);
    must(source_snapshot_join(joined, snapshot, &e), &e);
    clock_sleep_us(4 * TIMEOUT_MS * 1000);
    must(source_last_id(joined, 0, last, &e), &e);
    must(source_snapshot_join(late, snapshot, &e), &e);
    source_close(late);
    source_close(joined);
    source_close(holder);
    source_close(s);
    PQfinish(pg);
}

/* Otherwise a job would wait for the sweeps of all others. */
static void test_transaction_wait__does_not_wait_for_a_snapshot(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_short_links(pg, "waited", 10);
    struct source *s = database_source(*state, "waited", NULL), *holder = another(s), *joined = another(s);
    char snapshot[SOURCE_SNAPSHOT_MAX];
    struct error e = {0};
    must(source_snapshot_take(holder, snapshot, &e), &e);
    must(source_snapshot_join(joined, snapshot, &e), &e);
    database_run(pg, "BEGIN; SELECT txid_current()");
    struct transaction_wait *wait = NULL;
    struct transaction_wait_blocker blocker;
    size_t waiting = 0;
    bool done = false;
    must(transaction_wait_begin(&wait, s, &e), &e);
    must(transaction_wait_poll(wait, &done, &blocker, 1, &waiting, &e), &e);
    assert_false(done);
    assert_int_equal(waiting, 1); /* the test's own */
    database_run(pg, "COMMIT");
    for (int n = 0; n < 1000 && !done; n++) { /* until the server has flushed its log */
        must(transaction_wait_poll(wait, &done, &blocker, 1, &waiting, &e), &e);
        clock_sleep_us(10000);
    }
    assert_true(done);
    transaction_wait_free(wait);
    source_close(joined);
    source_close(holder);
    source_close(s);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers__miss_no_row_that_moves),
        cmocka_unit_test(test_readers__miss_no_row_that_goes_to_another_table),
        cmocka_unit_test(test_readers__let_a_table_be_altered_between_pages),
        cmocka_unit_test(test_source_snapshot_join__refuses_one_that_is_gone_or_is_not_that_one),
        cmocka_unit_test(test_source_snapshot__rests_for_longer_than_a_statement_may_take),
        cmocka_unit_test(test_transaction_wait__does_not_wait_for_a_snapshot),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
