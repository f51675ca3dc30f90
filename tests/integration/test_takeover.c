/* SPDX-License-Identifier: MIT */
/* Coordinators are killed or stopped in the middle of an expansion. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 30000, ADDED = 300, STEADY_MS = 90000 };

static struct fixture fixture;

/* A gate that stops the scan: one row can only be read while nobody holds an advisory lock. The lock is held
 * outside a transaction, so that no build waits for it before its scan. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 15000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static void open_the_gate(void)
{
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
}

static const struct fixture_options options = {
    .nodes = 2,
    .daemons = 3,
    .postgres = true,
    .rows = ROWS,
    .capacity = 60000,
    .rate = "0.001",
    .expansion = "lease = 4s\nrows_per_second = 20000\npage_rows = 500\ncheckpoint_interval = 20ms\n",
    .schema = gate,
    .where = "public.gate(id)"};

/* Restart the coordinators that the test before has killed, wait until no job runs, and restore the rows. */
static int quiet(void **state)
{
    (void)state;
    struct error e = {""};
    for (unsigned d = 0; d < 3; d++)
        if (!process_running(&fixture.daemon[d].process)) {
            must(daemon_launch(&fixture.daemon[d], &e), e);
            fixture_reconnect(&fixture, d);
        }
    for (unsigned d = 0; d < 3; d++) {
        fixture_wait(&fixture, d, "mutex_owner", "");
        fixture_wait(&fixture, d, "phase", "STEADY");
    }
    fixture_sql(fixture.db, "DELETE FROM short_link WHERE id > 30000"); /* ROWS */
    return 0;
}

/* Insert rows and add their keys through coordinator @d. */
static void insert_and_add(unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    fixture_sql(fixture.db, "BEGIN");
    fixture_insert(fixture.db, first, count);
    must(client_madd(&fixture.client[d], FILTER, fixture_code, first, count, &e), e);
    fixture_sql(fixture.db, "COMMIT");
}

/* Wait until a checkpoint that covers rows has been written. */
static void wait_for_checkpoint(void)
{
    struct error e = {""};
    struct client redis = {0};
    unsigned long long rows = 0;
    uint64_t until = clock_mono_us() + STEADY_MS * UINT64_C(1000);
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    while (rows == 0 && clock_mono_us() < until) {
        clock_sleep_us(5000);
        redisReply *r = client_command(&redis, "HGET twinbloom:{" FILTER "}:job checkpoint_rows");
        rows = r != NULL && r->type == REDIS_REPLY_STRING ? strtoull(r->str, NULL, 10) : 0;
        freeReplyObject(r);
    }
    client_close(&redis);
    assert_true(rows > 0);
}

/* Start a rebuild through coordinator @d and hold it in the middle of its scan until open_the_gate(). */
static void rebuild_and_hold_the_scan(unsigned d, unsigned watcher)
{
    struct error e = {""};
    char text[64];
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[d], &e, "TB.REBUILD " FILTER), e);
    must(client_wait_status(&fixture.client[watcher], FILTER, "job_step", "scan", STEADY_MS, &e), e);
    wait_for_checkpoint();
    must(client_status(&fixture.client[watcher], FILTER, "job_step", text, sizeof(text), &e), e);
    assert_string_equal(text, "scan");
}

static void wait_done(unsigned d, int64_t generation)
{
    struct error e = {""};
    must(client_wait_status_least(&fixture.client[d], FILTER, "generation", generation, STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[d], FILTER, "phase", "STEADY", STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[d], FILTER, "job_state", "done", STEADY_MS, &e), e);
}

static void owner_of_the_job(unsigned d, char *out, size_t size)
{
    struct error e = {""};
    must(client_status(&fixture.client[d], FILTER, "job_owner", out, size, &e), e);
}

