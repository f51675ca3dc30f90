/* SPDX-License-Identifier: MIT */
/* A coordinator that is asked to end reports it, serves on for a while, and hands its jobs over at once. The
 * lease is so long that no test could wait for its end. */
#include "tests/integration/roll.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "tests/lib/http.h"
#include "tests/lib/raw.h"

enum { ROWS = 100000, WAIT_MS = 30000, DELAY_MS = 4000 };

static struct fixture fixture;

/* A gate that stops the scan while somebody holds an advisory lock. */
static const char gate[] =
    "CREATE FUNCTION public.gate(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
    "IF id = 50000 THEN PERFORM pg_advisory_lock_shared(7); "
    "PERFORM pg_advisory_unlock_shared(7); END IF; RETURN true; END $$";

static const struct fixture_options options = {.nodes = 1,
                                               .daemons = 2,
                                               .postgres = true,
                                               .rows = ROWS,
                                               .capacity = 200000,
                                               .rate = "0.001",
                                               .service = "shutdown_delay = 4s\n",
                                               .expansion = "lease = 10m\npage_rows = 500\n",
                                               .schema = gate,
                                               .where = "public.gate(id)"};

static void expect_readyz(unsigned d, int status, const char *says)
{
    struct http_reply r = http_ask(fixture.daemon[d].http_port, "GET", "/readyz", NULL);
    assert_int_equal(r.status, status);
    if (strstr(r.body, says) == NULL)
        fail_msg("%s", r.body);
    http_reply_fini(&r);
}

static void wait_end(unsigned d)
{
    struct error e = {""};
    must(process_wait(&fixture.daemon[d].process, WAIT_MS, &e), e);
    assert_int_equal(process_exit_status(&fixture.daemon[d].process), 0);
}

static void start_again(unsigned d)
{
    struct error e = {""};
    must(daemon_launch(&fixture.daemon[d], &e), e);
    fixture_reconnect(&fixture, d);
    roll_wait(&fixture, 0, d, NULL, "state", "serving", WAIT_MS);
}

static void test_leaving__balancers_are_told_while_clients_are_served(void **state)
{
    (void)state;
    struct error e = {""};
    struct client late = {0};
    int64_t n;
    roll_wait(&fixture, 0, 1, NULL, "state", "serving", WAIT_MS);
    expect_readyz(1, 200, "ready");
    uint64_t began = clock_mono_us();
    process_signal(&fixture.daemon[1].process, SIGTERM);
    roll_wait(&fixture, 0, 1, NULL, "state", "shutting_down", DELAY_MS);
    expect_readyz(1, 503, "shutting down");
    must(client_integer(&fixture.client[1], &n, &e, "BF.ADD " FILTER " late-1"), e);
    must(client_open(&late, fixture.daemon[1].port, WAIT_MS, &e), e);
    must(client_integer(&late, &n, &e, "BF.EXISTS " FILTER " late-1"), e);
    assert_int_equal(n, 1);
    /* A new job is refused with a clear error. */
    redisReply *r = client_command(&late, "TB.REBUILD " FILTER);
    assert_true(r != NULL && r->type == REDIS_REPLY_ERROR && strstr(r->str, "shutting down") != NULL);
    freeReplyObject(r);
    wait_end(1);
    assert_in_range(clock_mono_us() - began, DELAY_MS * 1000, (DELAY_MS + 15000) * 1000);
    client_close(&late);
    assert_int_equal(roll_count(&fixture, 0), 1);
    must(client_integer(&fixture.client[0], &n, &e, "BF.EXISTS " FILTER " late-1"), e);
    assert_int_equal(n, 1);
    start_again(1);
}

static void test_leaving__a_second_signal_ends_the_wait(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_ok(&fixture.client[1], &e, "CONFIG SET shutdown_delay 1h"), e);
    process_signal(&fixture.daemon[1].process, SIGTERM);
    roll_wait(&fixture, 0, 1, NULL, "state", "shutting_down", WAIT_MS);
    process_signal(&fixture.daemon[1].process, SIGTERM);
    wait_end(1);
    start_again(1);
}

