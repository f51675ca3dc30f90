/* SPDX-License-Identifier: MIT */
/* The slot of a stream, and its prerequisites: the error for each missing one has its remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "migrate/change/stream_internal.h"
#include "tests/integration/streams.h"

/* The slot. */

static void test_stream_create_slot__makes_it_once(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "once");
    struct streams_table t;
    streams_options(&t, p, "once");
    struct stream *s = streams_open(&t.options);
    struct error e = {0};
    assert_int_equal(stream_start(s, &e), ERR_NOT_FOUND);
    assert_false(streams_slot(p, "once").exists);
    uint64_t before = streams_server_lsn(p);
    bool created = false;
    char lsn[LSN_TEXT];
    char again[LSN_TEXT];
    uint64_t made_at;
    must(stream_create_slot(s, &created, lsn, &e), &e);
    assert_true(created);
    assert_true(lsn_parse(lsn, &made_at) && made_at >= before);
    must(stream_create_slot(s, &created, again, &e), &e);
    assert_false(created);
    assert_string_equal(again, lsn);
    struct stream_slot slot = streams_slot(p, "once");
    assert_true(slot.exists && slot.is_ours && !slot.active && !slot.lost);
    assert_string_equal(slot.plugin, "pgoutput");
    assert_string_equal(slot.wal_status, "reserved");
    assert_true(slot.confirmed_lsn == made_at);
    assert_true(slot.restart_lsn > 0 && slot.restart_lsn <= made_at);
    stream_close(s);
    streams_drop(p, "once", ERR_OK);
    PQfinish(pg);
}

static void test_stream_create_slot__refuses_a_slot_of_others(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "taken");
    struct streams_table t;
    streams_options(&t, p, "taken");
    struct stream *s = streams_open(&t.options);
    struct error e = {0};
    bool created;
    char lsn[LSN_TEXT];
    static const char *const others[] = {"pg_create_physical_replication_slot('taken')",
                                         "pg_create_logical_replication_slot('taken', 'test_decoding')"};
    for (size_t i = 0; i < 2; i++) {
        database_run(pg, "SELECT %s", others[i]);
        assert_int_equal(stream_create_slot(s, &created, lsn, &e), ERR_CONFIG);
        assert_non_null(strstr(e.text, "choose another name, or SELECT pg_drop_replication_slot('taken')"));
        assert_int_equal(stream_start(s, &e), ERR_CONFIG);
        streams_drop(p, "taken", ERR_CONFIG);
        database_run(pg, "SELECT pg_drop_replication_slot('taken')");
    }
    PGconn *elsewhere = database_connect(p, "template1", "test");
    database_run(elsewhere, "SELECT pg_create_logical_replication_slot('taken', 'pgoutput')");
    assert_int_equal(stream_create_slot(s, &created, lsn, &e), ERR_CONFIG);
    assert_string_equal(e.text, "replication slot taken is another's (plugin \"pgoutput\", database "
                                "\"template1\"); choose another name, or SELECT "
                                "pg_drop_replication_slot('taken') if nobody needs it");
    streams_drop(p, "taken", ERR_CONFIG);
    database_run(elsewhere, "SELECT pg_drop_replication_slot('taken')");
    PQfinish(elsewhere);
    stream_close(s);
    PQfinish(pg);
}

static void test_stream_create_slot__says_that_all_are_in_use(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "crowded");
    struct streams_table t;
    streams_options(&t, p, "crowded");
    struct stream *s = streams_open(&t.options);
    database_run(pg, "SELECT pg_create_physical_replication_slot('filler_' || n) FROM generate_series(1, "
                     "current_setting('max_replication_slots')::int) AS n");
    struct error e = {0};
    bool created = true;
    char lsn[LSN_TEXT];
    assert_int_equal(stream_create_slot(s, &created, lsn, &e), ERR_CONFIG);
    assert_string_equal(e.text,
                        "no replication slot is left for crowded; drop one that nobody needs (see "
                        "pg_replication_slots), or ALTER SYSTEM SET max_replication_slots to more, then "
                        "restart Postgres");
    assert_false(created);
    database_run(pg, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots");
    must(stream_create_slot(s, &created, lsn, &e), &e);
    stream_close(s);
    streams_drop(p, "crowded", ERR_OK);
    PQfinish(pg);
}

static enum err refuse(void *arg, struct error *e)
{
    return *(bool *)arg ? error_set(e, ERR_CANCELLED, "enough") : ERR_OK;
}

