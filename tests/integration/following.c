/* SPDX-License-Identifier: MIT */
#include "tests/integration/following.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/integration/psql.h"

struct fixture following;

static void prepare(struct fixture *f)
{
    static const char *const publication[] = {"publication=links", "table=short_link (id)", NULL};
    static const char *const outbox[] = {
        "table=short_link", "id=id", "columns=code, deleted_at", "outbox=link_outbox", "reader=postgres",
        "notify=true",      NULL};
    (void)f;
    following_psql("publication", publication);
    following_psql("outbox", outbox);
}

void following_psql(const char *name, const char *const *variables)
{
    int status = -1;
    char *output = psql_file(&following.postgres, name, variables, &status);
    if (status != 0)
        fail_msg("%s: %s", name, output);
    free(output);
}

int following_start(const char *filter, const char *expansion)
{
    static const char *const redis[] = {"--appendonly", "yes", "--appendfsync", "always", NULL};
    char lines[256];
    (void)snprintf(lines, sizeof(lines), "lease = 2s\ntransaction_timeout = 60s\nfollow_interval = 100ms\n%s",
                   expansion);
    return fixture_start(
        &following, &(struct fixture_options){.nodes = 1,
                                              .daemons = 2,
                                              .postgres = true,
                                              .rows = FOLLOWING_ROWS,
                                              .capacity = 400000,
                                              .rate = "0.001",
                                              .expansion = lines,
                                              .service = "check_interval = 100ms\n",
                                              .grace = "8s",
                                              .filter = filter,
                                              .settings = "wal_level = logical\nwal_sender_timeout = 5s\n",
                                              .redis = redis,
                                              .prepare = prepare});
}

int following_teardown(void **state)
{
    (void)state;
    return fixture_stop(&following);
}

uint64_t following_numbers(uint64_t count)
{
    static uint64_t next = FOLLOWING_ROWS;
    uint64_t first = next;
    next += count;
    return first;
}

static void arrive_within(unsigned d, const char *filter, uint64_t first, uint64_t count, unsigned ms)
{
    struct error e = {""};
    uint64_t present = 0, absent = 0, deadline = clock_mono_us() + ms * 1000ull;
    for (;;) {
        enum err err =
            client_mexists(&following.client[d], filter, fixture_code, first, count, &present, &absent, &e);
        if (err == ERR_OK && present == count)
            return;
        if (clock_mono_us() > deadline)
            fail_msg("%llu of %llu rows, the first is c%llu; %s", (unsigned long long)(count - present),
                     (unsigned long long)count, (unsigned long long)absent, e.text);
        clock_sleep_us(50 * 1000);
    }
}

void following_soon(unsigned d, uint64_t first, uint64_t count)
{
    arrive_within(d, FILTER, first, count, FOLLOWING_SOON_MS);
}

void following_soon_in(unsigned d, const char *filter, uint64_t first, uint64_t count)
{
    arrive_within(d, filter, first, count, FOLLOWING_ROLL_CALL_MS);
}

void following_back(unsigned d, uint64_t first, uint64_t count)
{
    arrive_within(d, FILTER, first, count, FOLLOWING_ROLL_CALL_MS);
    fixture_wait(&following, d, "state", "serving");
    following_soon(d, first, count);
}

void following_stop(void)
{
    for (unsigned i = 0; i < following.daemons; i++)
        assert_true(daemon_stop(&following.daemon[i], 20000));
}

void following_start_again(void)
{
    struct error e = {""};
    for (unsigned i = 0; i < following.daemons; i++) {
        must(daemon_launch(&following.daemon[i], &e), e);
        fixture_reconnect(&following, i);
    }
}

void following_running(unsigned d)
{
    fixture_wait(&following, d, "follow_state", "running");
}

void following_hold(void)
{
    following_running(0);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&following, 0, "job_step", "hold");
}

void following_ask(void)
{
    fixture_ask(&following, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&following, 0, "job_waiting_for", "the follower to add what is committed");
    clock_sleep_us(1000 * 1000); /* until it has seen the question */
}

void following_answered(uint64_t first, uint64_t count)
{
    struct error e = {""};
    char by[32];
    fixture_wait(&following, 0, "phase", "SWITCHED");
    fixture_all_present(&following, 0, first, count);
    must(client_status(&following.client[0], FILTER, "job_caught_up_by", by, sizeof(by), &e), e);
    assert_string_equal(by, "follower");
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
}

unsigned following_owner(unsigned d)
{
    struct error e = {""};
    char owner[128], part[32];
    must(client_status(&following.client[d], FILTER, "follow_owner", owner, sizeof(owner), &e), e);
    for (unsigned i = 0; i < following.daemons; i++) {
        (void)snprintf(part, sizeof(part), "-%d-", (int)following.daemon[i].process.pid);
        if (strstr(owner, part) != NULL)
            return i;
    }
    fail_msg("the owner is %s", owner);
    return 0;
}

