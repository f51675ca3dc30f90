/* SPDX-License-Identifier: MIT */
/* A coordinator that drives a job sleeps right before one of its commands. Meanwhile another one takes the
 * job over and ends it, and drives another job. Then the first one wakes up: nothing of the other job is
 * undone. */
#include "tests/integration/fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/lib/proxy.h"

enum { ROWS = 3000, LATER = 300, WAIT_MS = 60000, LEASE_US = 2 * 1000 * 1000, SLEEPER = 0, OTHER = 1 };

static struct fixture fixture;
static struct proxy *proxy;

/* Both reach Redis through the proxy, which can hold the sleeper's requests, as those of the user `held`. */
static int start(const char *grace, const char *of_redis)
{
    static const char *const user[] = {[SLEEPER] = "held:pw@", [OTHER] = ""};
    struct error e = {""};
    unsigned route;
    uint16_t port;
    struct client redis;
    char filters[300];
    (void)fixture_start(&fixture, &(struct fixture_options){.nodes = 1, .postgres = true, .rows = ROWS});
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    must(client_ok(&redis, &e, "ACL SETUSER held on >pw ~* &* +@all"), e);
    client_close(&redis);
    must(proxy_start(&proxy, &e), e);
    must(proxy_add(proxy, WIRE_REDIS, fixture.redis[0].port, &route, &port, &e), e);
    (void)snprintf(filters, sizeof(filters),
                   "[filter " FILTER "]\ncapacity = 20000\nerror_rate = 0.0001\ntable = short_link\n"
                   "id_column = id\nkey = code\ngrace = %s\nfollow = no\n",
                   grace);
    for (unsigned d = 0; d < 2; d++) {
        char node[64];
        (void)snprintf(node, sizeof(node), "redis://%s127.0.0.1:%u", user[d], (unsigned)port);
        const struct daemon_options o = {.nodes = node,
                                         .dsn = fixture.postgres.dsn,
                                         .service = "check_interval = 200ms\n",
                                         .redis = of_redis,
                                         .expansion = "lease = 2s\nverify_sample = 1\n",
                                         .filters = filters};
        must(daemon_start(&fixture.daemon[d], &o, &e), e);
        fixture.daemons = d + 1;
        fixture_reconnect(&fixture, d);
    }
    for (unsigned d = 0; d < 2; d++) {
        fixture_wait(&fixture, d, "built", "1");
        fixture_wait(&fixture, d, "job_state", "done");
    }
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return start("60s", "");
}

static int set_up_short_grace(void **state)
{
    (void)state;
    return start("2s", "");
}

static int set_up_patient(void **state)
{
    (void)state;
    return start("5s", "timeout = 20s\n");
}

static int tear_down(void **state)
{
    (void)state;
    int stopped = fixture_stop(&fixture);
    proxy_stop(proxy);
    proxy = NULL;
    return stopped;
}

static void ask(unsigned d, const char *command)
{
    struct error e = {""};
    must(client_when_free(&fixture.client[d], WAIT_MS, &e, command), e);
}

static void is(const char *field, const char *value)
{
    struct error e = {""};
    char text[600];
    must(client_status(&fixture.client[OTHER], FILTER, field, text, sizeof(text), &e), e);
    assert_string_equal(text, value);
}

/* Have the sleeper's job stop where the next request with @text is sent, or has been executed. */
static void stop_at(const char *text, enum proxy_moment moment)
{
    proxy_count_only(proxy, text);
    proxy_count(proxy, "held", 1, moment);
}

#define BEGINS(step) "step\r\n$" step "\r\n$5\r\nstate\r\n"

static void sleeps(void)
{
    assert_true(proxy_await_held(proxy, WAIT_MS));
    daemon_pause(&fixture.daemon[SLEEPER]);
}

/* What the sleeper has sent is executed, and it has its time to go on. */
static void wakes_up(void)
{
    proxy_release(proxy, true);
    clock_sleep_us(100 * 1000);
    daemon_resume(&fixture.daemon[SLEEPER]);
    clock_sleep_us(LEASE_US);
}

/* Rows come that only a rebuild finds. The other coordinator does that, and waits before its @step. */
static int64_t rebuilds_later_rows(const char *command, const char *step)
{
    fixture_insert(fixture.db, ROWS, LATER);
    ask(OTHER, command);
    fixture_wait(&fixture, OTHER, "job_step", step);
    return fixture_generation(&fixture, OTHER);
}

/* --- rollback --- */

