/* SPDX-License-Identifier: MIT */
/* An operator controls a running expansion: hold, cutover, rollback, finish, pause, abort; and
 * verification. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define OTHER "other" /* a second filter of the same table */

enum { ROWS = 20000, CAPACITY = 60000, ADDED = 500, OTHER_MS = 20000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = CAPACITY,
                                               .rate = "0.001",
                                               .grace = "60s",
                                               .filter =
                                                   "follow = no\n[filter " OTHER "]\ncapacity = 60000\n"
                                                   "error_rate = 0.001\ntable = short_link\nkey = code\n"
                                                   "follow = no\ngrace = 100ms\n",
                                               .expansion = "lease = 2s\npage_rows = 500\n"};

/* Clean up after the test before: its job, rows. */
static int quiet(void **state)
{
    (void)state;
    fixture_end_job(&fixture);
    fixture_sql(fixture.db, "DELETE FROM short_link WHERE id > 20000"); /* ROWS */
    fixture_sql(fixture.db, "VACUUM ANALYZE short_link");
    return 0;
}

static void refused(unsigned d, const char *command, const char *why)
{
    struct error e = {""};
    if (client_ok(&fixture.client[d], &e, command) == ERR_OK)
        fail_msg("%s was not refused", command);
    if (strstr(e.text, why) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", command, e.text, why);
}

static void assert_status(unsigned d, const char *field, const char *value)
{
    struct error e = {""};
    char text[600];
    must(client_status(&fixture.client[d], FILTER, field, text, sizeof(text), &e), e);
    assert_string_equal(text, value);
}

static void insert_and_add(unsigned d, uint64_t first, uint64_t count)
{
    struct error e = {""};
    fixture_sql(fixture.db, "BEGIN");
    fixture_insert(fixture.db, first, count);
    must(client_madd(&fixture.client[d], FILTER, fixture_code, first, count, &e), e);
    fixture_sql(fixture.db, "COMMIT");
}

static void present_everywhere(uint64_t first, uint64_t count)
{
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&fixture, d, first, count);
}

static void test_hold__switches_only_when_told_to(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 1, "job_step", "hold");
    clock_sleep_us(1500000); /* longer than any poll */
    assert_status(1, "job_step", "hold");
    assert_status(1, "phase", "BUILDING");
    assert_int_equal(fixture_generation(&fixture, 1), before);
    insert_and_add(1, ROWS, ADDED);
    refused(1, "TB.ROLLBACK " FILTER, "not in use");
    refused(1, "TB.FINISH " FILTER, "not in use");
    fixture_ask(&fixture, 1, "TB.CUTOVER " FILTER); /* through another coordinator than the job's */
    fixture_wait(&fixture, 1, "phase", "SWITCHED");
    assert_int_equal(fixture_generation(&fixture, 1), before + 1);
    present_everywhere(0, ROWS + ADDED);
    fixture_wait(&fixture, 1, "job_step", "grace");
    assert_status(1, "verification", "passed");
    refused(0, "TB.CUTOVER " FILTER, "in use already");
    refused(0, "TB.ABORT " FILTER, "too late");
    fixture_ask(&fixture, 0, "TB.FINISH " FILTER); /* long before the grace time ends */
    fixture_wait(&fixture, 1, "job_state", "done");
    assert_status(1, "phase", "STEADY");
    present_everywhere(0, ROWS + ADDED);
}

static void test_hold__can_be_aborted(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_ask(&fixture, 1, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 1, "job_state", "aborted");
    assert_status(1, "phase", "STEADY");
    assert_int_equal(fixture_generation(&fixture, 1), before);
    refused(1, "TB.ABORT " FILTER, "no job");
    refused(1, "TB.PAUSE " FILTER, "no job");
}

/* A coordinator that replaces a lost view needs the mutex, so a job that only waits must notice the loss. */
static void test_hold__ends_when_the_view_is_lost(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis = {0};
    int64_t n = 0;
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, 0, "job_step", "hold");
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    must(client_integer(&redis, &n, &e, "DEL twinbloom:{" FILTER "}:view"), e);
    assert_int_equal(n, 1);
    client_close(&redis);
    fixture_wait(&fixture, 1, "built", "1"); /* made and built again by either coordinator */
    fixture_wait(&fixture, 1, "phase", "STEADY");
    present_everywhere(0, ROWS);
    insert_and_add(0, 500000, ADDED);
    present_everywhere(500000, ADDED);
}