static void test_stream_create_slot__waits_for_open_transactions_no_longer_than_allowed(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "slow");
    PGconn *open = database_connect(p, "postgres", "open");
    database_run(open, "BEGIN; INSERT INTO slow VALUES (1)");
    struct streams_table t;
    bool enough = false;
    streams_options(&t, p, "slow");
    t.options.create_timeout_ms = 300;
    t.options.watch = (struct source_watch){.fn = refuse, .arg = &enough};
    struct stream *s = streams_open(&t.options);
    struct error e = {0};
    bool created;
    char lsn[LSN_TEXT];
    assert_int_equal(stream_create_slot(s, &created, lsn, &e), ERR_TIMEOUT);
    assert_string_equal(e.text,
                        "replication slot slow waits for transactions that are open: Postgres: no answer "
                        "within 300 ms");
    assert_false(streams_slot(p, "slow").exists);
    stream_close(s);
    t.options.create_timeout_ms = STREAMS_PATIENCE_MS;
    s = streams_open(&t.options);
    enough = true;
    assert_int_equal(stream_create_slot(s, &created, lsn, &e), ERR_CANCELLED);
    assert_false(streams_slot(p, "slow").exists);
    enough = false;
    database_run(open, "COMMIT");
    must(stream_create_slot(s, &created, lsn, &e), &e);
    must(stream_start(s, &e), &e);
    streams_expect(s, p, ""); /* the scan reads the row */
    stream_close(s);
    streams_drop(p, "slow", ERR_OK);
    PQfinish(open);
    PQfinish(pg);
}

static void test_stream_start__has_the_slot_to_itself(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "single");
    struct streams_table t;
    streams_options(&t, p, "single");
    struct stream *first = streams_begin(&t.options);
    struct stream *second = streams_open(&t.options);
    struct error e = {0};
    assert_int_equal(stream_start(second, &e), ERR_BUSY);
    assert_non_null(strstr(e.text, "another connection reads from the slot: "));
    assert_true(streams_slot(p, "single").active);
    streams_drop(p, "single", ERR_BUSY);
    stream_close(first);
    must(stream_start(second, &e), &e);
    database_run(pg, "INSERT INTO single VALUES (1)");
    streams_expect(second, p, "1\n");
    assert_int_equal(stream_start(second, &e), ERR_CONFLICT);
    stream_close(second);
    streams_drop(p, "single", ERR_OK);
    streams_drop(p, "single", ERR_OK);
    assert_false(streams_slot(p, "single").exists);
    PQfinish(pg);
}

static void test_stream_close__gives_the_slot_free_at_once(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "handed_over");
    struct streams_table t;
    streams_options(&t, p, "handed_over");
    struct source *source = database_source(p, "handed_over", NULL);
    struct error e = {0};
    for (int i = 0; i < 20; i++) {
        stream_close(streams_begin(&t.options));
        must(stream_slot_drop(source_connection(source), "handed_over", &e), &e);
    }
    source_close(source);
    PQfinish(pg);
}

static void test_stream_next__needs_a_start(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "unstarted");
    struct streams_table t;
    streams_options(&t, p, "unstarted");
    struct stream *s = streams_open(&t.options);
    struct feed_batch batch;
    struct error e = {0};
    assert_int_equal(stream_next(s, &batch, 10, &e), ERR_CONFLICT);
    assert_int_equal(stream_confirm(s, 0, &e), ERR_CONFLICT);
    assert_int_equal(stream_tend(s, &e), ERR_CONFLICT);
    stream_close(s);
    PQfinish(pg);
}

/* Changes that cannot be read any more. */

static void test_stream_start__tells_a_slot_that_was_dropped(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "dropped");
    struct streams_table t;
    streams_options(&t, p, "dropped");
    struct stream *s = streams_begin(&t.options);
    database_run(pg, "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots");
    database_run(pg, "SELECT pg_drop_replication_slot('dropped')");
    struct feed_batch batch;
    struct error e = {0};
    assert_int_equal(stream_next(s, &batch, STREAMS_PATIENCE_MS, &e), ERR_UNREACHABLE);
    stream_close(s);
    s = streams_open(&t.options);
    assert_int_equal(stream_start(s, &e), ERR_NOT_FOUND);
    assert_string_equal(e.text, "there is no replication slot dropped");
    stream_close(s);
    PQfinish(pg);
}

