/* SPDX-License-Identifier: MIT */
/* Rows that are only written to the table get into the filter by logical replication. */
#include "tests/integration/following.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define LOGICAL "follow_by = logical\npublication = links\n"
#define SLOT "twinbloom_short_link"
#define MARKS "twinbloom:{" FILTER "}:marks"

static int setup(void **state)
{
    (void)state;
    return following_start(LOGICAL "follow = yes\n", "slot_wal_max = 64MiB\n");
}

static void expect_slots(const char *count)
{
    following_slots(SLOT, count);
}

static void test_logical__explicit_ids_and_changed_keys_follow(void **state)
{
    (void)state;
    following_running(0);
    fixture_sql(
        following.db,
        "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (-5, 'c900000001', 'u')");
    fixture_sql(following.db, "UPDATE short_link SET code = 'c900000002' WHERE code = 'c7'");
    following_soon(0, 900000001, 2);
}

/* Have @count rows come in one transaction that waits for a synchronous standby: it is in the WAL before its
 * rows are visible. */
static PGconn *insert_unseen(uint64_t first, uint64_t count)
{
    PGconn *waits = PQconnectdb(following.postgres.dsn);
    fixture_sql(waits, "SET synchronous_commit = on");
    fixture_sql(following.db, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    fixture_sql(following.db, "SELECT pg_reload_conf()");
    clock_sleep_us(500 * 1000);
    char sql[200];
    (void)snprintf(
        sql, sizeof(sql),
        "INSERT INTO short_link (code, url) SELECT 'c' || n, 'u' FROM generate_series(%llu, %llu) n",
        (unsigned long long)first, (unsigned long long)(first + count - 1));
    assert_int_equal(PQsendQuery(waits, sql), 1);
    clock_sleep_us(2000 * 1000);
    return waits;
}

static void let_be_seen(PGconn *waits)
{
    fixture_sql(following.db, "SET synchronous_commit = local");
    fixture_sql(following.db, "ALTER SYSTEM RESET synchronous_standby_names");
    fixture_sql(following.db, "SELECT pg_reload_conf()");
    for (PGresult *r; (r = PQgetResult(waits)) != NULL; PQclear(r))
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQfinish(waits);
}

static void test_logical__a_row_that_is_not_visible_yet_is_awaited(void **state)
{
    (void)state;
    following_running(0);
    uint64_t first = following_numbers(10);
    PGconn *waits = insert_unseen(first, 10);
    uint64_t present = 0;
    struct error e = {""};
    must(client_mexists(&following.client[0], FILTER, fixture_code, first, 10, &present, NULL, &e), e);
    assert_int_equal(present, 0);
    let_be_seen(waits);
    following_soon(0, first, 10);
}

/* It has the build's question in the middle of many rows. */
static void test_logical__a_build_waits_for_earlier_rows(void **state)
{
    enum { MANY = 60000 };
    (void)state;
    following_hold();
    uint64_t first = following_numbers(MANY);
    PGconn *waits = insert_unseen(first, MANY);
    following_ask();
    let_be_seen(waits);
    following_answered(first, MANY);
}

static void test_logical__a_build_relies_on_the_tail(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    uint64_t first = following_numbers(2000);
    for (unsigned i = 0; i < 20; i++)
        fixture_insert(following.db, first + i * 100, 100);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "follower");
    following_soon(0, first, 2000);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    fixture_all_present(&following, 0, first, 2000);
}

static void drop_slot(void)
{
    fixture_sql(following.db,
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" SLOT
                "'");
    for (int i = 0; i < 200; i++) {
        PGresult *r = PQexec(following.db, "SELECT pg_drop_replication_slot('" SLOT "')");
        bool dropped = PQresultStatus(r) == PGRES_TUPLES_OK;
        PQclear(r);
        if (dropped)
            break;
        PQclear(PQexec(
            following.db,
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" SLOT
            "'"));
        clock_sleep_us(10 * 1000);
    }
}

static void test_logical__a_slot_that_is_dropped_is_made_anew(void **state)
{
    (void)state;
    following_running(0);
    drop_slot();
    expect_slots("1");
    fixture_wait(&following, 0, "follow_error", "");
    following_running(0);
    following_expect_rows(0, 100);
}

