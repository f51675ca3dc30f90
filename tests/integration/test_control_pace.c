/* SPDX-License-Identifier: MIT */
/* The pace of an expansion: an operator's limit, a slow Redis, active clients. */
#include "tests/integration/fixture.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 20000, CAPACITY = 60000 };

static struct fixture fixture;

static const struct fixture_options options = {.nodes = 2,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = CAPACITY,
                                               .rate = "0.001",
                                               .grace = "60s",
                                               .filter = "follow = no\n",
                                               .expansion = "lease = 2s\npage_rows = 500\n"};

/* Clean up after the test before: its job, settings. */
static int quiet(void **state)
{
    (void)state;
    fixture_end_job(&fixture);
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.redis_p99_max 20ms rebuild.readers 0");
    return 0;
}

static void present_everywhere(uint64_t first, uint64_t count)
{
    for (unsigned d = 0; d < 2; d++)
        fixture_all_present(&fixture, d, first, count);
}

/* 20,000 rows at 2,000 a second take ten seconds; without the limit hardly any time. */
static void test_throttle__bounds_the_rows_a_second_until_it_is_lifted(void **state)
{
    (void)state;
    struct error e = {""};
    int64_t rows = 0;
    char text[200];
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "SELECT 1");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "settle");
    fixture_ask(&fixture, 1, "TB.THROTTLE " FILTER " 2000");
    must(client_status(&fixture.client[1], FILTER, "job_rows_per_second_limit", text, sizeof(text), &e), e);
    assert_string_equal(text, "2000");
    clock_sleep_us(500000); /* until the job's driver has read the limit */
    fixture_sql(fixture.db, "COMMIT");
    fixture_wait(&fixture, 1, "job_step", "scan");
    uint64_t began = clock_mono_us();
    clock_sleep_us(3000000);
    must(client_status_number(&fixture.client[1], FILTER, "job_rows", &rows, &e), e);
    double seconds = (double)(clock_mono_us() - began) / 1e6;
    /* allows for rows before the first decision, a page, and the report's half second */
    assert_in_range(rows, 1, (int64_t)(2000 * (seconds + 1.5)) + 500);
    must(client_status(&fixture.client[1], FILTER, "job_throttle_reason", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "operator"));
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 0");
    fixture_wait(&fixture, 1, "job_step", "grace");
    present_everywhere(0, ROWS);
    assert_int_not_equal(client_ok(&fixture.client[0], &e, "TB.THROTTLE " FILTER " many"), ERR_OK);
    assert_non_null(strstr(e.text, "not a whole number"));
}

/* Redis is busy for some 20 ms at a time during requests: the build must slow down, and give the reason. */
static bool seen_throttled_by_redis(struct client *redis)
{
    static const char busy[] = "local n = 0 for i = 1, 6000000 do n = n + i end";
    struct error e = {""};
    char text[200] = "";
    uint64_t present;
    assert_int_equal(redisAppendCommand(redis->redis, "EVAL %s 0", busy), REDIS_OK);
    int sent = 0;
    while (sent == 0)
        assert_int_equal(redisBufferWrite(redis->redis, &sent), REDIS_OK);
    /* A log only sends requests to Redis for keys that it does not find. */
    must(client_mexists(&fixture.client[0], FILTER, fixture_absent_code, 0, 50, &present, NULL, &e), e);
    redisReply *r = NULL;
    assert_int_equal(redisGetReply(redis->redis, (void **)&r), REDIS_OK);
    assert_int_equal(r->type, REDIS_REPLY_NIL);
    freeReplyObject(r);
    must(client_status(&fixture.client[1], FILTER, "job_throttle_reason", text, sizeof(text), &e), e);
    return strstr(text, "Redis p99") != NULL;
}

static void test_throttle__gives_way_while_redis_is_slow(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis = {0};
    must(client_open(&redis, fixture.redis[0].port, 5000, &e), e);
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.redis_p99_max 3ms");
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "SELECT 1");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "settle");
    fixture_ask(&fixture, 0,
                "TB.THROTTLE " FILTER " 4000"); /* else the scan would end before Redis is slow */
    clock_sleep_us(500000);
    fixture_sql(fixture.db, "COMMIT");
    fixture_wait(&fixture, 1, "job_step", "scan");
    bool seen = false;
    for (uint64_t until = clock_mono_us() + 4000000; !seen && clock_mono_us() < until;)
        seen = seen_throttled_by_redis(&redis);
    assert_true(seen);
    client_close(&redis);
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 0");
    fixture_wait(&fixture, 1, "job_step", "grace");
    present_everywhere(0, ROWS);
}

static bool half_pause(void)
{
    struct error e = {""};
    char text[200] = "";
    must(client_status(&fixture.client[1], FILTER, "job_throttle_reason", text, sizeof(text), &e), e);
    return strstr(text, "clients are active") != NULL;
}

/* A lock on the table makes the scan last. Clients send requests meanwhile, so half of the readers must
 * pause. */
static void test_scan__pauses_half_of_the_readers_while_clients_are_active(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t present;
    fixture_ask(&fixture, 0, "CONFIG SET rebuild.readers 2");
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "SELECT 1");
    fixture_ask(&fixture, 0, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "settle");
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 2000");
    clock_sleep_us(500000); /* until the job's driver has read the limit */
    fixture_sql(fixture.db, "COMMIT");
    fixture_wait(&fixture, 1, "job_step", "scan");
    fixture_sql(fixture.db, "BEGIN");
    fixture_sql(fixture.db, "LOCK TABLE short_link IN ACCESS EXCLUSIVE MODE");
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 0");
    uint64_t until = clock_mono_us() + 5000000;
    while (!half_pause() && clock_mono_us() < until)
        must(client_mexists(&fixture.client[0], FILTER, fixture_code, 0, 50, &present, NULL, &e), e);
    assert_true(half_pause());
    until = clock_mono_us() + 5000000;
    while (half_pause() && clock_mono_us() < until)
        clock_sleep_us(50000);
    assert_false(half_pause());
    fixture_sql(fixture.db, "COMMIT");
    fixture_wait(&fixture, 1, "job_step", "grace");
    present_everywhere(0, ROWS);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, quiet)
    const struct CMUnitTest tests[] = {
        TEST(test_throttle__bounds_the_rows_a_second_until_it_is_lifted),
        TEST(test_throttle__gives_way_while_redis_is_slow),
        TEST(test_scan__pauses_half_of_the_readers_while_clients_are_active),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
