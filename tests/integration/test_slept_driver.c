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
static int start(const char *grace)
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
    return start("60s");
}

static int set_up_short_grace(void **state)
{
    (void)state;
    return start("2s");
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
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    while (!proxy_is_held(proxy)) {
        if (clock_mono_us() > until)
            fail_msg("the job was not stopped");
        clock_sleep_us(1000);
    }
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

/* The metadata node is an older one, from before the cutover, while the job is in its grace time. */
static void test_home__that_went_back_behind_a_cutover_has_the_job_cut_over_again(void **state)
{
    (void)state;
    struct error e = {""};
    char text[64] = "";
    int64_t before = rebuilds_later_rows("TB.REBUILD " FILTER " HOLD", "hold");
    copy("", "saved:");
    ask(OTHER, "TB.CUTOVER " FILTER);
    fixture_wait(&fixture, OTHER, "job_step", "grace");
    copy("saved:", "");
    uint64_t until = clock_mono_us() + WAIT_MS * UINT64_C(1000);
    while (strcmp(text, "done") != 0) {
        clock_sleep_us(200 * 1000);
        (void)!client_ok(&fixture.client[OTHER], &e, "TB.CUTOVER " FILTER); /* it may hold again */
        must(client_status(&fixture.client[OTHER], FILTER, "job_state", text, sizeof(text), &e), e);
        if (clock_mono_us() > until)
            fail_msg("the job is %s", text);
    }
    assert_true(fixture_generation(&fixture, OTHER) > before);
    fixture_all_present(&fixture, OTHER, 0, ROWS + LATER);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_rollback__that_is_executed_late_undoes_no_later_cutover),
        TEST(test_rollback__by_who_slept_before_it_undoes_no_later_cutover),
        TEST(test_finish__by_who_slept_ends_no_later_grace),
        TEST(test_abort__by_who_slept_ends_no_later_build),
        TEST(test_generation__is_not_entered_for_a_job_that_was_ended),
        cmocka_unit_test_setup_teardown(test_home__that_went_back_behind_a_cutover_has_the_job_cut_over_again,
                                        set_up_short_grace, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