/* Wait until somebody waits for the end of the transaction with this id. */
static void expect_a_wait_for(const char *xid)
{
    char sql[200];
    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND transactionid::text = '%s'", xid);
    for (uint64_t until = clock_mono_us() + FOLLOWING_SOON_MS * 1000ull;; clock_sleep_us(20 * 1000)) {
        char *waits = following_value(sql);
        bool is = strcmp(waits, "t") == 0;
        free(waits);
        if (is)
            return;
        if (clock_mono_us() > until)
            fail_msg("nobody waits for transaction %s", xid);
    }
}

/* A transaction with an id, which the caller ends by fixture_sql() and PQfinish(). */
static PGconn *open_transaction(char *xid, size_t size)
{
    PGconn *db = PQconnectdb(following.postgres.dsn);
    fixture_sql(db, "SET synchronous_commit = local");
    fixture_sql(db, "BEGIN");
    PGresult *r = PQexec(db, "SELECT pg_current_xact_id()::text");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    (void)snprintf(xid, size, "%s", PQgetvalue(r, 0, 0));
    PQclear(r);
    return db;
}

/* Its commit is in the WAL before the slot's first position, so the slot does not send it, and others see its
 * rows only after the follower has read what came before the slot. */
static void test_logical__a_row_that_is_not_visible_while_the_slot_is_made_is_not_missed(void **state)
{
    (void)state;
    char one[24], other[24], sql[200];
    following_running(0);
    uint64_t first = following_numbers(10);
    PGconn *late = PQconnectdb(following.postgres.dsn);
    fixture_sql(late, "SET synchronous_commit = on");
    fixture_sql(following.db, "SET synchronous_commit = local");
    PGconn *db = open_transaction(one, sizeof(one));
    drop_slot();
    expect_a_wait_for(one); /* the slot is made: it waits for all that is open, twice */
    PGconn *next = open_transaction(other, sizeof(other));
    fixture_sql(db, "COMMIT");
    expect_a_wait_for(other);
    fixture_sql(following.db, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    fixture_sql(following.db, "SELECT pg_reload_conf()");
    clock_sleep_us(500 * 1000);
    (void)snprintf(
        sql, sizeof(sql),
        "INSERT INTO short_link (code, url) SELECT 'c' || n, 'u' FROM generate_series(%llu, %llu) n",
        (unsigned long long)first, (unsigned long long)first + 9);
    assert_int_equal(PQsendQuery(late, sql), 1);
    clock_sleep_us(500 * 1000);
    fixture_sql(next, "COMMIT");
    expect_slots("1");
    fixture_wait(&following, 0, "follow_error", "");
    following_running(0);
    clock_sleep_us(3000 * 1000); /* until the follower has looked at the table */
    fixture_sql(following.db, "ALTER SYSTEM RESET synchronous_standby_names");
    fixture_sql(following.db, "SELECT pg_reload_conf()");
    for (PGresult *r; (r = PQgetResult(late)) != NULL; PQclear(r))
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQfinish(late);
    PQfinish(next);
    PQfinish(db);
    following_soon(0, first, 10);
}

/* The slot is made, and the metadata node goes back to before the follower's marks of now. @ends: so does the
 * follower, before it has read what came before the slot. */
static void goes_back_while_the_slot_is_made(bool ends)
{
    char one[24];
    struct error e = {""};
    struct client redis = {0};
    following_running(0);
    following_expect_rows(0, 10);
    unsigned owner = following_owner(0);
    must(client_open(&redis, following.redis[0].port, 10000, &e), e);
    following_mark(&redis, FILTER, "public.short_link");
    redisReply *marks = client_command(&redis, "DUMP " MARKS);
    assert_int_equal(marks->type, REDIS_REPLY_STRING);
    uint64_t first = following_numbers(10);
    PGconn *db = open_transaction(one, sizeof(one));
    drop_slot();
    expect_a_wait_for(one);
    fixture_insert(following.db, first, 10); /* before the slot's first position */
    must(client_ok(&redis, &e, "RESTORE " MARKS " 0 %b REPLACE", marks->str, marks->len), e);
    freeReplyObject(marks);
    client_close(&redis);
    if (ends)
        assert_int_equal(kill(following.daemon[owner].process.pid, SIGSTOP), 0);
    fixture_sql(db, "COMMIT");
    PQfinish(db);
    if (ends) {
        expect_slots("1");
        daemon_kill(&following.daemon[owner]);
    }
    following_running(1 - owner);
    following_soon(1 - owner, first, 10);
    if (!ends)
        return;
    must(daemon_launch(&following.daemon[owner], &e), e);
    fixture_reconnect(&following, owner);
}

static void test_logical__a_gap_is_read_where_the_metadata_node_goes_back(void **state)
{
    (void)state;
    goes_back_while_the_slot_is_made(false);
}

static void test_logical__a_gap_is_read_where_the_metadata_node_goes_back_and_the_follower_ends(void **state)
{
    (void)state;
    goes_back_while_the_slot_is_made(true);
}

/* By another hand, while nobody follows: rows between the two slots are in none. */
static void test_logical__a_slot_that_is_made_again_while_nobody_follows_leaves_a_gap(void **state)
{
    (void)state;
    following_running(0);
    following_expect_rows(0, 10);
    uint64_t first = following_numbers(10);
    following_stop();
    fixture_sql(following.db, "SELECT pg_drop_replication_slot('" SLOT "')");
    fixture_insert(following.db, first, 10);
    fixture_sql(following.db, "SELECT pg_create_logical_replication_slot('" SLOT "', 'pgoutput')");
    following_start_again();
    following_running(0);
    following_soon(0, first, 10);
}

/* A table that was out of its publication for a while, and is in it again when the build asks. */
static void test_logical__a_publication_that_was_off_is_not_relied_on(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    uint64_t first = following_numbers(50);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&following, 0, "job_step", "hold");
    fixture_sql(following.db, "ALTER PUBLICATION links DROP TABLE short_link");
    fixture_insert(following.db, first, 50);
    fixture_sql(following.db, "UPDATE short_link SET code = 'c900000004' WHERE code = 'c8'");
    fixture_sql(following.db, "ALTER PUBLICATION links ADD TABLE short_link (id)");
    fixture_ask(&following, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "rows");
    following_soon(0, first, 50);
    following_soon(0, 900000004, 1);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    following_running(0);
}

