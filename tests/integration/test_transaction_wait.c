/* SPDX-License-Identifier: MIT */
/* Waiting for open transactions: which ones count, who is named as a blocker, and the horizon after a crash.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "migrate/source/transaction_wait.h"
#include "tests/integration/database.h"
#include "tests/integration/rows.h"

enum { BLOCKERS = 4 };

struct look {
    bool done;
    size_t waiting;
    struct transaction_wait_blocker blockers[BLOCKERS];
};

static struct look look(struct transaction_wait *settle)
{
    struct look l = {0};
    struct error e = {0};
    must(transaction_wait_poll(settle, &l.done, l.blockers, BLOCKERS, &l.waiting, &e), &e);
    return l;
}

/* A backend of an earlier test may still be ending. Wait until no transaction is open. */
static struct source *quiet_source(const struct temp_postgres *p, PGconn *pg)
{
    database_run(pg, "CREATE TABLE IF NOT EXISTS link (id bigserial PRIMARY KEY, code text)");
    struct source *s = database_source(p, "link", NULL);
    for (int n = 0; n < 100; n++) {
        char *open = database_value(pg, "SELECT count(*) FROM pg_locks WHERE locktype = 'virtualxid' "
                                        "AND pid <> pg_backend_pid()");
        bool quiet = strcmp(open, "0") == 0;
        free(open);
        if (quiet)
            return s;
        clock_sleep_us(50000);
    }
    fail_msg("transactions of other sessions are open");
    return s;
}

static struct transaction_wait *begin(struct source *s)
{
    struct transaction_wait *settle = NULL;
    struct error e = {0};
    must(transaction_wait_begin(&settle, s, &e), &e);
    return settle;
}

static void expect_settled(struct transaction_wait *settle)
{
    struct look l = look(settle);
    for (int i = 0; i < 200 && !l.done && l.waiting == 0; i++) { /* until the log is on disk */
        clock_sleep_us(20000);
        l = look(settle);
    }
    assert_int_equal(l.waiting, 0);
    assert_true(l.done);
}

static void test_settle_poll__is_done_at_once_when_nothing_is_open(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    struct transaction_wait *settle = begin(s);
    expect_settled(settle);
    expect_settled(settle);
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(pg);
}

static void test_settle_poll__waits_for_a_transaction_that_has_no_xid_yet(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    PGconn *writer = database_connect(*state, "postgres", "slow_writer");
    /* The first nextval() writes WAL for 32 values, and so takes an xid. The next ones take none. */
    database_run(pg, "SELECT nextval('link_id_seq')");
    database_run(writer, "BEGIN");
    char *id = database_value(writer, "SELECT nextval('link_id_seq')");
    char *xid = database_value(writer, "SELECT coalesce(pg_current_xact_id_if_assigned()::text, 'none')");
    assert_string_equal(xid, "none");
    struct transaction_wait *settle = begin(s);
    struct look l = look(settle);
    assert_false(l.done);
    assert_int_equal(l.waiting, 1);
    assert_int_equal(l.blockers[0].pid, PQbackendPID(writer));
    assert_string_equal(l.blockers[0].application, "slow_writer");
    assert_non_null(strstr(l.blockers[0].query, "pg_current_xact_id_if_assigned"));
    assert_true(l.blockers[0].age_seconds >= 0 && l.blockers[0].age_seconds < 60);
    database_run(writer, "INSERT INTO link VALUES (%s, 'late')", id);
    assert_false(look(settle).done);
    database_run(writer, "COMMIT");
    expect_settled(settle);
    free(id);
    free(xid);
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(writer);
    PQfinish(pg);
}

static void test_settle_poll__is_not_held_up_by_transactions_begun_later(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    PGconn *early = database_connect(*state, "postgres", "early");
    PGconn *late = database_connect(*state, "postgres", "late");
    database_run(early, "BEGIN; INSERT INTO link (code) VALUES ('early')");
    struct transaction_wait *settle = begin(s);
    database_run(late, "BEGIN; INSERT INTO link (code) VALUES ('late')");
    assert_int_equal(look(settle).waiting, 1);
    database_run(early, "COMMIT; BEGIN; INSERT INTO link (code) VALUES ('the same session, later')");
    expect_settled(settle);
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(early);
    PQfinish(late);
    PQfinish(pg);
}