/* A rollback within the grace time loses no key that was added since the switch. */
static void test_rollback__loses_none_of_the_keys_added_after_the_switch(void **state)
{
    (void)state;
    enum { FIRST = 100000 };
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "grace");
    insert_and_add(0, FIRST, ADDED);
    insert_and_add(1, FIRST + ADDED, ADDED);
    fixture_ask(&fixture, 1, "TB.ROLLBACK " FILTER);
    fixture_wait(&fixture, 1, "phase", "BUILDING");
    assert_int_equal(fixture_generation(&fixture, 1), before);
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, 2 * ADDED);
    fixture_wait(&fixture, 1, "job_step", "hold");
    insert_and_add(0, FIRST + 2 * ADDED, ADDED);
    present_everywhere(FIRST, 3 * ADDED);
    /* A second TB.CUTOVER: catch-up, verify, switch. */
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 0, "phase", "SWITCHED");
    assert_int_equal(fixture_generation(&fixture, 0), before + 1);
    present_everywhere(FIRST, 3 * ADDED);
    fixture_ask(&fixture, 0, "TB.ROLLBACK " FILTER);
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_ask(&fixture, 0, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 0, "job_state", "aborted");
    assert_int_equal(fixture_generation(&fixture, 0), before);
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, 3 * ADDED);
}

static void test_rollback__is_done_by_another_when_the_driver_is_killed(void **state)
{
    (void)state;
    struct error e = {""};
    enum { FIRST = 200000 };
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 1, "job_step", "grace");
    insert_and_add(1, FIRST, ADDED);
    fixture_ask(&fixture, 1, "TB.ROLLBACK " FILTER);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    fixture_wait(&fixture, 1, "phase", "BUILDING");
    fixture_wait(&fixture, 1, "job_step", "hold");
    assert_int_equal(fixture_generation(&fixture, 1), before);
    fixture_all_present(&fixture, 1, FIRST, ADDED);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    present_everywhere(FIRST, ADDED);
    /* The coordinator whose job holds dies, too: the next one takes over and holds. */
    client_close(&fixture.client[1]);
    daemon_kill(&fixture.daemon[1]);
    must(daemon_launch(&fixture.daemon[1], &e), e);
    fixture_reconnect(&fixture, 1);
    clock_sleep_us(3000000);
    fixture_wait(&fixture, 1, "job_step", "hold");
    assert_int_equal(fixture_generation(&fixture, 1), before);
    fixture_ask(&fixture, 1, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 1, "job_state", "aborted");
    present_everywhere(0, ROWS);
}

static void test_pause__stops_the_scan_until_it_is_resumed(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t rows = 0, later = 0;
    fixture_sql(fixture.db, "BEGIN"); /* keeps the job in settle until the pause is ordered */
    fixture_sql(fixture.db, "SELECT 1");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "settle");
    fixture_ask(&fixture, 1, "TB.PAUSE " FILTER);
    fixture_wait(&fixture, 1, "job_waiting_for", "an operator to resume");
    fixture_sql(fixture.db, "COMMIT");
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &rows, &e), e);
    clock_sleep_us(1500000);
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &later, &e), e);
    assert_int_equal(rows, later);
    assert_status(1, "job_paused", "1");
    insert_and_add(0, 300000, ADDED);
    fixture_ask(&fixture, 1, "TB.RESUME " FILTER);
    fixture_wait(&fixture, 1, "job_step", "grace");
    present_everywhere(300000, ADDED);
}

static void other_is(const char *field, const char *value)
{
    struct error e = {""};
    must(client_wait_status(&fixture.client[0], OTHER, field, value, OTHER_MS, &e), e);
}

/* The first coordinator has read some of the rows, and is paused. @rebuild: the command that starts its job.
 * Returns the partitions of the build before the pause. */
