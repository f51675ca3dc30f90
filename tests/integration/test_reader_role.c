/* SPDX-License-Identifier: MIT */
/* The role that sql/reader_role.sql makes in psql: it can do all that Twinbloom does in Postgres, and nothing
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "migrate/source/scan.h"
#include "migrate/source/transaction_wait.h"
#include "tests/integration/psql.h"
#include "tests/integration/rows.h"
#include "tests/integration/streams.h"

enum { ROWS = 1000, WAIT_MS = 20000 };

static void run_psql(const struct temp_postgres *p, const char *name, const char *const *variables)
{
    int status = -1;
    char *output = psql_file(p, name, variables, &status);
    if (status != 0)
        fail_msg("%s: psql ended with %d: %s", name, status, output);
    free(output);
}

/* Set up a schema on which no role has rights, with a table in it. The reader role gets rights on some
 * columns only. */
static PGconn *install(const struct temp_postgres *p, char dsn[128])
{
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE DATABASE app");
    database_run(pg, "REVOKE ALL ON DATABASE app FROM PUBLIC");
    PQfinish(pg);
    struct temp_postgres app = *p;
    (void)snprintf(app.dsn, sizeof(app.dsn), "postgresql://postgres@127.0.0.1:%u/app", (unsigned)p->port);
    pg = database_connect(p, "app", "test");
    database_run(pg, "CREATE SCHEMA shop; SET search_path = shop");
    database_short_links(pg, "short_link", ROWS);
    static const char *const publication[] = {"publication=twinbloom", "table=shop.short_link (id)", NULL};
    run_psql(&app, "publication", publication);
    static const char *const role[] = {"role=twinbloom_reader",
                                       "replication=REPLICATION",
                                       "database=app",
                                       "schema=shop",
                                       "table=short_link",
                                       "columns=id, code, deleted_at, ctid, xmin",
                                       NULL};
    run_psql(&app, "reader_role", role);
    (void)snprintf(dsn, 128, "postgresql://twinbloom_reader@127.0.0.1:%u/app", (unsigned)p->port);
    return pg;
}

/* Read all rows by id, and the rows that are newer than a horizon. */
static void scan_all(struct source *source)
{
    struct rows rows = {0}, newer = {0};
    char horizon[SOURCE_HORIZON_MAX];
    struct error e = {0};
    (void)rows_between(source, 0, "", "", 300, rows_note, &rows);
    rows_expect(&rows, 3, 3 * ROWS);
    must(source_horizon(source, horizon, &e), &e);
    rows_newer(source, horizon, 1000, &newer);
    assert_int_equal(newer.count, 0);
}

static void count_key(void *arg, const char *key, size_t length)
{
    (void)key;
    (void)length;
    *(size_t *)arg += 1;
}

static void settle_once(struct source *source)
{
    struct transaction_wait *settle = NULL;
    struct transaction_wait_blocker blocker;
    struct error e = {0};
    bool done = false;
    size_t waiting;
    must(transaction_wait_begin(&settle, source, &e), &e);
    while (!done)
        must(transaction_wait_poll(settle, &done, &blocker, 1, &waiting, &e), &e);
    transaction_wait_free(settle);
}

/* Do all that a job needs a source for. */
static void use_source(struct source *source)
{
    struct error e = {0};
    uint64_t rows = 0;
    char id[SOURCE_ID_MAX];
    char horizon[SOURCE_HORIZON_MAX];
    double lag = -1;
    size_t sampled = 0;
    enum source_finding finding;
    must(source_check(source, &e), &e);
    must(source_rows_estimate(source, &rows, &e), &e);
    assert_int_equal(rows, ROWS);
    must(source_last_id(source, 0, id, &e), &e);
    assert_string_equal(id, "3000");
    must(source_horizon(source, horizon, &e), &e);
    must(source_find_key(source, "c3", 2, horizon, &finding, id, &e), &e);
    assert_int_equal(finding, SOURCE_ROW_OLD);
    must(source_replication_lag(source, &lag, &e), &e);
    assert_true(lag >= 0);
    must(scan_sample(source, "", 100, count_key, &sampled, &e), &e);
    assert_true(sampled > 0);
    settle_once(source);
    scan_all(source);
}

static void use_stream(PGconn *pg, struct source *source, const char *dsn)
{
    static const char *const id[] = {"id"};
    const struct stream_table table = {"shop.short_link", id, 1};
    const struct stream_options options = {.dsn = dsn,
                                           .slot = "twinbloom",
                                           .publication = "twinbloom",
                                           .timeout_ms = 10000,
                                           .tables = &table,
                                           .table_count = 1};
    struct stream *s = streams_begin(&options);
    struct feed_batch batch;
    struct error e = {0};
    database_run(pg, "UPDATE short_link SET code = 'new' WHERE id = 3");
    must(stream_next(s, &batch, WAIT_MS, &e), &e);
    assert_int_equal(batch.count, 1);
    assert_memory_equal(batch.rows[0].id, "3", 1);
    must(stream_confirm(s, batch.mark, &e), &e);
    struct stream_slot slot;
    must(stream_slot_state(source_connection(source), "twinbloom", &slot, &e), &e);
    assert_true(slot.active);
    stream_close(s);
    must(stream_slot_drop(source_connection(source), "twinbloom", &e), &e);
}

static void refused(PGconn *pg, const char *statement)
{
    PGresult *r = PQexec(pg, statement);
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (state == NULL || strcmp(state, "42501") != 0)
        fail_msg("%s: %s", statement, PQresultErrorMessage(r));
    PQclear(r);
}

static void test_reader_role__reads_what_it_needs_and_nothing_else(void **state)
{
    const struct temp_postgres *p = *state;
    char dsn[128];
    PGconn *pg = install(p, dsn);
    const struct source_config config = {.dsn = dsn,
                                         .table = "shop.short_link",
                                         .id_column = "id",
                                         .key = "code",
                                         .where = "deleted_at IS NULL"};
    struct source *source = NULL;
    struct error e = {0};
    must(source_open(&source, &config, 10000, &e), &e);
    use_source(source);
    use_stream(pg, source, dsn);
    source_close(source);
    PGconn *reader = PQconnectdb(dsn);
    refused(reader, "SELECT url FROM shop.short_link");
    refused(reader, "SELECT * FROM shop.short_link");
    refused(reader, "INSERT INTO shop.short_link (code, url) VALUES ('x', 'y')");
    refused(reader, "UPDATE shop.short_link SET code = 'x'");
    refused(reader, "DELETE FROM shop.short_link");
    refused(reader, "CREATE TABLE shop.own (id int)");
    PQfinish(reader);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reader_role__reads_what_it_needs_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, streams_setup, database_teardown);
}