static void is_not_rolled_back(const char *text, enum proxy_moment moment)
{
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    stop_at(text, moment);
    ask(OTHER, "TB.ROLLBACK " FILTER);
    sleeps();
    fixture_wait(&fixture, OTHER, "job_step", "hold"); /* the other one has taken over, and rolled back */
    ask(OTHER, "TB.ABORT " FILTER);
    fixture_wait(&fixture, OTHER, "job_state", "aborted");
    int64_t later = rebuilds_later_rows("TB.REBUILD " FILTER, "grace");
    wakes_up();
    assert_int_equal(fixture_generation(&fixture, OTHER), later);
    is("phase", "SWITCHED");
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
    ask(OTHER, "TB.FINISH " FILTER);
    fixture_wait(&fixture, OTHER, "job_state", "done");
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
}

static void test_rollback__that_is_executed_late_undoes_no_later_cutover(void **state)
{
    (void)state;
    is_not_rolled_back("Make the other generation the current one", PROXY_BEFORE);
}

static void test_rollback__by_who_slept_before_it_undoes_no_later_cutover(void **state)
{
    (void)state;
    is_not_rolled_back(BEGINS("8\r\nrollback"), PROXY_AFTER);
}

/* The driver dies where the view is switched back, and its record does not say so yet. */
static void test_rollback__ends_in_a_hold_when_its_driver_dies_behind_the_switch(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, OTHER);
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    stop_at("hold\r\n$1\r\n1\r\n$8\r\nrollback\r\n$1\r\n0\r\n", PROXY_BEFORE);
    ask(OTHER, "TB.ROLLBACK " FILTER);
    sleeps();
    is("phase", "BUILDING");
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    assert_int_equal(fixture_generation(&fixture, OTHER), before);
    wakes_up();
    ask(OTHER, "TB.CUTOVER " FILTER); /* the request for the rollback was fulfilled, and is over */
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    clock_sleep_us(LEASE_US);
    is("phase", "SWITCHED");
    fixture_all_present(&fixture, OTHER, 0, ROWS);
}

/* As above, of a generation that failed its verification: it is discarded, and the job has failed. */
static void test_rollback__of_what_failed_fails_when_its_driver_dies_behind_the_switch(void **state)
{
    (void)state;
    struct error e = {""};
    struct client redis;
    int64_t before = fixture_generation(&fixture, OTHER);
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    stop_at("hold\r\n$1\r\n1\r\n$8\r\nrollback\r\n$1\r\n0\r\n", PROXY_BEFORE);
    ask(OTHER, "TB.ROLLBACK " FILTER);
    assert_true(proxy_await_held(proxy, WAIT_MS));
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    freeReplyObject(client_command(&redis, "HSET twinbloom:{" FILTER "}:job unconfirmed 1"));
    client_close(&redis);
    sleeps();
    fixture_wait(&fixture, OTHER, "job_state", "failed");
    assert_int_equal(fixture_generation(&fixture, OTHER), before);
    is("phase", "STEADY");
    wakes_up();
    is("phase", "STEADY");
    fixture_all_present(&fixture, OTHER, 0, ROWS);
}

/* The request to switch back comes late over a connection that broke. The driver has sent it again, and has
 * cut over again since. */