static void test_takeover__finishes_what_a_killed_coordinator_began(void **state)
{
    (void)state;
    struct error e = {""};
    char first[256];
    char second[256];
    int64_t before = fixture_generation(&fixture, 1);
    rebuild_and_hold_the_scan(0, 1);
    owner_of_the_job(1, first, sizeof(first));
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    open_the_gate();
    insert_and_add(1, ROWS, ADDED);
    wait_done(1, before + 1);
    owner_of_the_job(1, second, sizeof(second));
    assert_string_not_equal(first, second);
    /* The new driver went on from a checkpoint; keys from before it are checked below. */
    char rows[64];
    must(client_status(&fixture.client[1], FILTER, "job_scan_rows", rows, sizeof(rows), &e), e);
    assert_in_range(strtoull(rows, NULL, 10), 1, ROWS - 1);
    for (unsigned d = 1; d < 3; d++)
        fixture_all_present(&fixture, d, 0, ROWS + ADDED);
    assert_true(fixture_false_positives(&fixture, 1, 5000) < 50);
    /* The killed coordinator restarts and serves the new generation. */
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    fixture_all_present(&fixture, 0, 0, ROWS + ADDED);
    assert_int_equal(fixture_generation(&fixture, 0), before + 1);
}

static void test_takeover__is_done_by_the_only_one_left_of_three(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 2);
    rebuild_and_hold_the_scan(0, 2);
    for (unsigned d = 0; d < 2; d++) {
        client_close(&fixture.client[d]);
        daemon_kill(&fixture.daemon[d]);
    }
    open_the_gate();
    wait_done(2, before + 1);
    fixture_all_present(&fixture, 2, 0, ROWS);
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_launch(&fixture.daemon[d], &e), e);
        fixture_reconnect(&fixture, d);
        fixture_all_present(&fixture, d, 0, ROWS);
    }
}

/* A coordinator is killed, and @field of its checkpoint gets a value that no driver writes. */
static void expect_scanned_again(const char *field, const char *value)
{
    struct error e = {""};
    struct client redis = {0};
    char rows[64];
    int64_t before = fixture_generation(&fixture, 1);
    rebuild_and_hold_the_scan(0, 1);
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    redisReply *r = client_command(&redis, "HSET twinbloom:{" FILTER "}:job %s %s", field, value);
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    assert_int_equal(r->integer, 0); /* the field was there */
    freeReplyObject(r);
    client_close(&redis);
    open_the_gate();
    wait_done(1, before + 1);
    must(client_status(&fixture.client[1], FILTER, "job_scan_rows", rows, sizeof(rows), &e), e);
    assert_int_equal(strtoull(rows, NULL, 10), ROWS);
    for (unsigned d = 1; d < 3; d++)
        fixture_all_present(&fixture, d, 0, ROWS);
}

static void test_takeover__scans_again_where_the_checkpoint_names_a_table_that_is_not(void **state)
{
    (void)state;
    expect_scanned_again("range.0.table", "23");
}

static void test_takeover__scans_again_where_the_checkpoint_names_more_ranges_than_there_are(void **state)
{
    (void)state;
    expect_scanned_again("ranges", "190");
}

/* A coordinator is killed while it removes the new generation; with @abort as an operator has asked it to. */
static void expect_removed(bool abort, const char *state, const char *error)
{
    struct error e = {""};
    struct client redis = {0};
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER " HOLD"), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_step", "hold", STEADY_MS, &e), e);
    must(client_open(&redis, fixture.redis[0].port, STEADY_MS, &e), e);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    redisReply *r = abort ? client_command(&redis, "HSET twinbloom:{" FILTER "}:job step abort abort 1")
                          : client_command(&redis, "HSET twinbloom:{" FILTER "}:job step abort");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    freeReplyObject(r);
    client_close(&redis);
    must(client_wait_status(&fixture.client[1], FILTER, "job_state", state, STEADY_MS, &e), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_error", error, STEADY_MS, &e), e);
    for (unsigned d = 1; d < 3; d++)
        fixture_all_present(&fixture, d, 0, ROWS);
}

static void test_takeover__says_that_an_operator_aborted(void **state)
{
    (void)state;
    expect_removed(true, "aborted", "aborted by an operator");
}

