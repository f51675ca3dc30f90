/* SPDX-License-Identifier: MIT */
/* Checks and adds of a coordinator whose servers are away, slow, or refuse it. */
#include "tests/integration/operations.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

enum { RECOVER_MS = 30000 };

/* --- a server that is away --- */

/* The status of one operation, which must come within the time that it has. */
static enum err ask_in_time(struct coordinator *c, enum operation_kind kind, unsigned first)
{
    coordinator_give(c, COORDINATOR_TIMEOUT_MS);
    enum err status = coordinator_ask(c, kind, first, 50);
    assert_in_range(c->late_turns, 0, COORDINATOR_LATE_TURNS);
    coordinator_give(c, COORDINATOR_PATIENT_MS);
    return status;
}

static enum err check_in_time(struct coordinator *c)
{
    return ask_in_time(c, OPERATION_CHECK, 0);
}

static enum err add_in_time(struct coordinator *c)
{
    return ask_in_time(c, OPERATION_ADD, 100);
}

static void wait_recovered(struct coordinator *c)
{
    uint64_t until = clock_mono_us() + RECOVER_MS * 1000ull;
    enum err status;
    while ((status = coordinator_ask(c, OPERATION_CHECK, 0, 50)) != ERR_OK)
        if (clock_mono_us() > until)
            fail_msg("no recovery: %s (%s)", error_name(status), c->error);
}

static void test_operation__gives_up_in_time_while_redis_does_not_answer(void **state)
{
    (void)state;
    for (unsigned node = 0; node < 2; node++) {
        coordinator_add(&one, 0, 50);
        process_signal(&servers.redis[node].process, SIGSTOP);
        enum err first = check_in_time(&one);
        enum err second = check_in_time(&one);
        enum err fresh =
            check_in_time(&two); /* on the second node: knows the view, has no connection there */
        process_signal(&servers.redis[node].process, SIGCONT);
        assert_true(first == ERR_TIMEOUT || first == ERR_UNREACHABLE);
        assert_true(second == ERR_TIMEOUT || second == ERR_UNREACHABLE);
        assert_true(fresh == ERR_TIMEOUT || fresh == ERR_UNREACHABLE);
        wait_recovered(&one);
        wait_recovered(&two);
        assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    }
}

static void test_operation__gives_up_in_time_while_redis_is_down_and_recovers(void **state)
{
    (void)state;
    for (unsigned down = 2; down > 0; down--) { /* a node with shards alone, then the one with the view */
        struct error e = {""};
        unsigned node = down - 1;
        coordinator_add(&one, 0, 50);
        unsigned lost = one.lost;
        temp_redis_kill(&servers.redis[node]);
        assert_int_equal(check_in_time(&one), ERR_UNREACHABLE);
        assert_non_null(strstr(one.error, servers.nodes.node[node].name));
        assert_int_equal(check_in_time(&two), ERR_UNREACHABLE);
        assert_int_equal(add_in_time(&one), ERR_UNREACHABLE);
        must(temp_redis_restart(&servers.redis[node], false, &e), e);
        client_close(&servers.client[node]);
        must(client_open(&servers.client[node], servers.redis[node].port, 5000, &e), e);
        wait_recovered(&one);
        assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50); /* it came back empty: maybe */
        assert_true(one.lost > lost);
    }
}

/* --- how long Redis takes --- */

/* What Redis showed of checks, and what the test's own clock did: no command took longer than a check, or
 * than two where it ended with the next one. */
struct watched {
    struct latency_figures figures;
    double ms, longest_ms;
};

/* Check for 300 ms, and until there are @samples. */
static void watch_checks(struct latency_reader *reader, uint64_t samples, struct watched *out)
{
    uint64_t began = clock_mono_us(), now = began;
    *out = (struct watched){.longest_ms = 0};
    do {
        struct latency_reader glance = *reader;
        uint64_t before = now;
        (void)coordinator_check(&one, 0, 2, KEY_YES);
        now = clock_mono_us();
        double ms = (double)(now - before) / 1000;
        out->longest_ms = ms > out->longest_ms ? ms : out->longest_ms;
        latency_read(&one.latency, &glance, &out->figures);
    } while (now - began < 300 * 1000 || out->figures.samples < samples);
    out->ms = (double)(now - began) / 1000;
    latency_read(&one.latency, reader, &out->figures);
    /* One a node and millisecond, and buckets are within an eighth. */
    assert_true((double)out->figures.samples <= 2.2 * out->ms + 100);
    assert_true(out->figures.p99_ms <= 2 * out->longest_ms * 1.125 + 1);
}

