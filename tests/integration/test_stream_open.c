/* SPDX-License-Identifier: MIT */
/* The prerequisites of a stream: the error for each missing one has its remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/integration/streams.h"

static void test_stream_open__tells_a_table_that_is_not_there(void **state)
{
    struct streams_table t;
    streams_options(&t, *state, "any");
    streams_refuse(&t.options,
                   "table any does not exist for this role; correct its name, or qualify it: schema.name");
}

static void test_stream_open__tells_a_server_that_is_away(void **state)
{
    (void)state;
    struct temp_postgres nowhere = {.dsn = "postgresql://app:secret@127.0.0.1:1/app"};
    struct streams_table t;
    streams_options(&t, &nowhere, "any");
    struct stream *s = NULL;
    struct error e = {0};
    assert_int_equal(stream_open(&s, &t.options, &e), ERR_UNREACHABLE);
    assert_null(strstr(e.text, "secret"));
}

/* The publication. */

static void test_stream_open__says_what_the_publication_lacks(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(pg, "CREATE TABLE lacking (id int PRIMARY KEY, code text, "
                     "twice int GENERATED ALWAYS AS (id * 2) STORED); CREATE TABLE other (id int)");
    struct streams_table t;
    streams_options(&t, p, "lacking");
    t.options.publication = "Odd 'name\"";
#define NAME "\"Odd 'name\"\"\""
    streams_refuse(&t.options, "publication " NAME " does not exist; CREATE PUBLICATION " NAME
                               " FOR TABLE public.lacking WITH (publish = 'insert, update', "
                               "publish_via_partition_root = true)");
    database_run(pg, "CREATE PUBLICATION " NAME " FOR TABLE other WITH (publish = 'insert, update')");
    streams_refuse(&t.options,
                   "publication " NAME " does not have table public.lacking; ALTER PUBLICATION " NAME
                   " ADD TABLE public.lacking");
    database_run(pg, "ALTER PUBLICATION " NAME " ADD TABLE lacking (code)");
    streams_refuse(
        &t.options,
        "publication " NAME " does not send column id of table public.lacking; ALTER PUBLICATION " NAME
        " SET TABLE with it in the list of columns, or without a list (generated columns are not sent)");
    database_run(pg, "ALTER PUBLICATION " NAME " SET TABLE lacking (id) WHERE (id > 7)");
    streams_refuse(&t.options,
                   "publication " NAME " has a condition on rows of table public.lacking, which could hide "
                   "some; ALTER PUBLICATION " NAME
                   " DROP TABLE public.lacking, then ADD TABLE without WHERE");
    database_run(pg, "ALTER PUBLICATION " NAME " SET TABLE lacking");
    database_run(pg, "ALTER PUBLICATION " NAME " SET (publish = 'insert, delete')");
    streams_refuse(&t.options,
                   "publication " NAME " does not publish inserts and updates; ALTER PUBLICATION " NAME
                   " SET (publish = 'insert, update')");
    database_run(pg, "ALTER PUBLICATION " NAME " SET (publish = 'insert, update')");
    t.columns[0] = "nothing";
    streams_refuse(&t.options, "table public.lacking has no column nothing");
    t.columns[0] = "twice";
    streams_refuse(
        &t.options,
        "publication " NAME " does not send column twice of table public.lacking; ALTER PUBLICATION " NAME
        " SET TABLE with it in the list of columns, or without a list (generated columns are not sent)");
    t.columns[0] = "id";
    stream_close(streams_begin(&t.options)); /* the odd name reaches the server unchanged */
    streams_drop(p, "lacking", ERR_OK);
    PQfinish(pg);
}