static void test_leaving__more_signals_do_not_break_off_a_clean_end(void **state)
{
    (void)state;
    struct error e = {""};
    must(client_ok(&fixture.client[1], &e, "CONFIG SET shutdown_delay 0s"), e);
    for (unsigned i = 0; i < 2000 && process_running(&fixture.daemon[1].process); i++) {
        process_signal(&fixture.daemon[1].process, i % 2 == 0 ? SIGTERM : SIGINT);
        clock_sleep_us(500);
    }
    wait_end(1);
    assert_int_equal(roll_count(&fixture, 0), 1);
    start_again(1);
}

/* So many names would take a minute or more. */
static void test_leaving__is_not_held_up_by_names_that_are_to_be_deleted(void **state)
{
    (void)state;
    enum { NAMES = 500000 };
    struct error e = {""};
    must(client_ok(&fixture.client[1], &e, "CONFIG SET shutdown_delay 0s"), e);
    int fd = raw_open(fixture.daemon[1].port);
    assert_true(raw_send_del(fd, NAMES));
    clock_sleep_us(1000 * 1000);
    process_signal(&fixture.daemon[1].process, SIGTERM);
    wait_end(1);
    raw_close(fd);
    start_again(1);
}

static void test_leaving__its_job_goes_on_at_another_one_at_once(void **state)
{
    (void)state;
    struct error e = {""};
    char first[256], second[256], rows[64];
    int64_t before = fixture_generation(&fixture, 0);
    fixture_sql(fixture.db, "SELECT pg_advisory_lock(7)");
    fixture_ask(&fixture, 1, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, 0, "job_step", "scan");
    roll_wait(&fixture, 0, 1, NULL, "jobs", FILTER, WAIT_MS);
    must(client_status(&fixture.client[0], FILTER, "job_owner", first, sizeof(first), &e), e);
    process_signal(&fixture.daemon[1].process, SIGTERM);
    /* The handover happens while the leaving coordinator still serves, long before the lease would end. */
    uint64_t until = clock_mono_us() + DELAY_MS * UINT64_C(1000);
    do {
        clock_sleep_us(20000);
        must(client_status(&fixture.client[0], FILTER, "mutex_owner", second, sizeof(second), &e), e);
    } while ((second[0] == '\0' || strncmp(second, first, strlen(first)) == 0) && clock_mono_us() < until);
    assert_true(second[0] != '\0' && strncmp(second, first, strlen(first)) != 0);
    assert_true(process_running(&fixture.daemon[1].process));
    roll_wait(&fixture, 0, 0, NULL, "jobs", FILTER, WAIT_MS);
    fixture_sql(fixture.db, "SELECT pg_advisory_unlock(7)");
    must(client_wait_status_least(&fixture.client[0], FILTER, "generation", before + 1, WAIT_MS, &e), e);
    fixture_wait(&fixture, 0, "job_state", "done");
    must(client_status(&fixture.client[0], FILTER, "job_owner", second, sizeof(second), &e), e);
    assert_string_not_equal(first, second);
    must(client_status(&fixture.client[0], FILTER, "job_scan_rows", rows, sizeof(rows), &e), e);
    fixture_all_present(&fixture, 0, 0, ROWS);
    wait_end(1);
    start_again(1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_leaving__balancers_are_told_while_clients_are_served),
        cmocka_unit_test(test_leaving__a_second_signal_ends_the_wait),
        cmocka_unit_test(test_leaving__more_signals_do_not_break_off_a_clean_end),
        cmocka_unit_test(test_leaving__is_not_held_up_by_names_that_are_to_be_deleted),
        cmocka_unit_test(test_leaving__its_job_goes_on_at_another_one_at_once),
    };
    return fixture_run_tests(&fixture, &options, tests);
}