static void test_rollback__that_is_executed_late_undoes_no_later_cutover_of_its_driver(void **state)
{
    (void)state;
    fixture_insert(fixture.db, ROWS, LATER);
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    int64_t later = fixture_generation(&fixture, OTHER);
    stop_at("Make the other generation the current one", PROXY_BEFORE);
    ask(OTHER, "TB.ROLLBACK " FILTER);
    assert_true(proxy_await_held(proxy, WAIT_MS));
    proxy_count_only(proxy, "no later request");
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    ask(OTHER, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
    proxy_release(proxy, true);
    clock_sleep_us(LEASE_US);
    is("phase", "SWITCHED");
    assert_int_equal(fixture_generation(&fixture, OTHER), later);
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
}

/* --- finish, abort --- */

static void test_finish__by_who_slept_ends_no_later_grace(void **state)
{
    (void)state;
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    stop_at(BEGINS("6\r\nfinish"), PROXY_AFTER);
    ask(OTHER, "TB.FINISH " FILTER);
    sleeps();
    fixture_wait(&fixture, OTHER, "job_state", "done");
    (void)rebuilds_later_rows("TB.REBUILD " FILTER, "grace");
    wakes_up();
    is("phase", "SWITCHED");
    ask(OTHER, "TB.ROLLBACK " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    fixture_all_present(&fixture, OTHER, 0, ROWS);
}

static void test_abort__by_who_slept_ends_no_later_build(void **state)
{
    (void)state;
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    ask(SLEEPER, "TB.ROLLBACK " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    stop_at(BEGINS("5\r\nabort"), PROXY_AFTER);
    ask(OTHER, "TB.ABORT " FILTER);
    sleeps();
    fixture_wait(&fixture, OTHER, "job_state", "failed"); /* the other one does not know why it is aborted */
    int64_t before = rebuilds_later_rows("TB.REBUILD " FILTER " HOLD", "hold");
    wakes_up();
    is("phase", "BUILDING");
    is("job_step", "hold");
    ask(OTHER, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, OTHER, "phase", "SWITCHED");
    assert_true(fixture_generation(&fixture, OTHER) > before);
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
}

/* --- an operator's request --- */

/* A coordinator sleeps while it asks a job for something, and the next one runs when it wakes up. */
static void test_request__by_who_slept_is_not_one_to_a_later_job(void **state)
{
    (void)state;
    struct error e = {""};
    char former[600], command[700];
    ask(OTHER, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    must(client_status(&fixture.client[OTHER], FILTER, "job_id", former, sizeof(former), &e), e);
    (void)snprintf(command, sizeof(command), "TB.ABORT " FILTER " JOB %s", former);
    proxy_count_as_job(proxy, "*");
    stop_at("Make a request to a running job", PROXY_BEFORE);
    (void)!client_ok(&fixture.client[SLEEPER], &e, "TB.ABORT " FILTER); /* its deadline passes */
    assert_true(proxy_await_held(proxy, WAIT_MS));
    ask(OTHER, "TB.ABORT " FILTER);
    fixture_wait(&fixture, OTHER, "job_state", "aborted");
    ask(OTHER, "TB.REBUILD " FILTER " HOLD");
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    proxy_release(proxy, true);
    clock_sleep_us(LEASE_US);
    is("job_step", "hold");
    assert_int_not_equal(client_ok(&fixture.client[OTHER], &e, command),
                         ERR_OK); /* nor if it names the former one */
    assert_non_null(strstr(e.text, "another one runs"));
    ask(OTHER, "TB.ABORT " FILTER);
    fixture_wait(&fixture, OTHER, "job_state", "aborted");
}

/* --- open --- */

static void test_generation__is_not_entered_for_a_job_that_was_ended(void **state)
{
    (void)state;
    int64_t before = fixture_generation(&fixture, OTHER);
    stop_at("Enter a generation that will be built", PROXY_BEFORE);
    ask(SLEEPER, "TB.REBUILD " FILTER);
    sleeps();
    fixture_wait(&fixture, OTHER, "job_state", "failed"); /* the other one has found nothing of it */
    wakes_up();
    is("phase", "STEADY");
    is("job_state", "failed");
    assert_int_equal(fixture_generation(&fixture, OTHER), before);
}

/* --- home goes back --- */

static void copy(const char *from, const char *to)
{
    static const char *const keys[] = {"view", "job", "build"};
    struct error e = {""};
    struct client redis;
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    for (unsigned i = 0; i < 3; i++) {
        int64_t copied = 0;
        must(client_integer(&redis, &copied, &e,
                            "COPY %stwinbloom:{" FILTER "}:%s %stwinbloom:{" FILTER "}:%s REPLACE", from,
                            keys[i], to, keys[i]),
             e);
        assert_int_equal(copied, 1);
    }
    client_close(&redis);
}

/* The job is asked to cut over, though it may hold again, until it is done. */
static void is_cut_over(int64_t before)
{
    struct error e = {""};
    char text[64] = "";
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    while (strcmp(text, "done") != 0) {
        clock_sleep_us(200 * 1000);
        (void)!client_ok(&fixture.client[OTHER], &e, "TB.CUTOVER " FILTER);
        must(client_status(&fixture.client[OTHER], FILTER, "job_state", text, sizeof(text), &e), e);
        if (clock_mono_us() > until)
            fail_msg("the job is %s", text);
    }
    assert_true(fixture_generation(&fixture, OTHER) > before);
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
}

/* The metadata node is an older one, from before the cutover, while the job is in its grace time. */
static void test_home__that_went_back_behind_a_cutover_has_the_job_cut_over_again(void **state)
{
    (void)state;
    int64_t before = rebuilds_later_rows("TB.REBUILD " FILTER " HOLD", "hold");
    copy("", "saved:");
    ask(OTHER, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    copy("saved:", "");
    is_cut_over(before);
}

/* Cut over, so that rows which only the rebuild has found are present for both coordinators. */
static int64_t is_present_behind_a_cutover(void)
{
    struct error e = {""};
    int64_t before = rebuilds_later_rows("TB.REBUILD " FILTER " HOLD", "hold");
    copy("", "saved:");
    ask(OTHER, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    for (unsigned d = 0; d < 2; d++) {
        uint64_t present = 0, absent, until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
        while (present < LATER) {
            assert_true(clock_mono_us() < until);
            must(client_mexists(&fixture.client[d], FILTER, fixture_code, ROWS, LATER, &present, &absent, &e),
                 e);
        }
    }
    return before;
}

static void stays_present(int64_t before)
{
    uint64_t until = clock_mono_us() + 2 * LEASE_US;
    while (clock_mono_us() < until)
        for (unsigned d = 0; d < 2; d++)
            fixture_all_present(&fixture, d, 0, ROWS + LATER);
    is_cut_over(before);
}

/* As above. Rows that the rebuild has found stay present. */
static void test_home__that_went_back_behind_a_cutover_lacks_no_row(void **state)
{
    (void)state;
    int64_t before = is_present_behind_a_cutover();
    copy("saved:", "");
    stays_present(before);
}

/* All coordinators were started since. The registry, which stays, stands for that of another master. */
static void test_home__that_went_back_behind_a_cutover_lacks_no_row_for_who_did_not_see_it(void **state)
{
    struct error e = {""};
    (void)state;
    int64_t before = is_present_behind_a_cutover();
    for (unsigned d = 0; d < 2; d++) {
        client_close(&fixture.client[d]);
        daemon_kill(&fixture.daemon[d]);
    }
    copy("saved:", "");
    for (unsigned d = 0; d < 2; d++) {
        must(daemon_launch(&fixture.daemon[d], &e), e);
        fixture_reconnect(&fixture, d);
    }
    stays_present(before);
}

/* The view loses what the script that switches to a generation has written, and changes since, so its version
 * does not tell that it went back. */
static void lose_the_switch(unsigned current)
{
    struct error e = {""};
    struct client redis;
    must(client_open(&redis, fixture.redis[0].port, WAIT_MS, &e), e);
    freeReplyObject(
        client_command(&redis, "HSET twinbloom:{" FILTER "}:view bloom_filter_current_index %u", current));
    freeReplyObject(client_command(&redis, "HINCRBY twinbloom:{" FILTER "}:view version 1"));
    freeReplyObject(client_command(&redis, "PUBLISH twinbloom:events %s", "view " FILTER));
    client_close(&redis);
}

/* As above, but nothing is degraded, and the job is about to look up keys in the generation that it has cut
 * over to, when this coordinator does not answer from it any more. */
static void test_home__that_went_back_while_a_job_confirms_has_the_job_cut_over_again(void **state)
{
    (void)state;
    fixture_insert(fixture.db, ROWS, LATER);
    ask(SLEEPER, "TB.REBUILD " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    ask(OTHER, "TB.ROLLBACK " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "hold");
    int64_t before = fixture_generation(&fixture, OTHER);
    stop_at(BEGINS("7\r\nconfirm"), PROXY_BEFORE);
    ask(OTHER, "TB.CUTOVER " FILTER);
    assert_true(proxy_await_held(proxy, WAIT_MS));
    lose_the_switch((unsigned)before % 2);
    clock_sleep_us(LEASE_US); /* both have loaded the generation before, and answer from it */
    proxy_release(proxy, true);
    is_cut_over(before);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_rollback__that_is_executed_late_undoes_no_later_cutover),
        TEST(test_rollback__by_who_slept_before_it_undoes_no_later_cutover),
        TEST(test_rollback__ends_in_a_hold_when_its_driver_dies_behind_the_switch),
        TEST(test_rollback__of_what_failed_fails_when_its_driver_dies_behind_the_switch),
        TEST(test_rollback__that_is_executed_late_undoes_no_later_cutover_of_its_driver),
        TEST(test_finish__by_who_slept_ends_no_later_grace),
        TEST(test_abort__by_who_slept_ends_no_later_build),
        TEST(test_request__by_who_slept_is_not_one_to_a_later_job),
        TEST(test_generation__is_not_entered_for_a_job_that_was_ended),
        cmocka_unit_test_setup_teardown(test_home__that_went_back_behind_a_cutover_has_the_job_cut_over_again,
                                        set_up_short_grace, tear_down),
        TEST(test_home__that_went_back_behind_a_cutover_lacks_no_row),
        TEST(test_home__that_went_back_behind_a_cutover_lacks_no_row_for_who_did_not_see_it),
        cmocka_unit_test_setup_teardown(
            test_home__that_went_back_while_a_job_confirms_has_the_job_cut_over_again, set_up_patient,
            tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