char *following_value(const char *sql)
{
    PGresult *r = PQexec(following.db, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(following.db));
    char *value = strdup(PQntuples(r) == 0 ? "" : PQgetvalue(r, 0, 0));
    PQclear(r);
    return value;
}

void following_expect_rows(unsigned d, uint64_t count)
{
    uint64_t first = following_numbers(count);
    fixture_insert(following.db, first, count);
    following_soon(d, first, count);
}

void following_slots(const char *slot, const char *count)
{
    char sql[200];
    uint64_t deadline = clock_mono_us() + FOLLOWING_SOON_MS * 1000ull;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '%s' AND confirmed_flush_lsn "
                   "IS NOT NULL",
                   slot);
    for (;;) {
        char *slots = following_value(sql);
        bool fits = strcmp(slots, count) == 0;
        free(slots);
        if (fits)
            return;
        if (clock_mono_us() > deadline)
            fail_msg("not %s slots", count);
        clock_sleep_us(50 * 1000);
    }
}

void following_mark(struct client *redis, const char *filter, const char *table)
{
    char sql[100];
    (void)snprintf(sql, sizeof(sql), "SELECT max(id) FROM %s", table);
    char *largest = following_value(sql);
    uint64_t until = clock_mono_us() + FOLLOWING_SOON_MS * 1000ull;
    for (bool is = false; !is; clock_sleep_us(50 * 1000)) {
        redisReply *r = client_command(redis, "HGET twinbloom:{%s}:marks %s", filter, table);
        is = r->type == REDIS_REPLY_STRING && strcmp(r->str, largest) == 0;
        freeReplyObject(r);
        if (clock_mono_us() > until)
            fail_msg("the mark is not %s", largest);
    }
    free(largest);
}

void following_configure(const char *expansion, const char *filter, bool load)
{
    struct error e = {""};
    char filters[512];
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER
                   "]\ncapacity = 400000\nerror_rate = 0.001\ntable = short_link\nkey = code\n"
                   "where = deleted_at IS NULL\ngrace = 8s\n%s",
                   filter);
    const struct daemon_options o = {.nodes = following.node_list,
                                     .dsn = following.postgres.dsn,
                                     .service = "check_interval = 100ms\n",
                                     .expansion = expansion,
                                     .filters = filters};
    for (unsigned i = 0; i < following.daemons; i++) {
        must(daemon_rewrite(&following.daemon[i], &o, &e), e);
        if (load)
            must(daemon_reload(&following.daemon[i], &e), e);
    }
}

void following_rewrite(const char *filter)
{
    following_configure("lease = 2s\nslot_wal_max = 64MiB\n", filter, true);
}

/* --- tests for all modes --- */

void following_test_rows_follow(void **state)
{
    (void)state;
    following_running(0);
    fixture_sql(following.db, "INSERT INTO short_link (code, url) VALUES ('', 'https://example.org/')");
    following_expect_rows(0, 500);
    following_expect_rows(1, 1);
    int64_t rows = 0, n = 0;
    struct error e = {""};
    must(client_wait_status_least(&following.client[0], FILTER, "follow_rows", 502, FOLLOWING_SOON_MS, &e),
         e);
    must(client_integer(&following.client[0], &n, &e, "BF.EXISTS %s %s", FILTER, ""), e);
    assert_int_equal(n, 1); /* an empty key is a key */
    must(client_status_number(&following.client[0], FILTER, "follow_lag_ms", &rows, &e), e);
}

/* Ids are taken in one order and committed in the other. */
void following_test_late_commits(void **state)
{
    (void)state;
    following_running(0);
    PGconn *late = PQconnectdb(following.postgres.dsn);
    uint64_t first = following_numbers(300), number = following_numbers(1);
    fixture_sql(late, "BEGIN");
    fixture_insert(late, first, 300);
    fixture_insert(following.db, number, 1);
    following_soon(0, number, 1);
    for (int i = 0; i < 3; i++) { /* rounds pass */
        following_expect_rows(0, 10);
        clock_sleep_us(700 * 1000);
    }
    fixture_sql(late, "COMMIT");
    following_soon(0, first, 300);
    PQfinish(late);
}

void following_test_copy(void **state)
{
    (void)state;
    enum { COPIED = 30000 };
    uint64_t first = following_numbers(COPIED);
    following_running(0);
    PQclear(PQexec(following.db, "COPY short_link (code, url) FROM STDIN"));
    for (uint64_t i = 0; i < COPIED; i++) {
        char line[64];
        int n = snprintf(line, sizeof(line), "c%" PRIu64 "\tu\n", first + i);
        assert_int_equal(PQputCopyData(following.db, line, n), 1);
    }
    assert_int_equal(PQputCopyEnd(following.db, NULL), 1);
    for (PGresult *r; (r = PQgetResult(following.db)) != NULL; PQclear(r))
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    following_soon(0, first, COPIED);
}

/* During a build rows go to both generations. After the cutover rows are in the new one, and in the old one,
 * too, so that a rollback loses none. */