static int64_t pause_in_the_scan_of(const char *rebuild)
{
    struct error e = {""};
    int64_t partitions = 0;
    other_is("built", "1");
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "SELECT 1");
    fixture_ask(&fixture, 0, rebuild);
    fixture_wait(&fixture, 0, "job_step", "settle");
    fixture_ask(&fixture, 1, "TB.THROTTLE " FILTER " 2000");
    clock_sleep_us(500000); /* until the job's driver has read the limit */
    fixture_sql(fixture.db, "COMMIT");
    fixture_wait(&fixture, 1, "job_step", "scan");
    must(client_wait_status_least(&fixture.client[1], FILTER, "job_rows", 1000, OTHER_MS, &e), e);
    must(client_status_number(&fixture.client[1], FILTER, "job_partitions", &partitions, &e), e);
    fixture_ask(&fixture, 1, "TB.PAUSE " FILTER);
    fixture_wait(&fixture, 1, "job_waiting_for", "an operator to resume");
    return partitions;
}

static void pause_in_the_scan(void)
{
    (void)pause_in_the_scan_of("TB.REBUILD " FILTER);
}

static void test_pause__does_not_change_the_partitions_of_the_status(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t now = 0;
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.build_memory 1MiB");
    int64_t before = pause_in_the_scan_of("TB.REBUILD " FILTER " CAPACITY 2000000");
    assert_in_range(before, 2, 64);
    clock_sleep_us(1500000); /* the driver reports each half second */
    must(client_status_number(&fixture.client[1], FILTER, "job_partitions", &now, &e), e);
    assert_int_equal(now, before);
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.build_memory 512MiB");
    fixture_ask(&fixture, 1, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 1, "job_state", "aborted");
}

/* A coordinator builds one generation at a time. */
static void test_pause__lets_other_filters_be_built(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t rows = 0, keys = 0;
    pause_in_the_scan();
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &rows, &e), e);
    assert_in_range(rows, 1000, ROWS - 1);
    fixture_ask(&fixture, 0, "TB.REBUILD " OTHER);
    other_is("job_state", "running");
    other_is("job_state", "done");
    assert_status(1, "job_waiting_for", "an operator to resume");
    fixture_ask(&fixture, 1, "TB.THROTTLE " FILTER " 0");
    fixture_ask(&fixture, 1, "TB.RESUME " FILTER);
    fixture_wait(&fixture, 1, "job_step", "grace");
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &rows, &e), e);
    assert_int_equal(rows, ROWS);
    must(client_status_number(&fixture.client[1], FILTER, "keys", &keys, &e), e);
    assert_in_range(keys, ROWS - ROWS / 100, ROWS); /* no key was counted twice */
    present_everywhere(0, ROWS);
}

static void test_pause__outlives_the_coordinator_and_can_be_aborted(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t rows = 0, later = 0;
    pause_in_the_scan();
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &rows, &e), e);
    client_close(&fixture.client[0]);
    daemon_kill(&fixture.daemon[0]);
    must(daemon_launch(&fixture.daemon[0], &e), e);
    fixture_reconnect(&fixture, 0);
    clock_sleep_us(3000000); /* another driver has the job */
    fixture_wait(&fixture, 1, "job_step", "scan");
    fixture_wait(&fixture, 1, "job_waiting_for", "an operator to resume");
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &later, &e), e);
    assert_int_equal(rows, later); /* what was read before the pause is not read again */
    fixture_ask(&fixture, 1, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 1, "job_state", "aborted");
    present_everywhere(0, ROWS);
}

/* Rows that the catch-up has found before the pause are not looked for again. */
static void test_pause__of_a_catch_up_keeps_what_it_has_found(void **state)
{
    (void)state;
    enum { FIRST = 600000, FOUND = 2000 };
    other_is("built", "1");
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".sweep no"); /* it would find them, too */
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD");
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".sweep yes");
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_insert(fixture.db, FIRST, FOUND); /* without BF.ADD */
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 400");
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 0, "job_step", "catch_up");
    clock_sleep_us(2000000); /* of five seconds */
    assert_status(0, "job_step", "catch_up");
    fixture_ask(&fixture, 1, "TB.PAUSE " FILTER);
    fixture_wait(&fixture, 1, "job_waiting_for", "an operator to resume");
    fixture_ask(&fixture, 0, "TB.REBUILD " OTHER);
    other_is("job_state", "running");
    other_is("job_state", "done");
    assert_status(1, "job_step", "catch_up");
    fixture_ask(&fixture, 1, "TB.THROTTLE " FILTER " 0");
    fixture_ask(&fixture, 1, "TB.RESUME " FILTER);
    fixture_wait(&fixture, 1, "job_step", "grace");
    present_everywhere(0, ROWS);
    present_everywhere(FIRST, FOUND);
}