/* Without a build the follower reads the rows above its marks itself. */
static void test_logical__rows_while_a_publication_was_off_are_read_by_ids(void **state)
{
    (void)state;
    following_running(0);
    following_expect_rows(0, 10);
    uint64_t first = following_numbers(50);
    fixture_sql(following.db, "ALTER PUBLICATION links SET (publish = 'delete')");
    fixture_insert(following.db, first, 50);
    fixture_sql(following.db, "ALTER PUBLICATION links SET (publish = 'insert, update')");
    following_soon(0, first, 50);
    following_running(0);
}

static void test_logical__a_publication_that_was_off_while_nobody_followed_leaves_a_gap(void **state)
{
    (void)state;
    following_running(0);
    following_expect_rows(0, 10);
    uint64_t first = following_numbers(50);
    following_stop();
    fixture_sql(following.db, "ALTER PUBLICATION links SET (publish = 'delete')");
    fixture_insert(following.db, first, 50);
    fixture_sql(following.db, "ALTER PUBLICATION links SET (publish = 'insert, update')");
    following_start_again();
    following_running(0);
    following_soon(0, first, 50);
}

static void end_reader(void)
{
    fixture_sql(following.db,
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '" SLOT
                "' AND active");
}

/* The follower is held after its first look at the slot, where it writes to Redis. Until then it waits for
 * the publication's catalog, which it reads before that look. */
static void test_logical__a_slot_that_goes_while_it_is_opened_leaves_no_gap(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis = {0};
    following_running(0);
    following_expect_rows(0, 10);
    must(client_open(&redis, following.redis[0].port, 10000, &e), e);
    uint64_t first = following_numbers(50);
    end_reader(); /* first: the lock is then taken before the follower's next attempt */
    fixture_sql(following.db, "BEGIN");
    fixture_sql(following.db, "LOCK TABLE pg_publication IN ACCESS EXCLUSIVE MODE");
    fixture_insert(following.db, first, 50);
    for (int i = 0; i < 500; i++) {
        char *waits =
            following_value("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE "
                            "NOT l.granted AND l.relation = 'pg_publication'::regclass AND a.query LIKE "
                            "'%pg_publication p%'");
        bool is = strcmp(waits, "0") != 0;
        free(waits);
        if (is)
            break;
        clock_sleep_us(20 * 1000);
    }
    freeReplyObject(client_command(&redis, "CLIENT PAUSE 700 WRITE"));
    fixture_sql(following.db, "COMMIT");
    clock_sleep_us(250 * 1000);
    fixture_sql(following.db, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE "
                              "slot_name = '" SLOT "' AND NOT active");
    client_close(&redis);
    expect_slots("1");
    following_running(0);
    following_soon(0, first, 50);
}

