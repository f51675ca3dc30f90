/* SPDX-License-Identifier: MIT */
/* Which rows come again, and which WAL the server may remove: when a consumer dies, when the server ends the
 * stream, while no rows come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/streams.h"

static uint64_t patience(void)
{
    return clock_mono_us() + STREAMS_PATIENCE_MS * UINT64_C(1000);
}

/* Return the next batch that has rows. */
static struct feed_batch next_rows(struct stream *s)
{
    struct feed_batch batch;
    struct error e = {0};
    must(stream_next(s, &batch, STREAMS_PATIENCE_MS, &e), &e);
    assert_true(batch.count > 0);
    return batch;
}

static void expect_id(const struct feed_batch *batch, size_t row, const char *id)
{
    assert_true(row < batch->count);
    assert_int_equal(batch->rows[row].length, strlen(id));
    assert_memory_equal(batch->rows[row].id, id, strlen(id));
}

/* Take a row, report it, and wait to be killed. CMocka does not work in this process. */
static _Noreturn void consume_and_hang(const struct stream_options *options, int out)
{
    struct stream *s = NULL;
    struct feed_batch batch = {0};
    bool taken = stream_open(&s, options, NULL) == ERR_OK && stream_start(s, NULL) == ERR_OK &&
                 stream_next(s, &batch, STREAMS_PATIENCE_MS, NULL) == ERR_OK && batch.count > 0;
    (void)!write(out, taken ? "t" : "f", 1);
    for (;;)
        pause();
}

static void consume_and_die(const struct stream_options *options)
{
    int ends[2];
    char outcome = '\0';
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        consume_and_hang(options, ends[1]);
    assert_int_equal(read(ends[0], &outcome, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(outcome, 't');
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_stream_next__hands_out_again_what_a_dead_consumer_had_taken(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "died");
    struct streams_table t;
    streams_options(&t, p, "died");
    stream_close(streams_begin(&t.options));
    database_run(pg, "INSERT INTO died VALUES (1)");
    database_run(pg, "INSERT INTO died VALUES (2)");
    consume_and_die(&t.options);
    struct stream *s = streams_resume(&t.options);
    struct seen seen = {0};
    streams_take(s, p, &seen);
    assert_string_equal(buffer_text(&seen.ids), "1\n2\n");
    stream_close(s); /* without a confirmation */
    s = streams_resume(&t.options);
    streams_expect(s, p, "1\n2\n");
    stream_close(s);
    s = streams_resume(&t.options);
    streams_expect(s, p, "");
    stream_close(s);
    streams_drop(p, "died", ERR_OK);
    buffer_fini(&seen.ids);
    PQfinish(pg);
}

static void test_stream_confirm__confirms_one_transaction_and_leaves_the_next(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "apart");
    struct streams_table t;
    streams_options(&t, p, "apart");
    struct stream *s = streams_begin(&t.options);
    struct error e = {0};
    database_run(pg, "INSERT INTO apart VALUES (1)");
    struct seen seen = {0};
    streams_take(s, p, &seen);
    database_run(pg, "INSERT INTO apart VALUES (2)");
    uint64_t first = seen.mark;
    streams_take(s, p, &seen);
    assert_int_equal(seen.rows, 2);
    must(stream_confirm(s, first, &e), &e);
    stream_close(s);
    assert_true(streams_slot(p, "apart").confirmed_lsn == first);
    s = streams_resume(&t.options);
    streams_expect(s, p, "2\n");
    stream_close(s);
    streams_drop(p, "apart", ERR_OK);
    buffer_fini(&seen.ids);
    PQfinish(pg);
}

/* Insert a row and write a checkpoint. The checkpoint records which transactions run, so the server could
 * begin to read there. */
static void write_log(PGconn *pg, const char *table, int id)
{
    database_run(pg, "INSERT INTO %s VALUES (%d)", table, id);
    database_run(pg, "CHECKPOINT");
}

static void test_stream_confirm__lets_the_server_remove_its_log(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "removed");
    struct streams_table t;
    streams_options(&t, p, "removed");
    struct stream *s = streams_begin(&t.options);
    struct stream_slot before = streams_slot(p, "removed");
    struct seen seen = {0};
    struct error e = {0};
    for (int i = 0; i < 5; i++) {
        write_log(pg, "removed", i);
        streams_take(s, p, &seen);
    }
    clock_sleep_us(1100 * 1000); /* time for a report, if one were sent */
    must(stream_tend(s, &e), &e);
    struct stream_slot unconfirmed = streams_slot(p, "removed");
    assert_true(unconfirmed.confirmed_lsn == before.confirmed_lsn);
    assert_true(unconfirmed.restart_lsn == before.restart_lsn);
    assert_true(unconfirmed.retained > before.retained);
    struct stream_slot after = unconfirmed;
    uint64_t until = patience();
    for (int i = 5; after.restart_lsn <= seen.mark; i++) {
        assert_true(clock_mono_us() < until);
        must(stream_confirm(s, seen.mark, &e), &e);
        write_log(pg, "removed", i);
        struct seen more = {0};
        streams_take(s, p, &more);
        must(stream_confirm(s, more.mark, &e), &e);
        clock_sleep_us(100 * 1000);
        after = streams_slot(p, "removed");
        buffer_fini(&more.ids);
    }
    assert_true(after.confirmed_lsn >= seen.mark);
    stream_close(s);
    streams_drop(p, "removed", ERR_OK);
    buffer_fini(&seen.ids);
    PQfinish(pg);
}