/* What a comparison has read needs the place of builds, so it begins again. */
static void test_pause__of_a_full_verification_lets_other_filters_be_built(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t n = 0;
    other_is("built", "1");
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.rows_per_second 4000");
    fixture_ask(&fixture, 0, "TB.VERIFY " FILTER " FULL");
    fixture_wait(&fixture, 0, "job_step", "check");
    clock_sleep_us(1500000); /* of five seconds */
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.rows_per_second 0");
    fixture_ask(&fixture, 1, "TB.PAUSE " FILTER);
    fixture_wait(&fixture, 1, "job_waiting_for", "an operator to resume");
    fixture_ask(&fixture, 0, "TB.VERIFY " OTHER " FULL");
    other_is("job_step", "check");
    other_is("job_state", "done");
    assert_status(1, "job_waiting_for", "an operator to resume");
    fixture_ask(&fixture, 1, "TB.RESUME " FILTER);
    fixture_wait(&fixture, 1, "job_state", "done");
    assert_status(1, "verification", "passed");
    must(client_status_number(&fixture.client[1], FILTER, "job_verified_keys", &n, &e), e);
    assert_int_equal(n, ROWS);
}

/* As after a pause of the process. The next driver verifies as fully as was asked for, and waits as it was
 * told. */
static void test_verification__of_a_driver_that_lost_the_mutex_goes_on(void **state)
{
    (void)state;
    struct error e = {""};
    char id[100], held[200], now[200] = "";
    int64_t n = 0;
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.rows_per_second 4000");
    fixture_ask(&fixture, 0, "TB.VERIFY " FILTER " FULL");
    fixture_wait(&fixture, 0, "job_step", "check");
    fixture_ask(&fixture, 1, "TB.PAUSE " FILTER);
    fixture_wait(&fixture, 1, "job_waiting_for", "an operator to resume");
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.rows_per_second 0");
    must(client_status(&fixture.client[1], FILTER, "job_id", id, sizeof(id), &e), e);
    must(client_status(&fixture.client[1], FILTER, "mutex_owner", held, sizeof(held), &e), e);
    struct client redis = {0};
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    must(client_integer(&redis, &n, &e, "DEL twinbloom:{" FILTER "}:expansion_flag"), e);
    assert_int_equal(n, 1);
    client_close(&redis);
    for (uint64_t until = clock_mono_us() + 30000000; now[0] == '\0' || strcmp(now, held) == 0;) {
        assert_true(clock_mono_us() < until);
        must(client_status(&fixture.client[1], FILTER, "mutex_owner", now, sizeof(now), &e), e);
    }
    for (uint64_t until = clock_mono_us() + 30000000; client_ok(&fixture.client[1], &e, "TB.RESUME " FILTER);)
        assert_true(clock_mono_us() <
                    until); /* the next driver has the mutex, and will say so in the record */
    fixture_wait(&fixture, 1, "job_state", "done");
    assert_status(1, "job_id", id);
    assert_status(1, "job_trigger", "verify");
    assert_status(1, "job_verify_mode", "full");
    assert_status(1, "verification", "passed");
    must(client_status_number(&fixture.client[1], FILTER, "job_verified_keys", &n, &e), e);
    assert_int_equal(n, ROWS);
}

/* Who aborts a verification does not mean rebuilds. */
static void test_abort__of_a_verification_keeps_no_rebuild_from_starting(void **state)
{
    (void)state;
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.rows_per_second 4000");
    fixture_ask(&fixture, 0, "TB.VERIFY " FILTER " FULL");
    fixture_wait(&fixture, 0, "job_step", "check");
    fixture_ask(&fixture, 1, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 1, "job_state", "aborted");
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.rows_per_second 0 filter." FILTER ".expand_at 0.1");
    fixture_wait(&fixture, 1, "job_trigger", "total");
    fixture_ask(&fixture, 0, "CONFIG SET filter." FILTER ".expand_at 0.8");
    fixture_wait(&fixture, 1, "job_step", "grace");
    present_everywhere(0, ROWS);
}