/* Without a follower the slot only exists during a build. */
static void test_logical__a_tail_that_is_turned_off_leaves_no_slot(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_running(0);
    following_rewrite(LOGICAL "follow = no\n");
    expect_slots("0");
    fixture_wait(&following, 0, "follow_state", "none");
    uint64_t first = following_numbers(3000);
    fixture_insert(following.db, first, 1000); /* without a follower: the scan reads these rows */
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    for (unsigned i = 0; i < 20; i++)
        fixture_insert(following.db, first + 1000 + i * 100, 100);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    expect_slots("1");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "follower");
    following_soon(0, first, 3000);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    expect_slots("0");
    fixture_all_present(&following, 0, first, 3000);
    uint64_t unfollowed = following_numbers(200);
    fixture_insert(following.db, unfollowed, 200);
    following_rewrite(LOGICAL "follow = yes\n");
    following_running(0);
    following_soon(0, unfollowed, 200); /* a new slot does not report these rows */
    expect_slots("1");
}

/* A table comes that a pattern means, too. A build scans it, and relies on the follower for later rows. */
static void test_logical__a_build_does_not_rely_on_a_follower_that_lacks_a_table(void **state)
{
    struct client *c = &following.client[0];
    struct error e = {""};
    uint64_t first = following_numbers(200);
    char sql[160];
    (void)state;
    fixture_sql(following.db, "CREATE TABLE week_1 (id bigserial PRIMARY KEY, code text)");
    fixture_sql(following.db, "CREATE PUBLICATION everything FOR ALL TABLES");
    following_rewrite(LOGICAL "follow = yes\n[filter weeks]\ncapacity = 10000\ntable = week_*\nkey = code\n"
                              "follow_by = logical\npublication = everything\nfollow = yes\n");
    must(client_wait_status(c, "weeks", "follow_state", "running", FOLLOWING_SOON_MS, &e), e);
    must(client_wait_status(c, "weeks", "job_state", "done", FOLLOWING_ROLL_CALL_MS, &e), e);
    fixture_sql(following.db, "CREATE TABLE week_2 (id bigserial PRIMARY KEY, code text)");
    fixture_ask(&following, 0, "TB.REBUILD weeks HOLD");
    must(client_wait_status(c, "weeks", "job_step", "hold", FOLLOWING_ROLL_CALL_MS, &e), e);
    (void)snprintf(sql, sizeof(sql),
                   "INSERT INTO week_2 (code) SELECT 'c' || i FROM generate_series(%llu, %llu) AS i",
                   (unsigned long long)first, (unsigned long long)first + 199);
    fixture_sql(following.db, sql);
    fixture_ask(&following, 0, "TB.CUTOVER weeks");
    must(client_wait_status(c, "weeks", "phase", "SWITCHED", FOLLOWING_ROLL_CALL_MS, &e), e);
    following_soon_in(0, "weeks", first, 200);
    fixture_ask(&following, 0, "TB.FINISH weeks");
    must(client_wait_status(c, "weeks", "job_state", "done", FOLLOWING_ROLL_CALL_MS, &e), e);
    following_rewrite(LOGICAL "follow = yes\n");
    fixture_sql(following.db, "DROP PUBLICATION everything");
}

/* The publication is missing, so the build reads the rows itself. */
static void test_logical__a_build_goes_on_without_a_tail_that_cannot_begin(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_rewrite("follow_by = logical\npublication = absent\nfollow = no\n");
    expect_slots("0");
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    uint64_t first = following_numbers(100);
    fixture_insert(following.db, first, 100);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "rows");
    following_soon(0, first, 100); /* a coordinator may answer from the generation before for a moment */
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    following_rewrite(LOGICAL "follow = yes\n");
    following_running(0);
}

/* Postgres does not start with another wal_level while a logical slot exists, so the slot is removed, as an
 * operator must do. */
static void restart_with(const char *wal_level)
{
    char path[PATH_MAX + 64], sql[64];
    struct error e = {""};
    (void)snprintf(sql, sizeof(sql), "ALTER SYSTEM SET wal_level = %s", wal_level);
    fixture_sql(following.db, sql);
    temp_postgres_stop(&following.postgres);
    (void)snprintf(path, sizeof(path), "%s/data/pg_replslot/" SLOT "/state", following.postgres.directory);
    (void)unlink(path);
    (void)snprintf(path, sizeof(path), "%s/data/pg_replslot/" SLOT, following.postgres.directory);
    (void)rmdir(path);
    must(temp_postgres_restart(&following.postgres, &e), e);
    PQreset(following.db);
}