static void test_stream_next__moves_on_while_its_table_is_idle(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "idle");
    PGconn *busy = streams_table(p, "busy");
    struct streams_table t;
    streams_options(&t, p, "idle");
    struct stream *s = streams_begin(&t.options);
    struct error e = {0};
    uint64_t begun = streams_server_lsn(p);
    uint64_t until = patience();
    for (int i = 0; streams_slot(p, "idle").restart_lsn <= begun; i++) {
        assert_true(clock_mono_us() < until);
        write_log(busy, "busy", i);
        struct feed_batch batch;
        must(stream_next(s, &batch, 100, &e), &e);
        assert_int_equal(batch.count, 0);
    }
    assert_true(streams_slot(p, "idle").confirmed_lsn > begun);
    /* a row that comes between is not left out */
    database_run(pg, "INSERT INTO idle VALUES (1)");
    write_log(busy, "busy", -1);
    streams_expect(s, p, "1\n");
    stream_close(s);
    streams_drop(p, "idle", ERR_OK);
    PQfinish(busy);
    PQfinish(pg);
}

static void test_stream_next__goes_on_when_it_is_opened_again(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "cut");
    struct streams_table t;
    streams_options(&t, p, "cut");
    struct stream *s = streams_begin(&t.options);
    struct error e = {0};
    database_run(pg, "INSERT INTO cut VALUES (1)");
    struct feed_batch batch = next_rows(s);
    expect_id(&batch, 0, "1");
    char *ended = database_value(
        pg,
        "SELECT pg_terminate_backend(active_pid, 10000) FROM pg_replication_slots WHERE slot_name = 'cut'");
    assert_string_equal(ended, "t");
    free(ended);
    database_run(pg, "INSERT INTO cut VALUES (2)");
    enum err err = ERR_OK;
    while (err == ERR_OK)
        err = stream_next(s, &batch, STREAMS_PATIENCE_MS, &e);
    assert_int_equal(err, ERR_UNREACHABLE);
    assert_string_equal(e.text, "Postgres: terminating connection due to administrator command");
    assert_int_equal(stream_confirm(s, batch.mark, &e), ERR_UNREACHABLE);
    assert_int_equal(stream_tend(s, &e), ERR_UNREACHABLE);
    stream_close(s);
    s = streams_resume(&t.options);
    streams_expect(s, p, "1\n2\n");
    stream_close(s);
    streams_drop(p, "cut", ERR_OK);
    PQfinish(pg);
}

/* The connection lasts longer than wal_sender_timeout: once while no rows come, once while nothing is
 * read. */
static void test_stream_tend__keeps_the_connection(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "tended");
    char dsn[160];
    (void)snprintf(dsn, sizeof(dsn), "%s?options=-c%%20wal_sender_timeout%%3D2s", p->dsn);
    struct streams_table t;
    streams_options(&t, p, "tended");
    t.options.dsn = dsn;
    struct stream *s = streams_begin(&t.options);
    struct error e = {0};
    struct feed_batch batch;
    uint64_t until = clock_mono_us() + 3500 * 1000;
    while (clock_mono_us() < until) { /* no rows come; keepalives are answered */
        must(stream_next(s, &batch, 700, &e), &e);
        assert_int_equal(batch.count, 0);
    }
    /* more than the socket buffers hold */
    database_run(pg, "INSERT INTO tended SELECT n, repeat('x', 1000) FROM generate_series(1, 30000) AS n");
    until = clock_mono_us() + 3500 * 1000;
    while (clock_mono_us() < until) {
        must(stream_tend(s, &e), &e);
        clock_sleep_us(50 * 1000);
    }
    struct seen seen = {0};
    streams_take(s, p, &seen);
    assert_int_equal(seen.rows, 30000);
    buffer_fini(&seen.ids);
    stream_close(s);
    streams_drop(p, "tended", ERR_OK);
    PQfinish(pg);
}

/* A server that shuts down asks its readers to confirm everything, and waits for that. */
static void test_stream_confirm__is_told_at_once_to_a_server_that_asks(void **state)
{
    struct temp_postgres *p = *state;
    PGconn *pg = streams_table(p, "asked");
    struct streams_table t;
    streams_options(&t, p, "asked");
    struct stream *s = streams_begin(&t.options);
    struct error e = {0};
    database_run(pg, "INSERT INTO asked VALUES (1)");
    struct feed_batch batch = next_rows(s);
    PQfinish(pg);
    process_signal(&p->process, SIGINT);
    uint64_t until = clock_mono_us() + 1500 * 1000;
    uint64_t mark = batch.mark;
    while (clock_mono_us() < until) {
        must(stream_next(s, &batch, 50, &e), &e);
        mark = batch.mark;
        assert_int_equal(batch.count, 0);
        assert_true(process_running(&p->process));
    }
    must(stream_confirm(s, mark, &e), &e); /* the confirmation is enough */
    must(process_wait(&p->process, STREAMS_PATIENCE_MS, &e), &e);
    assert_int_equal(stream_next(s, &batch, STREAMS_PATIENCE_MS, &e), ERR_UNREACHABLE);
    stream_close(s);
    must(temp_postgres_restart(p, &e), &e);
    streams_drop(p, "asked", ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_next__hands_out_again_what_a_dead_consumer_had_taken),
        cmocka_unit_test(test_stream_confirm__confirms_one_transaction_and_leaves_the_next),
        cmocka_unit_test(test_stream_confirm__lets_the_server_remove_its_log),
        cmocka_unit_test(test_stream_next__moves_on_while_its_table_is_idle),
        cmocka_unit_test(test_stream_next__goes_on_when_it_is_opened_again),
        cmocka_unit_test(test_stream_tend__keeps_the_connection),
        cmocka_unit_test(test_stream_confirm__is_told_at_once_to_a_server_that_asks),
    };
    return cmocka_run_group_tests(tests, streams_setup, database_teardown);
}
