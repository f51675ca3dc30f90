/* SPDX-License-Identifier: MIT */
/* An outbox as its reader sees it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/outboxes.h"

enum { TIMEOUT_MS = 10000, TRIES = 10, POLL_MS = 500 };

/* Create a table and its outbox "of_<name>", and open the outbox. */
static struct outbox *new_outbox(const struct temp_postgres *p, PGconn *pg, const char *table,
                                 const char *notify)
{
    char outbox[64];
    (void)snprintf(outbox, sizeof(outbox), "of_%s", table);
    database_run(pg, "CREATE TABLE %s (id int PRIMARY KEY, code text)", table);
    outboxes_install(p, &(struct outboxes_setup){.table = table, .outbox = outbox, .notify = notify});
    return outboxes_open(p, outbox, table);
}

static void assert_waiting(PGconn *pg, const char *outbox, const char *count)
{
    char *found = database_value(pg, "SELECT count(*) FROM %s", outbox);
    assert_string_equal(found, count);
    free(found);
}

static void test_outbox_confirm__deletes_the_batches_up_to_its_mark(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *o = new_outbox(*state, pg, "marks", NULL);
    struct error e = {0};
    uint64_t before = outboxes_next(o, "");
    database_run(pg, "INSERT INTO marks VALUES (1), (2)");
    uint64_t first = outboxes_next(o, "1|2");
    database_run(pg, "INSERT INTO marks VALUES (3)");
    uint64_t second = outboxes_next(o, "3");
    database_run(pg, "INSERT INTO marks VALUES (4)");
    must(outbox_confirm(o, before, &e), &e);
    assert_waiting(pg, "of_marks", "4");
    must(outbox_confirm(o, first, &e), &e);
    must(outbox_confirm(o, first, &e), &e);
    outboxes_next(o, "4");
    assert_waiting(pg, "of_marks", "2");
    assert_int_equal(outbox_confirm(o, second + 2, &e), ERR_RANGE);
    assert_waiting(pg, "of_marks", "2");
    uint64_t last = outboxes_next(o, ""); /* the mark of an empty batch covers all batches before it */
    must(outbox_confirm(o, last, &e), &e);
    assert_waiting(pg, "of_marks", "0");
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox__finds_rows_that_are_committed_late(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *o = new_outbox(*state, pg, "late", NULL);
    PGconn *slow = database_connect(*state, "postgres", "slow");
    PGconn *slower = database_connect(*state, "postgres", "slower");
    struct error e = {0};
    database_run(slow, "BEGIN; INSERT INTO late VALUES (1)");
    database_run(slower, "BEGIN; INSERT INTO late VALUES (2)");
    database_run(pg, "INSERT INTO late VALUES (3)");
    uint64_t mark = outboxes_next(o, "3");
    database_run(slow, "COMMIT"); /* row 1 has a smaller number than row 3, but is not in the batch */
    must(outbox_confirm(o, mark, &e), &e);
    mark = outboxes_next(o, "1");
    must(outbox_confirm(o, mark, &e), &e);
    outboxes_next(o, "");
    database_run(slower, "COMMIT");
    mark = outboxes_next(o, "2");
    must(outbox_confirm(o, mark, &e), &e);
    assert_waiting(pg, "of_late", "0");
    outbox_close(o);
    PQfinish(slower);
    PQfinish(slow);
    PQfinish(pg);
}

static void test_outbox_next__gives_rows_with_their_table_and_bytes(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    database_run(pg, "CREATE TABLE \"Odd Name\" (a text, b int, PRIMARY KEY (a, b))");
    outboxes_install(*state,
                     &(struct outboxes_setup){
                         .table = "\"Odd Name\"", .id = "a,b", .columns = "", .outbox = "\"The Outbox\""});
    struct outbox *o = outboxes_open(*state, "\"The Outbox\"", "public.\"Odd Name\"");
    database_run(pg, "INSERT INTO \"Odd Name\" VALUES (E'\\t\\n\\\\', -7)");
    char *relid = database_value(pg, "SELECT '\"Odd Name\"'::regclass::oid");
    struct feed_batch batch;
    struct error e = {0};
    must(outbox_next(o, &batch, 0, &e), &e);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.rows[0].relid, strtoul(relid, NULL, 10));
    static const char id[] = "\\t\\n\\\\\t-7";
    assert_int_equal(batch.rows[0].length, sizeof(id) - 1);
    assert_memory_equal(batch.rows[0].id, id, sizeof(id) - 1);
    free(relid);
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox_next__hands_out_no_more_than_can_be_remembered(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *o = new_outbox(*state, pg, "many", NULL);
    struct error e = {0};
    struct feed_batch batch;
    uint64_t third = 0;
    database_run(pg, "INSERT INTO many SELECT n FROM generate_series(1, 52000) AS n");
    for (unsigned n = 1; n <= 10; n++) {
        must(outbox_next(o, &batch, 0, &e), &e);
        assert_int_equal(batch.count, OUTBOX_BATCH_MAX);
        assert_false(batch.all);
        assert_int_equal(strtoul(batch.rows[0].id, NULL, 10), (n - 1) * OUTBOX_BATCH_MAX + 1);
        third = n == 3 ? batch.mark : third;
    }
    assert_int_equal(outbox_next(o, &batch, 0, &e), ERR_CONFLICT);
    assert_int_equal(batch.count, 0);
    assert_false(batch.all);
    must(outbox_confirm(o, third, &e), &e);
    assert_waiting(pg, "of_many", "37000");
    must(outbox_next(o, &batch, 0, &e), &e);
    assert_int_equal(batch.count, 2000);
    assert_true(batch.all);
    assert_int_equal(strtoul(batch.rows[0].id, NULL, 10), 50001);
    must(outbox_confirm(o, batch.mark, &e), &e);
    assert_waiting(pg, "of_many", "0");
    outbox_close(o);
    PQfinish(pg);
}

/* Insert a row soon after a reader has begun to wait. Return how long the reader waited, in ms. */
static uint64_t wait_for_row(const struct temp_postgres *p, struct outbox *o, const char *table, unsigned id)
{
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        char dsn[160];
        char text[96];
        (void)snprintf(dsn, sizeof(dsn), "%s", p->dsn);
        (void)snprintf(text, sizeof(text), "SELECT pg_sleep(0.05); INSERT INTO %s VALUES (%u)", table, id);
        PGconn *pg = PQconnectdb(dsn);
        _exit(PQresultStatus(PQexec(pg, text)) == PGRES_COMMAND_OK ? 0 : 1);
    }
    struct feed_batch batch;
    struct error e = {0};
    uint64_t begin = clock_mono_us();
    must(outbox_next(o, &batch, TIMEOUT_MS, &e), &e);
    uint64_t ms = (clock_mono_us() - begin) / 1000;
    assert_int_equal(batch.count, 1);
    assert_int_equal(strtoul(batch.rows[0].id, NULL, 10), id);
    int status;
    assert_int_equal(waitpid(writer, &status, 0), writer);
    assert_int_equal(status, 0);
    return ms;
}

