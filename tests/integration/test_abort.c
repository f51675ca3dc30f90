/* SPDX-License-Identifier: MIT */
/* An operator aborts the first build of a filter. No key is reported absent meanwhile. The abort is respected
 * for a stated time, and status, metrics and log show it. */
#include "tests/integration/scrape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { ROWS = 5000, WAIT_MS = 60000, RESPECTED_MS = 60 * 1000 };

static struct fixture fixture;
static struct client redis;

/* The filter's first build takes longer than this test. */
static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    const struct daemon_options o = {
        .nodes = fixture.node_list,
        .dsn = fixture.postgres.dsn,
        .expansion = "rows_per_second = 50\npage_rows = 10\n",
        .filters = "[filter " FILTER "]\ncapacity = 10000\nerror_rate = 0.01\n"
                   "table = short_link\nid_column = id\nkey = code\nfollow = no\ngrace = 10s\n"};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture.daemons = 1;
    fixture_reconnect(&fixture, 0);
    must(client_open(&redis, fixture.redis[0].port, 20000, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    client_close(&redis);
    return fixture_stop(&fixture);
}

static uint64_t now_ms(void)
{
    return clock_wall_us() / 1000;
}

static void abort_build(void)
{
    fixture_wait(&fixture, 0, "job_step", "scan");
    fixture_wait(&fixture, 0, "job_state", "running");
    fixture_ask(&fixture, 0, "TB.ABORT " FILTER);
    fixture_wait(&fixture, 0, "job_state", "aborted");
}

static int64_t next_attempt_ms(void)
{
    struct error e = {""};
    int64_t at = 0;
    must(client_wait_status_least(&fixture.client[0], FILTER, "next_attempt_at", 1, WAIT_MS, &e), e);
    must(client_status_number(&fixture.client[0], FILTER, "next_attempt_at", &at, &e), e);
    return at;
}

static void forget_seconds(unsigned seconds)
{
    struct error e = {""};
    int64_t finished = 0;
    must(client_status_number(&fixture.client[0], FILTER, "job_finished_at", &finished, &e), e);
    redisReply *r = client_command(&redis, "HSET twinbloom:{" FILTER "}:job finished_ms %lld",
                                   (long long)finished - seconds * 1000LL);
    assert_true(r != NULL && r->type == REDIS_REPLY_INTEGER);
    freeReplyObject(r);
}

static void test_abort__says_when_the_next_attempt_is(void **state)
{
    (void)state;
    struct error e = {""};
    char text[512];
    int64_t present = 0;
    must(client_wait_status(&fixture.client[0], FILTER, "state", "building", WAIT_MS, &e), e);
    abort_build();
    fixture_wait(&fixture, 0, "state", "not built");
    int64_t at = next_attempt_ms();
    assert_in_range(at, now_ms() + 1, now_ms() + RESPECTED_MS);
    must(client_status(&fixture.client[0], FILTER, "next_attempt_reason", text, sizeof(text), &e), e);
    assert_non_null(strstr(text, "aborted"));
    must(client_integer(&fixture.client[0], &present, &e, "BF.EXISTS " FILTER " of-no-row"), e);
    assert_int_equal(present, 1);
    scrape_wait(&fixture.daemon[0], "twinbloom_filter_next_attempt_timestamp_seconds{filter=\"" FILTER "\"}",
                (double)at / 1000);
    char *log = process_log(&fixture.daemon[0].process);
    assert_non_null(strstr(log, "event=waiting_to_build filter=\"" FILTER "\""));
    free(log);
}

static void test_abort__an_operator_builds_at_once(void **state)
{
    (void)state;
    struct error e = {""};
    char text[64];
    must(client_when_free(&fixture.client[0], WAIT_MS, &e, "TB.REBUILD " FILTER), e);
    fixture_wait(&fixture, 0, "job_state", "running");
    uint64_t until = now_ms() + WAIT_MS; /* until next_attempt_at is empty again */
    while (client_status(&fixture.client[0], FILTER, "next_attempt_at", text, sizeof(text), &e) == ERR_OK) {
        assert_true(now_ms() < until);
        clock_sleep_us(20 * 1000);
    }
}

static void test_abort__is_respected_for_a_minute_and_no_longer(void **state)
{
    (void)state;
    struct error e = {""};
    char text[64];
    abort_build();
    int64_t at = next_attempt_ms();
    forget_seconds(RESPECTED_MS / 1000 - 3);
    fixture_wait(&fixture, 0, "job_state", "running");
    assert_true(now_ms() + 57 * 1000 >= (uint64_t)at);
    must(client_status(&fixture.client[0], FILTER, "job_trigger", text, sizeof(text), &e), e);
    assert_string_equal(text, "unbuilt");
    /* Build at full speed, so that this test ends soon. */
    fixture_ask(&fixture, 0, "TB.THROTTLE " FILTER " 1000000");
    fixture_wait(&fixture, 0, "state", "serving");
    fixture_all_present(&fixture, 0, 0, ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_abort__says_when_the_next_attempt_is),
        cmocka_unit_test(test_abort__an_operator_builds_at_once),
        cmocka_unit_test(test_abort__is_respected_for_a_minute_and_no_longer),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