static void test_takeover__says_that_another_one_gave_up(void **state)
{
    (void)state;
    expect_removed(false, "failed", "another coordinator gave it up: see its log");
}

/* Send one command to a stopped coordinator, which reads it first when it wakes up. */
static void send_check(unsigned d, uint64_t number)
{
    char code[CLIENT_KEY_MAX];
    int done = 0;
    (void)fixture_code(number, code);
    assert_int_equal(redisAppendCommand(fixture.client[d].redis, "BF.EXISTS " FILTER " %s", code), REDIS_OK);
    while (done == 0)
        assert_int_equal(redisBufferWrite(fixture.client[d].redis, &done), REDIS_OK);
}

static int64_t read_integer(unsigned d)
{
    redisReply *r = NULL;
    assert_int_equal(redisGetReply(fixture.client[d].redis, (void **)&r), REDIS_OK);
    if (r->type != REDIS_REPLY_INTEGER)
        fail_msg("not an integer: %s", r->str != NULL ? r->str : "");
    int64_t n = r->integer;
    freeReplyObject(r);
    return n;
}

static void adds_are_visible_everywhere(unsigned through, uint64_t first)
{
    insert_and_add(through, first, ADDED);
    for (unsigned d = 0; d < 3; d++)
        fixture_all_present(&fixture, d, first, ADDED);
}

static void test_sleeper__is_right_at_once_after_it_slept_through_two_expansions(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = 0;
    enum { FIRST = 500000 };
    int64_t before = fixture_generation(&fixture, 1);
    must(client_integer(&fixture.client[0], &n, &e, "BF.EXISTS " FILTER " c1"), e);
    assert_int_equal(n, 1);
    daemon_pause(&fixture.daemon[0]);
    for (int expansion = 0; expansion < 2; expansion++) {
        must(client_ok(&fixture.client[1 + expansion], &e, "TB.REBUILD " FILTER), e);
        if (expansion == 0)
            insert_and_add(1, FIRST, ADDED);
        wait_done(1, before + 1 + expansion);
    }
    insert_and_add(2, FIRST + ADDED, ADDED);
    send_check(0, FIRST + ADDED + 7);
    send_check(0, FIRST + 7);
    daemon_resume(&fixture.daemon[0]);
    assert_int_equal(read_integer(0), 1);
    assert_int_equal(read_integer(0), 1);
    fixture_all_present(&fixture, 0, FIRST, (uint64_t)2 * ADDED);
    adds_are_visible_everywhere(0, FIRST + 10000);
}

static void test_sleeper__that_drove_the_job_disturbs_nothing_when_it_wakes(void **state)
{
    (void)state;
    enum { FIRST = 700000 };
    int64_t before = fixture_generation(&fixture, 1);
    rebuild_and_hold_the_scan(0, 1);
    daemon_pause(&fixture.daemon[0]);
    open_the_gate();
    insert_and_add(1, FIRST, ADDED);
    wait_done(1, before + 1);
    daemon_resume(&fixture.daemon[0]);
    clock_sleep_us(4500000); /* longer than a lease: its driver has had its time to do harm */
    for (unsigned d = 0; d < 3; d++) {
        struct error e = {""};
        must(client_wait_status(&fixture.client[d], FILTER, "phase", "STEADY", 10000, &e), e);
        assert_int_equal(fixture_generation(&fixture, d), before + 1);
        fixture_all_present(&fixture, d, 0, ROWS);
        fixture_all_present(&fixture, d, FIRST, ADDED);
    }
    adds_are_visible_everywhere(0, FIRST + 10000);
}

/* Postgres does not answer: neither an operator nor a shutdown may wait for it. */
enum { SOON_MS = 5000 /* half of the time that Postgres has */ };

static void test_hung_page__does_not_hold_up_an_abort(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 1);
    rebuild_and_hold_the_scan(0, 1);
    must(client_wait_status(&fixture.client[1], FILTER, "job_waiting_for", "an answer of Postgres", SOON_MS,
                            &e),
         e);
    must(client_ok(&fixture.client[1], &e, "TB.ABORT " FILTER), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_state", "aborted", SOON_MS, &e), e);
    open_the_gate();
    assert_int_equal(fixture_generation(&fixture, 1), before);
    fixture_all_present(&fixture, 1, 0, ROWS);
}