static void test_stream_start__tells_a_slot_that_the_server_gave_up(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "given_up");
    struct streams_table t;
    streams_options(&t, p, "given_up");
    stream_close(streams_begin(&t.options));
    struct stream *s = streams_open(&t.options);
    database_run(pg, "ALTER SYSTEM SET max_slot_wal_keep_size = 0");
    database_run(pg, "SELECT pg_reload_conf()");
    for (int i = 0; i < 4; i++) {
        database_run(pg, "INSERT INTO given_up VALUES (%d)", i);
        database_run(pg, "SELECT pg_switch_wal()");
        database_run(pg, "CHECKPOINT");
    }
    assert_true(streams_slot(p, "given_up").lost);
    bool created;
    char lsn[LSN_TEXT];
    struct error e = {0};
    assert_int_equal(stream_start(s, &e), ERR_LOST);
    assert_string_equal(e.text,
                        "the server has given replication slot given_up up and removed what it had not read "
                        "(max_slot_wal_keep_size); drop the slot and rebuild");
    assert_int_equal(stream_create_slot(s, &created, lsn, &e), ERR_LOST);
    streams_drop(p, "given_up", ERR_OK);
    must(stream_create_slot(s, &created, lsn, &e), &e);
    assert_true(created);
    stream_close(s);
    streams_drop(p, "given_up", ERR_OK);
    database_run(pg, "ALTER SYSTEM RESET max_slot_wal_keep_size");
    database_run(pg, "SELECT pg_reload_conf()");
    PQfinish(pg);
}

/* The server decodes a row with the catalog as it was when the row was written. */
static void test_stream_next__tells_rows_that_were_written_without_the_publication(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "unpublished");
    struct streams_table t;
    streams_options(&t, p, "unpublished");
    stream_close(streams_begin(&t.options));
    database_run(pg, "INSERT INTO unpublished VALUES (1)");
    database_run(pg, "DROP PUBLICATION unpublished");
    streams_refuse(&t.options,
                   "publication unpublished does not exist; CREATE PUBLICATION unpublished FOR TABLE "
                   "public.unpublished WITH (publish = 'insert, update', publish_via_partition_root = true)");
    database_run(pg, "INSERT INTO unpublished VALUES (2)");
    streams_publish(pg, "unpublished");
    struct stream *s = streams_resume(&t.options);
    struct feed_batch batch = {0};
    struct error e = {0};
    enum err err = ERR_OK;
    for (size_t rows = 0; err == ERR_OK; rows += batch.count) {
        assert_in_range(rows, 0, 1);
        err = stream_next(s, &batch, STREAMS_PATIENCE_MS, &e);
    }
    assert_int_equal(err, ERR_LOST);
    const char *why = PQserverVersion(pg) < 180000 ? "publication \"unpublished\" does not exist"
                                                   : "the server has left rows out";
    assert_non_null(strstr(e.text, why));
    stream_close(s);
    streams_drop(p, "unpublished", ERR_OK);
    PQfinish(pg);
}

/* Postgres 18 reports by a warning what Postgres 15 makes an error. The SQLSTATE is the same, and the role's
 * settings do not hide the warning. */
static void test_stream_next__heeds_the_warning_that_rows_were_left_out(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "warned");
    database_run(pg, "ALTER ROLE postgres SET client_min_messages = error");
    struct streams_table t;
    streams_options(&t, p, "warned");
    stream_close(streams_begin(&t.options));
    static const struct {
        const char *level, *state;
        enum err wanted;
    } cases[] = {{"NOTICE", "55000", ERR_OK}, {"WARNING", "01000", ERR_OK}, {"WARNING", "55000", ERR_LOST}};
    for (size_t i = 0; i < 3; i++) {
        struct stream *s = streams_open(&t.options);
        struct feed_batch batch;
        struct error e = {0};
        char text[160];
        PGresult *r = NULL;
        (void)snprintf(text, sizeof(text), "DO $$ BEGIN RAISE %s 'skipped' USING ERRCODE = '%s'; END $$",
                       cases[i].level, cases[i].state);
        must(connection_command(s->connection, text, 10000, &r, &e), &e);
        PQclear(r);
        must(stream_start(s, &e), &e);
        assert_int_equal(stream_next(s, &batch, 10, &e), cases[i].wanted);
        stream_close(s);
    }
    database_run(pg, "ALTER ROLE postgres RESET ALL");
    streams_drop(p, "warned", ERR_OK);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_create_slot__makes_it_once),
        cmocka_unit_test(test_stream_create_slot__refuses_a_slot_of_others),
        cmocka_unit_test(test_stream_create_slot__says_that_all_are_in_use),
        cmocka_unit_test(test_stream_create_slot__waits_for_open_transactions_no_longer_than_allowed),
        cmocka_unit_test(test_stream_start__has_the_slot_to_itself),
        cmocka_unit_test(test_stream_close__gives_the_slot_free_at_once),
        cmocka_unit_test(test_stream_next__needs_a_start),
        cmocka_unit_test(test_stream_start__tells_a_slot_that_was_dropped),
        cmocka_unit_test(test_stream_start__tells_a_slot_that_the_server_gave_up),
        cmocka_unit_test(test_stream_next__tells_rows_that_were_written_without_the_publication),
        cmocka_unit_test(test_stream_next__heeds_the_warning_that_rows_were_left_out),
    };
    return cmocka_run_group_tests(tests, streams_setup, database_teardown);
}