static void test_verify__says_what_is_missing_and_why_and_adds_it(void **state)
{
    (void)state;
    struct error e = {""};
    char text[600];
    int64_t n = 0;
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " FULL");
    fixture_wait(&fixture, 0, "job_step", "grace");
    fixture_ask(&fixture, 0, "TB.FINISH " FILTER);
    fixture_wait(&fixture, 0, "job_state", "done");
    assert_status(0, "job_verify_mode", "full");
    must(client_status_number(&fixture.client[0], FILTER, "job_verified_keys", &n, &e), e);
    assert_int_equal(n, ROWS);
    assert_status(0, "job_verify_rows", "20000");
    char *log = process_log(&fixture.daemon[0].process);
    size_t before = strlen(log);
    free(log);
    /* rows whose keys were not added by BF.ADD */
    fixture_insert(fixture.db, 400000, 30);
    fixture_ask(&fixture, 0, "TB.VERIFY " FILTER " FULL");
    fixture_wait(&fixture, 0, "job_trigger", "verify");
    fixture_wait(&fixture, 0, "job_state", "done");
    must(client_status_number(&fixture.client[0], FILTER, "job_verified_keys", &n, &e), e);
    assert_int_equal(n, ROWS + 30);
    assert_status(0, "verification", "passed");
    present_everywhere(400000, 30);
    log = process_log(&fixture.daemon[0].process);
    assert_non_null(strstr(log + before, "event=verify_key_missing"));
    assert_non_null(strstr(log + before, "finding=written_after_the_build_began"));
    free(log);
    refused(1, "TB.VERIFY nothing", "not found");
    must(client_status(&fixture.client[0], FILTER, "job_reason", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "verification"));
}

/* Set all bytes of each shard of the generation that is built, beside @current, to @byte, but not the tags,
 * nor the first block, which is the header. */
static void fill_shards(int64_t current, int byte)
{
    static const char fill[] =
        "local n = 0 for _, k in ipairs(redis.call('KEYS', 'twinbloom:{short-link.*.*}:*')) do "
        "if redis.call('TYPE', k).ok == 'string' and not string.find(k, 'k.' .. ARGV[1] .. '.', 1, true) "
        "then "
        "local size = redis.call('STRLEN', k) local block = tonumber(ARGV[2]) / 8 local at = block "
        "local t = redis.call('GETRANGE', k, at, at + 1) "
        "local filled = t .. string.rep(string.char(ARGV[3]), block - 2) "
        "redis.call('SETRANGE', k, at, string.rep(filled, (size - at) / block)) "
        "n = n + 1 end end "
        "return n";
    struct error e = {""};
    struct client redis = {0};
    int64_t bits = 0, filled = 0;
    must(client_status_number(&fixture.client[0], FILTER, "block_bits", &bits, &e), e);
    for (unsigned i = 0; i < 2; i++) {
        int64_t n = 0;
        must(client_open(&redis, fixture.redis[i].port, 5000, &e), e);
        must(client_integer(&redis, &n, &e, "EVAL %s 0 %lld %lld %d", fill, (long long)current,
                            (long long)bits, byte),
             e);
        filled += n;
        client_close(&redis);
    }
    assert_true(filled > 0);
}

/* The bits of the new generation change before the switch: it must be refused. */
static void refuses_to_switch(int byte, const char *why)
{
    struct error e = {""};
    int64_t before = fixture_generation(&fixture, 0);
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER " HOLD FULL");
    fixture_wait(&fixture, 0, "job_step", "hold");
    fill_shards(before, byte);
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 0, "job_state", "failed");
    char text[600];
    must(client_status(&fixture.client[0], FILTER, "job_error", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, why));
    assert_int_equal(fixture_generation(&fixture, 0), before);
    assert_status(0, "phase", "STEADY");
    present_everywhere(0, ROWS);
}