void following_test_each_phase(void **state)
{
    (void)state;
    following_running(0);
    uint64_t before = following_numbers(50), during = following_numbers(50), after = following_numbers(50);
    fixture_insert(following.db, before, 50);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&following, 0, "job_step", "hold");
    fixture_insert(following.db, during, 50);
    following_soon(0, during, 50);
    fixture_ask(&following, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    fixture_all_present(&following, 0, during, 50);
    fixture_insert(following.db, after, 50);
    following_soon(0, after, 50);
    fixture_ask(&following, 0, "TB.ROLLBACK " FILTER);
    fixture_wait(&following, 0, "phase", "BUILDING");
    fixture_all_present(&following, 1, before, 50);
    fixture_all_present(&following, 1, during, 50);
    fixture_all_present(&following, 1, after, 50);
    fixture_ask(&following, 0, "TB.ABORT " FILTER);
    fixture_wait(&following, 0, "job_state", "aborted");
}

/* Open a session that writes five rows every 20 ms, from number @first on, until end_writing(). */
static PGconn *begin_writing(uint64_t first)
{
    char call[64];
    PGconn *writer = PQconnectdb(following.postgres.dsn);
    assert_int_equal(PQstatus(writer), CONNECTION_OK);
    fixture_sql(
        following.db,
        "CREATE TABLE written (stop bool, rows int);"
        "INSERT INTO written VALUES (false, 0);"
        "CREATE PROCEDURE write_on(n bigint) LANGUAGE plpgsql AS $$ BEGIN"
        "  WHILE NOT (SELECT stop FROM written) LOOP"
        "    INSERT INTO short_link (code, url) SELECT 'c' || i, 'u' FROM generate_series(n, n + 4) AS i;"
        "    UPDATE written SET rows = rows + 5;"
        "    COMMIT; n := n + 5; PERFORM pg_sleep(0.02); COMMIT;"
        "  END LOOP; END $$");
    (void)snprintf(call, sizeof(call), "CALL write_on(%" PRIu64 ")", first);
    assert_int_equal(PQsendQuery(writer, call), 1);
    return writer;
}

/* Stop the session. Returns how many rows it wrote. */
static uint64_t end_writing(PGconn *writer)
{
    /* The writer may hold the row that this would update: it sees the outcome of whichever is second. */
    fixture_sql(following.db, "UPDATE written SET stop = true");
    PGresult *r;
    while ((r = PQgetResult(writer)) != NULL) {
        assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
        PQclear(r);
    }
    PQfinish(writer);
    char *rows = following_value("SELECT rows FROM written");
    uint64_t count = strtoull(rows, NULL, 10);
    free(rows);
    fixture_sql(following.db, "DROP PROCEDURE write_on; DROP TABLE written");
    return count;
}

/* A build ends though new rows always wait to be followed. */
void following_test_rows_keep_coming(void **state)
{
    (void)state;
    following_running(0);
    uint64_t first = following_numbers(100000);
    PGconn *writer = begin_writing(first);
    fixture_ask(&following, 0, "TB.REBUILD " FILTER);
    fixture_wait(&following, 0, "phase", "SWITCHED");
    fixture_ask(&following, 0, "TB.FINISH " FILTER);
    fixture_wait(&following, 0, "job_state", "done");
    uint64_t count = end_writing(writer);
    assert_in_range(count, 5, 100000);
    following_soon(0, first, count);
}

void following_test_owner_killed(void **state)
{
    (void)state;
    struct error e = {""};
    following_running(0);
    unsigned owner = following_owner(0), other = 1 - owner;
    uint64_t first = following_numbers(5000);
    fixture_insert(following.db, first, 2500);
    daemon_kill(&following.daemon[owner]);
    fixture_insert(following.db, first + 2500, 2500);
    following_soon(other, first, 5000);
    following_running(other);
    assert_int_equal(following_owner(other), other);
    must(daemon_launch(&following.daemon[owner], &e), e);
    fixture_reconnect(&following, owner);
}

void following_test_redis_restarted(void **state)
{
    (void)state;
    struct error e = {""};
    following_running(0);
    uint64_t first = following_numbers(2000);
    fixture_insert(following.db, first, 500);
    temp_redis_kill(&following.redis[0]);
    fixture_insert(following.db, first + 500, 1500);
    clock_sleep_us(1500 * 1000);
    must(temp_redis_restart(&following.redis[0], true, &e), e);
    following_back(0, first, 2000);
    following_running(0);
}

void following_test_postgres_restarted(void **state)
{
    (void)state;
    struct error e = {""};
    following_running(0);
    uint64_t first = following_numbers(1000);
    fixture_insert(following.db, first, 1000);
    temp_postgres_stop(&following.postgres);
    clock_sleep_us(1500 * 1000);
    must(temp_postgres_restart(&following.postgres, &e), e);
    PQreset(following.db);
    following_soon(0, first, 1000);
    following_expect_rows(0, 100);
}