/* The build reads the rows itself, status reports the error, and afterwards no row is missed. */
static void test_logical__a_wal_level_that_is_lowered_while_a_build_runs(void **state)
{
    (void)state;
    struct error e = {""};
    char by[32];
    following_hold();
    restart_with("replica");
    fixture_sql(
        following.db,
        "INSERT INTO short_link (id, code, url) OVERRIDING SYSTEM VALUE VALUES (-6, 'c900000003', 'u')");
    uint64_t first = following_numbers(100);
    fixture_insert(following.db, first, 100);
    fixture_wait(&following, 0, "follow_error",
                 "wal_level is not logical; ALTER SYSTEM SET wal_level = logical, then restart Postgres");
    fixture_ask(&following, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "rows");
    following_soon(0, 900000003, 1); /* a coordinator may answer from the generation before for a moment */
    following_soon(0, first, 100);
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    uint64_t unfollowed = following_numbers(100);
    fixture_insert(following.db, unfollowed, 100);
    restart_with("logical");
    following_running(0);
    following_soon(0, unfollowed, 100);
    following_expect_rows(0, 100);
}

/* While nothing can be confirmed the WAL grows, but not without limit. */
static void test_logical__falls_back_when_too_much_is_kept(void **state)
{
    (void)state;
    struct error e = {""};
    following_running(0);
    daemon_kill(&following.daemon[1]); /* it would make a slot of its own once Redis is back */
    following_expect_rows(0, 100);
    temp_redis_kill(&following.redis[0]);
    uint64_t meanwhile = following_numbers(300);
    fixture_insert(following.db, meanwhile, 300);
    fixture_sql(following.db,
                "CREATE TABLE bulk AS SELECT repeat(md5(n::text), 30) FROM generate_series(1, 110000) n");
    expect_slots("0");
    must(temp_redis_restart(&following.redis[0], true, &e), e);
    fixture_wait(&following, 0, "follow_mode", "ids");
    following_running(0);
    following_back(0, meanwhile, 300);
    following_expect_rows(0, 500);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(following_test_rows_follow),
        cmocka_unit_test(following_test_late_commits),
        cmocka_unit_test(following_test_copy),
        cmocka_unit_test(test_logical__explicit_ids_and_changed_keys_follow),
        cmocka_unit_test(test_logical__a_row_that_is_not_visible_yet_is_awaited),
        cmocka_unit_test(following_test_each_phase),
        cmocka_unit_test(test_logical__a_build_relies_on_the_tail),
        cmocka_unit_test(test_logical__a_build_waits_for_earlier_rows),
        cmocka_unit_test(following_test_rows_keep_coming),
        cmocka_unit_test(following_test_owner_killed),
        cmocka_unit_test(following_test_redis_restarted),
        cmocka_unit_test(following_test_postgres_restarted),
        cmocka_unit_test(test_logical__a_slot_that_is_dropped_is_made_anew),
        cmocka_unit_test(test_logical__a_row_that_is_not_visible_while_the_slot_is_made_is_not_missed),
        cmocka_unit_test(test_logical__a_slot_that_goes_while_it_is_opened_leaves_no_gap),
        cmocka_unit_test(test_logical__a_gap_is_read_where_the_metadata_node_goes_back),
        cmocka_unit_test(test_logical__a_gap_is_read_where_the_metadata_node_goes_back_and_the_follower_ends),
        cmocka_unit_test(test_logical__a_slot_that_is_made_again_while_nobody_follows_leaves_a_gap),
        cmocka_unit_test(test_logical__a_publication_that_was_off_is_not_relied_on),
        cmocka_unit_test(test_logical__rows_while_a_publication_was_off_are_read_by_ids),
        cmocka_unit_test(test_logical__a_publication_that_was_off_while_nobody_followed_leaves_a_gap),
        cmocka_unit_test(test_logical__a_tail_that_is_turned_off_leaves_no_slot),
        cmocka_unit_test(test_logical__a_build_does_not_rely_on_a_follower_that_lacks_a_table),
        cmocka_unit_test(test_logical__a_build_goes_on_without_a_tail_that_cannot_begin),
        cmocka_unit_test(test_logical__a_wal_level_that_is_lowered_while_a_build_runs),
        cmocka_unit_test(test_logical__falls_back_when_too_much_is_kept),
    };
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, setup, following_teardown);
}