static void test_hung_page__does_not_hold_up_a_shutdown(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, 1);
    rebuild_and_hold_the_scan(0, 1);
    client_close(&fixture.client[0]);
    assert_true(daemon_stop(&fixture.daemon[0], SOON_MS));
    open_the_gate();
    wait_done(1, before + 1);
    fixture_all_present(&fixture, 1, 0, ROWS);
}

/* The session that reads the row behind the gate; 0: none does. */
static int64_t reader_at_the_gate(void)
{
    PGresult *r =
        PQexec(fixture.db, "SELECT pid FROM pg_stat_activity WHERE application_name = "
                           "'twinbloom reader' AND wait_event_type = 'Lock' AND wait_event = 'advisory'");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    int64_t pid = PQntuples(r) > 0 ? strtoll(PQgetvalue(r, 0, 0), NULL, 10) : 0;
    PQclear(r);
    return pid;
}

/* Have a master away for a moment while a reader waits at the gate. No work needs it, so the reader goes on.
 */
static void redis_is_away_at_the_gate(void)
{
    enum { AWAY_US = 1800 * 1000 /* longer than a command may take, shorter than the lease */ };
    int64_t reader = 0;
    for (uint64_t until = clock_mono_us() + STEADY_MS * UINT64_C(1000); reader == 0;) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
        reader = reader_at_the_gate();
    }
    process_signal(&fixture.redis[0].process, SIGSTOP);
    clock_sleep_us(AWAY_US);
    process_signal(&fixture.redis[0].process, SIGCONT);
    clock_sleep_us(AWAY_US);
    int64_t later = reader_at_the_gate();
    open_the_gate();
    assert_int_equal(later, reader);
}

static void test_comparison__goes_on_while_redis_is_away(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = 0;
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[0], &e, "TB.VERIFY " FILTER " FULL"), e);
    redis_is_away_at_the_gate();
    must(client_wait_status(&fixture.client[1], FILTER, "job_state", "done", STEADY_MS, &e), e);
    must(client_status_number(&fixture.client[1], FILTER, "job_verified_keys", &n, &e), e);
    assert_int_equal(n, ROWS);
}

/* The row behind the gate is written again after the scan, so that only the sweep finds it. */
static void test_sweep__goes_on_while_redis_is_away(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 1);
    must(client_ok(&fixture.client[0], &e, "TB.REBUILD " FILTER " HOLD"), e);
    must(client_wait_status(&fixture.client[1], FILTER, "job_step", "hold", STEADY_MS, &e), e);
    fixture_sql(fixture.db, "UPDATE short_link SET code = code WHERE id = 15000");
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    must(client_ok(&fixture.client[0], &e, "TB.CUTOVER " FILTER), e);
    redis_is_away_at_the_gate();
    wait_done(1, before + 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, quiet)
    const struct CMUnitTest tests[] = {
        TEST(test_takeover__finishes_what_a_killed_coordinator_began),
        TEST(test_takeover__is_done_by_the_only_one_left_of_three),
        TEST(test_takeover__scans_again_where_the_checkpoint_names_a_table_that_is_not),
        TEST(test_takeover__scans_again_where_the_checkpoint_names_more_ranges_than_there_are),
        TEST(test_takeover__says_that_an_operator_aborted),
        TEST(test_takeover__says_that_another_one_gave_up),
        TEST(test_sleeper__is_right_at_once_after_it_slept_through_two_expansions),
        TEST(test_sleeper__that_drove_the_job_disturbs_nothing_when_it_wakes),
        TEST(test_hung_page__does_not_hold_up_an_abort),
        TEST(test_hung_page__does_not_hold_up_a_shutdown),
        TEST(test_comparison__goes_on_while_redis_is_away),
        TEST(test_sweep__goes_on_while_redis_is_away),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