static void test_settle_poll__names_the_oldest_first_and_counts_all(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    PGconn *writers[BLOCKERS + 2];
    for (int i = 0; i < BLOCKERS + 2; i++) {
        writers[i] = database_connect(*state, "postgres", i == 0 ? "oldest" : "younger");
        database_run(writers[i], "BEGIN");
        clock_sleep_us(2000);
    }
    struct transaction_wait *settle = begin(s);
    struct look l = look(settle);
    assert_int_equal(l.waiting, BLOCKERS + 2);
    assert_string_equal(l.blockers[0].application, "oldest");
    for (int i = 1; i < BLOCKERS; i++)
        assert_true(l.blockers[i - 1].age_seconds >= l.blockers[i].age_seconds);
    for (int i = 0; i < BLOCKERS + 2; i++)
        PQfinish(writers[i]);
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(pg);
}

static void test_settle_poll__waits_for_a_transaction_that_is_prepared_meanwhile(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    PGconn *writer = database_connect(*state, "postgres", "writer");
    database_run(writer, "BEGIN; INSERT INTO link (code) VALUES ('prepared')");
    struct transaction_wait *settle = begin(s);
    assert_false(look(settle).done);
    database_run(writer, "PREPARE TRANSACTION 'odd \"gid\", {x}'");
    struct look l = look(settle);
    assert_false(l.done);
    assert_int_equal(l.waiting, 1);
    assert_int_equal(l.blockers[0].pid, 0);
    assert_string_equal(l.blockers[0].query, "odd \"gid\", {x}");
    /* A later prepared transaction does not matter, not even under the same name. */
    database_run(pg, "BEGIN; INSERT INTO link (code) VALUES ('later')");
    database_run(pg, "PREPARE TRANSACTION 'later'");
    assert_int_equal(look(settle).waiting, 1);
    database_run(pg, "COMMIT PREPARED 'odd \"gid\", {x}'");
    database_run(pg, "BEGIN; INSERT INTO link (code) VALUES ('same name')");
    database_run(pg, "PREPARE TRANSACTION 'odd \"gid\", {x}'");
    expect_settled(settle);
    database_run(pg, "ROLLBACK PREPARED 'later'");
    database_run(pg, "ROLLBACK PREPARED 'odd \"gid\", {x}'");
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(writer);
    PQfinish(pg);
}

static void test_settle_poll__waits_for_what_was_prepared_long_before(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    database_run(pg, "BEGIN; INSERT INTO link (code) VALUES ('before')");
    database_run(pg, "PREPARE TRANSACTION 'before'");
    struct transaction_wait *settle = begin(s);
    assert_int_equal(look(settle).waiting, 1);
    assert_false(look(settle).done);
    database_run(pg, "ROLLBACK PREPARED 'before'");
    expect_settled(settle);
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(pg);
}

static void test_settle_poll__does_not_wait_for_other_databases(void **state)
{
    PGconn *pg = database_connect(*state, "postgres", "test");
    struct source *s = quiet_source(*state, pg);
    database_run(pg, "CREATE DATABASE other");
    PGconn *other = database_connect(*state, "other", "other");
    PGconn *another = database_connect(*state, "other", "another");
    database_run(other, "CREATE TABLE t (n int)");
    database_run(other, "BEGIN; INSERT INTO t VALUES (1)");
    database_run(other, "PREPARE TRANSACTION 'elsewhere'");
    database_run(another, "BEGIN; INSERT INTO t VALUES (2)");
    struct transaction_wait *settle = begin(s);
    expect_settled(settle);
    transaction_wait_free(settle);
    database_run(other, "ROLLBACK PREPARED 'elsewhere'");
    source_close(s);
    PQfinish(other);
    PQfinish(another);
    PQfinish(pg);
}

static void test_settle_poll__sees_others_without_special_rights(void **state)
{
    const struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    source_close(quiet_source(p, pg));
    database_run(pg, "CREATE ROLE plain LOGIN; GRANT SELECT ON link TO plain");
    char dsn[128];
    (void)snprintf(dsn, sizeof(dsn), "postgresql://plain@127.0.0.1:%u/postgres", (unsigned)p->port);
    struct source_config config = {.dsn = dsn, .table = "link", .id_column = "id", .key = "code"};
    struct source *s = NULL;
    struct error e = {0};
    must(source_open(&s, &config, 10000, &e), &e);
    database_run(pg, "BEGIN");
    struct transaction_wait *settle = begin(s);
    struct look l = look(settle);
    assert_int_equal(l.waiting, 1);
    assert_int_equal(l.blockers[0].pid, PQbackendPID(pg));
    assert_string_equal(l.blockers[0].application, "test");
    assert_true(l.blockers[0].age_seconds < 0); /* hidden from this role */
    database_run(pg, "COMMIT");
    expect_settled(settle);
    transaction_wait_free(settle);
    source_close(s);
    PQfinish(pg);
}