static void test_latency__shows_a_redis_that_is_paused(void **state)
{
    (void)state;
    struct latency_reader reader = {0};
    struct watched quick, slow;
    coordinator_add(&one, 0, 2);
    watch_checks(&reader, 20, &quick);
    unsigned tries = 0;
    do { /* again where the machine came so late to the first check that half of the pause was over */
        for (unsigned node = 0; node < servers.count; node++)
            assert_string_equal(servers_text(&servers, node, "CLIENT PAUSE 200 ALL"), "OK");
        watch_checks(&reader, 100, &slow);
    } while (slow.figures.p99_ms <= 150 && ++tries < 5);
    assert_true(slow.figures.p99_ms > 150);
}

/* A command that is never answered counts too. */
static void test_latency__shows_a_redis_that_does_not_answer(void **state)
{
    (void)state;
    struct latency_reader reader = {0};
    struct latency_figures figures;
    coordinator_add(&one, 0, 50);
    latency_read(&one.latency, &reader, &figures);
    coordinator_run(&one, 5);
    for (unsigned node = 0; node < servers.count; node++)
        process_signal(&servers.redis[node].process, SIGSTOP);
    coordinator_give(&one, 3000); /* so that the nodes are given up by then */
    assert_int_equal(coordinator_ask(&one, OPERATION_CHECK, 0, 50), ERR_UNREACHABLE);
    coordinator_give(&one, COORDINATOR_PATIENT_MS);
    for (unsigned node = 0; node < servers.count; node++)
        process_signal(&servers.redis[node].process, SIGCONT);
    latency_read(&one.latency, &reader, &figures);
    assert_true(figures.samples > 0);
    assert_true(figures.p99_ms > 200);
    wait_recovered(&one);
}

/* --- logins --- */

/* What coordinator two gets as another user, in another database. */
static enum err ask_as(const char *user, const char *password, unsigned database)
{
    struct servers other = servers;
    for (unsigned i = 0; i < other.count; i++) {
        struct node *n = &other.nodes.node[i];
        (void)snprintf(n->user, sizeof(n->user), "%s", user);
        (void)snprintf(n->password, sizeof(n->password), "%s", password);
        n->database = database;
    }
    coordinator_close(&two);
    coordinator_open(&two, &other, sourced); /* it is refused within that time */
    enum err code = coordinator_ask(&two, OPERATION_CHECK, 0, 10);
    coordinator_close(&two); /* it knows the nodes of this function */
    return code;
}

/* On a busy machine its time may be over before Redis has said why. */
static void refused_as(const char *user, const char *password, unsigned database, const char *why)
{
    for (int i = 0; i < 20 && (i == 0 || strstr(two.error, why) == NULL); i++)
        assert_int_equal(ask_as(user, password, database), ERR_UNREACHABLE);
    if (strstr(two.error, why) == NULL)
        fail_msg("refused, but not by %s: %s", why, two.error);
}

static void test_login__that_fails_is_an_error_and_nothing_is_asked_without_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < servers.count; i++)
        assert_string_equal(servers_text(&servers, i, "ACL SETUSER app on >secret ~* +@all"), "OK");
    coordinator_add(&one, 0, 10);
    assert_int_equal(ask_as("app", "secret", 0), ERR_OK);
    assert_int_equal(coordinator_results(&two, 10, KEY_YES), 10);
    refused_as("app", "wrong", 0, "WRONGPASS");
    refused_as("", "wrong", 0, "ERR AUTH");
    for (unsigned i = 0; i < servers.count; i++)
        assert_string_equal(servers_text(&servers, i, "CONFIG SET requirepass common"), "OK");
    assert_int_equal(ask_as("", "common", 0), ERR_OK);
    refused_as("", "", 0, "NOAUTH");
    for (unsigned i = 0; i < servers.count; i++)
        assert_string_equal(servers_text(&servers, i, "CONFIG SET requirepass \"\""), "OK");
    /* The filter is in database 0, where a connection is whose SELECT was refused. */
    refused_as("app", "secret", 9999, "DB index is out of range");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, operations_setup_patient, operations_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_operation__gives_up_in_time_while_redis_does_not_answer),
        TEST(test_operation__gives_up_in_time_while_redis_is_down_and_recovers),
        TEST(test_latency__shows_a_redis_that_is_paused),
        TEST(test_latency__shows_a_redis_that_does_not_answer),
        TEST(test_login__that_fails_is_an_error_and_nothing_is_asked_without_it),
    };
    return cmocka_run_group_tests(tests, operations_start, operations_stop);
}