static void test_stream_open__wants_a_partitioned_table_published_as_a_whole(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    database_run(
        pg, "CREATE SCHEMA parts; CREATE TABLE parts.whole (id int PRIMARY KEY) PARTITION BY RANGE (id);"
            "CREATE TABLE parts.piece PARTITION OF parts.whole FOR VALUES FROM (0) TO (100) PARTITION BY "
            "RANGE (id);"
            "CREATE TABLE parts.leaf PARTITION OF parts.piece FOR VALUES FROM (0) TO (50);"
            "CREATE PUBLICATION pieces FOR TABLE parts.leaf");
    struct streams_table t;
    streams_options(&t, p, "pieces");
    t.table.table = "parts.whole";
    streams_refuse(&t.options,
                   "publication pieces does not have table parts.whole; ALTER PUBLICATION pieces ADD TABLE "
                   "parts.whole");
    database_run(pg, "ALTER PUBLICATION pieces SET TABLES IN SCHEMA parts");
    stream_close(streams_open(&t.options));
    database_run(pg, "ALTER TABLE parts.leaf SET UNLOGGED");
    streams_refuse(&t.options,
                   "table parts.whole, or a partition of it, is UNLOGGED: its rows are not in the "
                   "log that is sent; ALTER TABLE ... SET LOGGED");
    database_run(pg, "ALTER TABLE parts.leaf SET LOGGED");
    stream_close(streams_open(&t.options));
    database_run(pg, "ALTER PUBLICATION pieces SET TABLE parts.whole");
    stream_close(streams_open(&t.options));
    t.table.table = "parts.piece";
    stream_close(streams_open(&t.options));
    const struct stream_table both[] = {t.table, {"parts.leaf", t.columns, 1}};
    t.options.tables = both;
    t.options.table_count = 2;
    streams_refuse(
        &t.options,
        "tables parts.piece and parts.leaf are one, or partitions of one; name only the one above");
    PQfinish(pg);
}

/* The role and the server. */

static void test_stream_open__says_how_a_role_may_replicate(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "of_role");
    database_run(pg, "CREATE ROLE plain LOGIN");
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://plain@127.0.0.1:%u/postgres", (unsigned)p->port);
    struct streams_table t;
    streams_options(&t, p, "of_role");
    t.options.dsn = dsn;
    streams_refuse(&t.options, "role plain may not replicate; ALTER ROLE plain REPLICATION");
    database_run(pg, "ALTER ROLE plain REPLICATION");
    stream_close(streams_open(&t.options));
    PQfinish(pg);
}

static void test_stream_open__says_what_the_server_lacks(void **state)
{
    (void)state;
    struct temp_postgres p;
    struct error e = {0};
    must(temp_postgres_start(&p, NULL, &e), &e);
    PGconn *pg = streams_table(&p, "of_server");
    struct streams_table t;
    streams_options(&t, &p, "of_server");
    streams_refuse(&t.options,
                   "wal_level is not logical; ALTER SYSTEM SET wal_level = logical, then restart Postgres");
    database_run(pg, "ALTER SYSTEM SET max_wal_senders = 0");
    PQfinish(pg);
    temp_postgres_stop(&p);
    must(temp_postgres_restart(&p, &e), &e);
    streams_refuse(&t.options,
                   "max_wal_senders is 0; ALTER SYSTEM SET max_wal_senders = 10, then restart Postgres");
    temp_postgres_fini(&p);
}

static void test_stream_open__refuses_a_standby(void **state)
{
    const struct temp_postgres *primary = *state;
    PGconn *pg = streams_table(primary, "of_primary");
    struct temp_postgres standby;
    struct error e = {0};
    must(temp_postgres_start_standby(&standby, primary, &e), &e);
    struct streams_table t;
    streams_options(&t, &standby, "of_primary");
    streams_refuse(
        &t.options,
        "the server is a standby; connect to the primary (target_session_attrs=primary in the dsn)");
    assert_true(streams_server_lsn(&standby) > 0);
    assert_false(streams_slot(&standby, "of_primary").exists);
    temp_postgres_fini(&standby);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_open__tells_a_table_that_is_not_there),
        cmocka_unit_test(test_stream_open__tells_a_server_that_is_away),
        cmocka_unit_test(test_stream_open__says_what_the_publication_lacks),
        cmocka_unit_test(test_stream_open__wants_a_partitioned_table_published_as_a_whole),
        cmocka_unit_test(test_stream_open__says_how_a_role_may_replicate),
        cmocka_unit_test(test_stream_open__says_what_the_server_lacks),
        cmocka_unit_test(test_stream_open__refuses_a_standby),
    };
    return cmocka_run_group_tests(tests, streams_setup, database_teardown);
}