/* Restart a server. If the server finds this file after a clean shutdown, it starts as a standby without a
 * primary. */
static void restart_as(struct temp_postgres *p, bool standby)
{
    char path[PATH_MAX + 32];
    struct error e = {0};
    (void)snprintf(path, sizeof(path), "%s/data/standby.signal", p->directory);
    temp_postgres_stop(p);
    if (standby) {
        FILE *f = fopen(path, "we");
        assert_non_null(f);
        assert_int_equal(fclose(f), 0);
    } else {
        assert_int_equal(remove(path), 0);
    }
    must(temp_postgres_restart(p, &e), &e);
}

static void test_settle_begin__refuses_a_standby(void **state)
{
    struct temp_postgres *p = *state;
    PGconn *pg = database_connect(p, "postgres", "test");
    source_close(quiet_source(p, pg));
    PQfinish(pg);
    restart_as(p, true);
    struct source *s = database_source(p, "link", NULL);
    struct transaction_wait *settle = NULL;
    struct error e = {0};
    assert_int_equal(transaction_wait_begin(&settle, s, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "standby"));
    assert_int_equal(source_check(s, &e), ERR_CONFIG);
    assert_non_null(strstr(e.text, "target_session_attrs=primary"));
    source_close(s);
    restart_as(p, false);
    s = database_source(p, "link", NULL);
    must(source_check(s, &e), &e);
    source_close(s);
}

static void expect_row(struct source *s, const char *horizon, unsigned wanted)
{
    struct rows rows = {0};
    rows_newer(s, horizon, 1000, &rows);
    assert_int_equal(rows.count, wanted);
}

/* Here commits are asynchronous: after a crash, transactions that had ended are gone, and others get their
 * ids. */
static void test_settle__leaves_a_horizon_that_outlasts_a_crash(void **state)
{
    void *own = NULL;
    (void)state;
    assert_int_equal(database_start(&own, "synchronous_commit = off\nwal_writer_delay = 3s\n"), 0);
    struct temp_postgres *p = own;
    PGconn *pg = database_connect(p, "postgres", "test");
    char horizon[SOURCE_HORIZON_MAX];
    struct error e = {0};
    database_short_links(pg, "crash", 10);
    struct source *s = database_source(p, "crash", NULL);
    database_run(pg, "CHECKPOINT");
    for (unsigned i = 0; i < 50; i++)
        database_run(pg, "INSERT INTO crash (id, code, url) OVERRIDING SYSTEM VALUE VALUES (%u, 'c%u', '')",
                     4000 + i, 3000 + i);
    must(source_horizon(s, horizon, &e), &e);
    struct transaction_wait *settle = begin(s);
    struct look l = {0};
    for (int i = 0; i < 1000 && !l.done; i++) {
        clock_sleep_us(20000);
        l = look(settle);
    }
    assert_true(l.done);
    transaction_wait_free(settle);
    source_close(s);
    process_signal(&p->process, SIGQUIT); /* from now on nothing is written */
    must(process_wait(&p->process, 10000, &e), &e);
    PQfinish(pg);
    must(temp_postgres_restart(p, &e), &e);
    pg = database_connect(p, "postgres", "test");
    s = database_source(p, "crash", NULL);
    database_run(pg, "INSERT INTO crash (id, code, url) OVERRIDING SYSTEM VALUE VALUES (1, 'c99', '')");
    expect_row(s, horizon, 1);
    source_close(s);
    PQfinish(pg);
    assert_int_equal(database_teardown(&own), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settle_poll__is_done_at_once_when_nothing_is_open),
        cmocka_unit_test(test_settle_poll__waits_for_a_transaction_that_has_no_xid_yet),
        cmocka_unit_test(test_settle_poll__is_not_held_up_by_transactions_begun_later),
        cmocka_unit_test(test_settle_poll__names_the_oldest_first_and_counts_all),
        cmocka_unit_test(test_settle_poll__waits_for_a_transaction_that_is_prepared_meanwhile),
        cmocka_unit_test(test_settle_poll__waits_for_what_was_prepared_long_before),
        cmocka_unit_test(test_settle_poll__does_not_wait_for_other_databases),
        cmocka_unit_test(test_settle_poll__sees_others_without_special_rights),
        cmocka_unit_test(test_settle_begin__refuses_a_standby),
        cmocka_unit_test(test_settle__leaves_a_horizon_that_outlasts_a_crash),
    };
    return cmocka_run_group_tests(tests, database_setup, database_teardown);
}