static void test_outbox_next__is_woken_up_or_looks_every_half_second(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *silent = new_outbox(*state, pg, "silent", "false");
    uint64_t ms = wait_for_row(*state, silent, "silent", 1);
    assert_true(ms < TIMEOUT_MS);
    outbox_close(silent);
    struct outbox *loud = new_outbox(*state, pg, "loud", "true");
    unsigned n = 1;
    while (wait_for_row(*state, loud, "loud", n) >=
           POLL_MS - 10) /* the machine may be slow at times, but not in every round */
        assert_true(++n < TRIES);
    outbox_close(loud);
    PQfinish(pg);
}

static void test_outbox_next__gives_an_empty_batch_when_its_time_has_passed(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *o = new_outbox(*state, pg, "empty", NULL);
    struct feed_batch batch;
    struct error e = {0};
    uint64_t begin = clock_mono_us();
    database_run(pg, "NOTIFY twinbloom, 'public.another'");
    must(outbox_next(o, &batch, 700, &e), &e);
    assert_int_equal(batch.count, 0);
    assert_true(clock_mono_us() - begin >= 700000);
    must(outbox_confirm(o, batch.mark, &e), &e);
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox__gives_rows_again_when_a_reader_was_killed(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    outbox_close(new_outbox(*state, pg, "killed", NULL));
    database_run(pg, "INSERT INTO killed VALUES (1), (2)");
    pid_t reader = fork();
    assert_true(reader >= 0);
    if (reader == 0) {
        struct outbox *o = outboxes_open(*state, "of_killed", "killed");
        outboxes_next(o, "1|2");
        (void)raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    struct outbox *o = outboxes_open(*state, "of_killed", "killed");
    uint64_t old = outboxes_next(o, "1|2");
    outbox_close(o);
    o = outboxes_open(*state, "of_killed", "killed");
    outboxes_next(o, "1|2");
    struct error e = {0};
    must(outbox_confirm(o, old, &e), &e); /* a mark of a reader that is closed */
    assert_waiting(pg, "of_killed", "2");
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox__is_opened_again_when_the_connection_was_lost(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *o = new_outbox(*state, pg, "cut", NULL);
    struct feed_batch batch;
    double lag;
    struct error e = {0};
    database_run(pg, "INSERT INTO cut VALUES (1)");
    uint64_t mark = outboxes_next(o, "1");
    database_run(pg, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
                     "'twinbloom'");
    assert_int_equal(outbox_confirm(o, mark, &e), ERR_UNREACHABLE);
    assert_int_equal(outbox_next(o, &batch, 0, &e), ERR_UNREACHABLE);
    assert_int_equal(batch.count, 0);
    assert_int_equal(outbox_lag(o, &lag, &e), ERR_UNREACHABLE);
    outbox_close(o);
    o = outboxes_open(*state, "of_cut", "cut");
    mark = outboxes_next(o, "1");
    must(outbox_confirm(o, mark, &e), &e);
    /* The connection is lost while the reader waits. */
    pid_t killer = fork();
    assert_true(killer >= 0);
    if (killer == 0) {
        PGconn *own = PQconnectdb(((const struct temp_postgres *)*state)->dsn);
        PQclear(PQexec(own, "SELECT pg_sleep(0.1), pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                            "application_name = 'twinbloom'"));
        _exit(0);
    }
    assert_int_equal(outbox_next(o, &batch, TIMEOUT_MS, &e), ERR_UNREACHABLE);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    outbox_close(o);
    PQfinish(pg);
}

static enum err end_third(void *arg, struct error *e)
{
    int *calls = arg;
    return ++*calls == 3 ? error_set(e, ERR_CANCELLED, "enough") : ERR_OK;
}

static void test_outbox_next__ends_when_its_watch_says_so_and_can_be_called_again(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    outbox_close(new_outbox(p, pg, "watched", NULL));
    int calls = 0;
    struct outbox_options options = {.dsn = p->dsn,
                                     .outbox = "of_watched",
                                     .application = "watcher",
                                     .timeout_ms = TIMEOUT_MS,
                                     .watch = {.fn = end_third, .arg = &calls}};
    struct outbox *o = NULL;
    struct feed_batch batch;
    struct error e = {0};
    must(outbox_open(&o, &options, &e), &e);
    calls = 0;
    assert_int_equal(outbox_next(o, &batch, TIMEOUT_MS, &e), ERR_CANCELLED);
    assert_non_null(strstr(e.text, "enough"));
    database_run(pg, "INSERT INTO watched VALUES (1)");
    uint64_t mark = outboxes_next(o, "1");
    database_run(pg, "BEGIN; LOCK TABLE of_watched");
    calls = 0;
    assert_int_equal(outbox_confirm(o, mark, &e), ERR_CANCELLED);
    database_run(pg, "COMMIT");
    must(outbox_confirm(o, mark, &e), &e);
    assert_waiting(pg, "of_watched", "0");
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox__times_out_behind_a_lock_and_goes_on(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    outbox_close(new_outbox(p, pg, "locked", NULL));
    struct outbox_options options = {.dsn = p->dsn, .outbox = "of_locked", .timeout_ms = 400};
    struct outbox *o = NULL;
    struct feed_batch batch;
    double lag;
    struct error e = {0};
    must(outbox_open(&o, &options, &e), &e);
    database_run(pg, "INSERT INTO locked VALUES (1); BEGIN; LOCK TABLE of_locked");
    assert_int_equal(outbox_next(o, &batch, TIMEOUT_MS, &e), ERR_TIMEOUT);
    assert_int_equal(outbox_lag(o, &lag, &e), ERR_TIMEOUT);
    database_run(pg, "COMMIT");
    uint64_t mark = outboxes_next(o, "1");
    database_run(pg, "BEGIN; LOCK TABLE of_locked");
    assert_int_equal(outbox_confirm(o, mark, &e), ERR_TIMEOUT);
    database_run(pg, "COMMIT");
    outboxes_next(o, "");
    must(outbox_confirm(o, mark, &e), &e);
    assert_waiting(pg, "of_locked", "0");
    outbox_close(o);
    PQfinish(pg);
}

static void test_outbox_lag__is_the_age_of_the_oldest_row(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct outbox *o = new_outbox(*state, pg, "lagging", NULL);
    double lag = 99;
    struct error e = {0};
    must(outbox_lag(o, &lag, &e), &e);
    assert_true(lag == 0);
    database_run(pg, "INSERT INTO lagging VALUES (1), (2); UPDATE of_lagging SET created_at = now() - "
                     "interval '1 hour' WHERE id = '1'");
    outboxes_next(o, "1|2");
    must(outbox_lag(o, &lag, &e), &e);
    assert_true(lag >= 3600 && lag < 3700);
    outbox_close(o);
    PQfinish(pg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outbox_confirm__deletes_the_batches_up_to_its_mark),
        cmocka_unit_test(test_outbox__finds_rows_that_are_committed_late),
        cmocka_unit_test(test_outbox_next__gives_rows_with_their_table_and_bytes),
        cmocka_unit_test(test_outbox_next__hands_out_no_more_than_can_be_remembered),
        cmocka_unit_test(test_outbox_next__is_woken_up_or_looks_every_half_second),
        cmocka_unit_test(test_outbox_next__gives_an_empty_batch_when_its_time_has_passed),
        cmocka_unit_test(test_outbox__gives_rows_again_when_a_reader_was_killed),
        cmocka_unit_test(test_outbox__is_opened_again_when_the_connection_was_lost),
        cmocka_unit_test(test_outbox_next__ends_when_its_watch_says_so_and_can_be_called_again),
        cmocka_unit_test(test_outbox__times_out_behind_a_lock_and_goes_on),
        cmocka_unit_test(test_outbox_lag__is_the_age_of_the_oldest_row),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