static void test_verify__refuses_a_generation_that_lacks_an_old_row(void **state)
{
    (void)state;
    struct error e = {""};
    char text[600];
    refuses_to_switch(0, "older than the build");
    must(client_status(&fixture.client[0], FILTER, "job_verify_missing_keys", text, sizeof(text), &e), e);
    assert_true(strlen(text) > 0);
}

static void test_verify__refuses_a_generation_that_says_yes_too_often(void **state)
{
    (void)state;
    refuses_to_switch(255, "is over the promised");
}

enum { PLACES = 16 /* JOBS_MAX of the runner */ };

static void each_of_many(const char *command, const char *field, const char *value)
{
    for (unsigned i = 0; i < PLACES; i++) {
        struct error e = {""};
        char text[64], name[16];
        (void)snprintf(name, sizeof(name), "few-%u", i);
        (void)snprintf(text, sizeof(text), "%s %s", command, name);
        if (command[0] != '\0')
            fixture_ask(&fixture, 0, text);
        must(client_wait_status(&fixture.client[0], name, field, value, OTHER_MS, &e), e);
    }
}

static int64_t sessions_of_jobs(void)
{
    PGresult *r =
        PQexec(fixture.db, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'twinbloom job'");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    int64_t count = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return count;
}

/* As many jobs as a coordinator drives only wait for the end of their grace time. */
static void test_grace__lets_other_filters_be_built(void **state)
{
    (void)state;
    static char filters[(PLACES + 2) * 160];
    struct error e = {""};
    size_t used = (size_t)snprintf(filters, sizeof(filters),
                                   "[filter " FILTER "]\ncapacity = 60000\nerror_rate = 0.001\n"
                                   "table = short_link\nkey = code\nfollow = no\ngrace = 60s\n");
    fixture_sql(fixture.db, "CREATE TABLE few AS SELECT id, code FROM short_link WHERE id <= 100");
    fixture_sql(fixture.db, "ALTER TABLE few ADD PRIMARY KEY (id)");
    for (unsigned i = 0; i < PLACES; i++)
        used += (size_t)snprintf(filters + used, sizeof(filters) - used,
                                 "[filter few-%u]\ncapacity = 1000\ntable = few\nkey = code\nfollow = no\n"
                                 "grace = 60s\n",
                                 i);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = fixture.postgres.dsn,
                                     .expansion = options.expansion,
                                     .filters = filters};
    must(daemon_rewrite(&fixture.daemon[0], &o, &e), e);
    must(daemon_reload(&fixture.daemon[0], &e), e);
    each_of_many("", "built", "1");
    each_of_many("", "job_state", "done");
    each_of_many("TB.REBUILD", "job_step", "grace");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "grace");
    present_everywhere(0, ROWS);
    assert_int_equal(sessions_of_jobs(), 0);
    fixture_ask(&fixture, 0, "TB.ROLLBACK " FILTER);
    fixture_wait(&fixture, 0, "job_step", "hold");
    fixture_ask(&fixture, 0, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, 0, "job_step", "grace");
    each_of_many("TB.FINISH", "job_state", "done");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, quiet)
    const struct CMUnitTest tests[] = {
        TEST(test_hold__switches_only_when_told_to),
        TEST(test_hold__can_be_aborted),
        TEST(test_hold__ends_when_the_view_is_lost),
        TEST(test_rollback__loses_none_of_the_keys_added_after_the_switch),
        TEST(test_rollback__is_done_by_another_when_the_driver_is_killed),
        TEST(test_pause__stops_the_scan_until_it_is_resumed),
        TEST(test_pause__lets_other_filters_be_built),
        TEST(test_pause__does_not_change_the_partitions_of_the_status),
        TEST(test_pause__outlives_the_coordinator_and_can_be_aborted),
        TEST(test_pause__of_a_catch_up_keeps_what_it_has_found),
        TEST(test_pause__of_a_full_verification_lets_other_filters_be_built),
        TEST(test_verification__of_a_driver_that_lost_the_mutex_goes_on),
        TEST(test_abort__of_a_verification_keeps_no_rebuild_from_starting),
        TEST(test_verify__says_what_is_missing_and_why_and_adds_it),
        TEST(test_verify__refuses_a_generation_that_lacks_an_old_row),
        TEST(test_verify__refuses_a_generation_that_says_yes_too_often),
        TEST(test_grace__lets_other_filters_be_built),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
