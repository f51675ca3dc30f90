/* SPDX-License-Identifier: MIT */
/* Postgres accepts connections and does not answer. Operations that need no database go on in time, and those
 * that need it report what they wait for. */
#include "tests/integration/fixture.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/raw.h"

/* Postgres's timeout is twice as long as an operation without a database may take. There are SOURCED filters,
 * because the coordinator looks at one at a time. */
enum { SOURCED = 5, POSTGRES_S = 5, IN_TIME_MS = 2500, KNOWN_MS = 30000, ROWS = 500, CAPACITY = 1000 };

static struct fixture fixture;

static void wait_all(const char *field, const char *value, unsigned deadline_ms)
{
    struct error e = {""};
    for (unsigned i = 0; i < SOURCED; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "links-%u", i);
        must(client_wait_status(&fixture.client[0], name, field, value, deadline_ms, &e), e);
    }
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    char filters[2048] = "", postgres[64];
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    for (unsigned i = 0; i < SOURCED; i++)
        (void)snprintf(filters + strlen(filters), sizeof(filters) - strlen(filters),
                       "[filter links-%u]\ncapacity = %d\nerror_rate = 0.01\ntable = short_link\n"
                       "id_column = id\nkey = code\ngrace = 0s\nfollow = no\n",
                       i, CAPACITY);
    (void)snprintf(postgres, sizeof(postgres), "timeout = %ds\n", POSTGRES_S);
    const struct daemon_options o = {.nodes = fixture.node_list,
                                     .dsn = fixture.postgres.dsn,
                                     .postgres = postgres,
                                     .service = "check_interval = 100ms\n",
                                     .filters = filters};
    must(daemon_start(&fixture.daemon[0], &o, &e), e);
    fixture.daemons = 1;
    fixture_reconnect(&fixture, 0);
    wait_all("built", "1", KNOWN_MS);
    wait_all("phase", "STEADY", KNOWN_MS);
    wait_all("source_rows_by", "count", KNOWN_MS);
    process_signal(&fixture.postgres.process, SIGSTOP);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    process_signal(&fixture.postgres.process, SIGCONT);
    return fixture_stop(&fixture);
}

static void is_in_time(uint64_t began_us, const char *what)
{
    uint64_t took_ms = (clock_mono_us() - began_us) / 1000;
    if (took_ms > IN_TIME_MS)
        fail_msg("%s took %" PRIu64 " ms", what, took_ms);
}

/* Each filter's status names what the coordinator waits for. All show it soon, though they are looked at one
 * after another. */
static void test_status__says_that_it_hangs(void **state)
{
    (void)state;
    char text[64];
    (void)snprintf(text, sizeof(text), "Postgres: no connection within %d ms", POSTGRES_S * 1000);
    uint64_t began = clock_mono_us();
    wait_all("postgres", text, KNOWN_MS);
    assert_true(clock_mono_us() - began < (10 + 2 * POSTGRES_S + 2) * UINT64_C(1000000));
}

static void test_expiry__comes_in_time(void **state)
{
    (void)state;
    struct error e = {""};
    for (unsigned round = 0; round < 3; round++) { /* each at another moment of the controller's round */
        int64_t there = 1, set = 0;
        fixture_ask(&fixture, 0, "BF.RESERVE brief 0.01 100");
        must(client_integer(&fixture.client[0], &set, &e, "PEXPIRE brief 300"), e);
        uint64_t began = clock_mono_us();
        while (there == 1) {
            must(client_integer(&fixture.client[0], &there, &e, "EXISTS brief"), e);
            is_in_time(began, "the expiry of a filter without a source");
            clock_sleep_us(20 * 1000);
        }
    }
}

static void test_growth__comes_in_time(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t began = clock_mono_us();
    must(client_madd(&fixture.client[0], "links-3", fixture_code, ROWS, CAPACITY, &e), e);
    must(client_wait_status(&fixture.client[0], "links-3", "layers", "2", KNOWN_MS, &e), e);
    is_in_time(began, "a layer for a full filter with a source");
}

/* The thread that makes filters does not run plans. */
static void test_plan__holds_up_nobody_else(void **state)
{
    (void)state;
    struct error e = {""};
    char reply[512];
    int fd = raw_open(fixture.daemon[0].port);
    assert_true(fd >= 0);
    assert_true(raw_puts(fd, "TB.PLAN links-0\r\nTB.REBUILD links-1 DRYRUN\r\n"));
    clock_sleep_us(100 * 1000);
    uint64_t began = clock_mono_us();
    fixture_ask(&fixture, 0, "BF.RESERVE meanwhile 0.01 100");
    redisReply *r = client_command(&fixture.client[0], "BF.INFO meanwhile");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    freeReplyObject(r);
    is_in_time(began, "making a filter beside TB.PLAN");
    assert_true(raw_read_until(fd, "\r\n", reply, sizeof(reply)));
    assert_non_null(strstr(reply, "-TIMEOUT Postgres: no connection within"));
    raw_close(fd);
    must(client_integer(&fixture.client[0], &(int64_t){0}, &e, "DEL meanwhile"), e);
}

/* "rebuild --wait" would write another line whenever that changes. */
static void test_rebuild__says_why_it_waits_also_while_it_tries_again(void **state)
{
    (void)state;
    struct error e = {""};
    char why[64], text[512];
    (void)snprintf(why, sizeof(why), "Postgres: no connection within %d ms", POSTGRES_S * 1000);
    fixture_ask(&fixture, 0, "TB.REBUILD links-2");
    must(client_wait_status(&fixture.client[0], "links-2", "job_waiting_for", why, KNOWN_MS, &e), e);
    uint64_t until = clock_mono_us() + (POSTGRES_S + 2) * UINT64_C(1000000);
    while (clock_mono_us() < until) {
        must(client_status(&fixture.client[0], "links-2", "job_waiting_for", text, sizeof(text), &e), e);
        assert_string_equal(text, why);
        clock_sleep_us(100 * 1000);
    }
    fixture_ask(&fixture, 0, "TB.ABORT links-2");
    must(client_wait_status(&fixture.client[0], "links-2", "job_state", "aborted", KNOWN_MS, &e), e);
}

static void test_return__is_seen_soon(void **state)
{
    (void)state;
    process_signal(&fixture.postgres.process, SIGCONT);
    uint64_t began = clock_mono_us();
    wait_all("postgres", "ok", KNOWN_MS);
    assert_true(clock_mono_us() - began < (2 * POSTGRES_S + 2) * UINT64_C(1000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status__says_that_it_hangs),
        cmocka_unit_test(test_expiry__comes_in_time),
        cmocka_unit_test(test_growth__comes_in_time),
        cmocka_unit_test(test_plan__holds_up_nobody_else),
        cmocka_unit_test(test_rebuild__says_why_it_waits_also_while_it_tries_again),
        cmocka_unit_test(test_return__is_seen_soon),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
