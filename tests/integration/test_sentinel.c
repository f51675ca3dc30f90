/* SPDX-License-Identifier: MIT */
/* A coordinator whose Redis is a master that three sentinels watch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/integration/fixture.h"
#include "tests/integration/watched.h"
#include "tests/lib/daemon.h"

enum { REPLY_MS = 5000, STOP_MS = 10000, KEYS = 200, STARTS = 4, IDLE_US = 300 * 1000, ROUNDS_MS = 1500 };

static struct watched watched;
static struct daemon served;
static struct client caller;
static uint64_t added;

static size_t key_of(uint64_t number, char out[CLIENT_KEY_MAX])
{
    return (size_t)snprintf(out, CLIENT_KEY_MAX, "key:%llu", (unsigned long long)number);
}

/* How many lines of the coordinator's log, which all its starts share, have @event. */
static unsigned logged(const char *event)
{
    unsigned count = 0;
    char *log = process_log(&served.process);
    for (const char *at = log; (at = strstr(at, event)) != NULL; at += strlen(event))
        count++;
    free(log);
    return count;
}

static void restart(void)
{
    struct error e = {""};
    client_close(&caller);
    assert_true(daemon_stop(&served, STOP_MS));
    must(daemon_launch(&served, &e), e);
    must(client_open(&caller, served.port, REPLY_MS, &e), e);
}

static void add_some(void)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    while (client_madd(&caller, "f", key_of, added, KEYS, &e) != ERR_OK) { /* sent once more */
        if (clock_mono_us() > until)
            fail_msg("%s", e.text);
        clock_sleep_us(50 * 1000);
    }
    added += KEYS;
}

static void all_are_there(void)
{
    struct error e = {""};
    uint64_t present = 0;
    must(client_mexists(&caller, "f", key_of, 0, added, &present, NULL, &e), e);
    assert_int_equal(present, added);
}

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    watched_start(&watched);
    const struct daemon_options o = {.sentinel = watched.urls, .redis = "master = main\n"};
    must(daemon_start(&served, &o, &e), e);
    must(client_open(&caller, served.port, REPLY_MS, &e), e);
    must(client_ok(&caller, &e, "BF.RESERVE f 0.001 100000"), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    client_close(&caller);
    bool clean = daemon_fini(&served);
    watched_stop(&watched);
    return clean ? 0 : -1;
}

/* A connection that is about to ask for the address has none yet. */
static void test_a_first_connection__is_kept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < STARTS; i++) {
        clock_sleep_us(IDLE_US);
        add_some();
        all_are_there();
        restart();
    }
    assert_int_equal(logged("event=redis_down"), 0);
}

static void test_sentinels_that_are_away__keep_nobody_who_is_connected(void **state)
{
    (void)state;
    unsigned before = logged("event=sentinel_down");
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    watched_kill_sentinels(&watched);
    while (logged("event=sentinel_down") - before < WATCHED_SENTINELS) {
        assert_true(clock_mono_us() < until);
        add_some();
    }
    for (until = clock_mono_us() + ROUNDS_MS * 1000ull; clock_mono_us() < until;)
        add_some();
    all_are_there();
    assert_int_equal(logged("event=sentinel_down") - before, WATCHED_SENTINELS);
}

/* Behind the test before. */
static void test_without_sentinels__a_start_waits_for_them(void **state)
{
    (void)state;
    struct error e = {""};
    char *advice;
    int status = 0;
    restart();
    must(daemon_run(&served, "--doctor", &advice, &status, &e), e);
    assert_int_equal(status, 1);
    assert_non_null(strstr(advice, "start it and its sentinels; check `sentinel`, `master`"));
    free(advice);
    redisReply *r = client_command(&caller, "BF.EXISTS f key:0");
    assert_non_null(r);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_non_null(strstr(r->str, "no sentinel has told yet where this master is"));
    freeReplyObject(r);
    watched_restart_sentinels(&watched);
    add_some();
    all_are_there();
}

static void test_a_failover__loses_no_acknowledged_key(void **state)
{
    (void)state;
    struct error e = {""};
    struct client sentinel;
    bool asked = false;
    uint64_t until = clock_mono_us() + WATCHED_WAIT_MS * 1000ull;
    must(client_open(&sentinel, watched.port[0], REPLY_MS, &e), e);
    while (!asked) { /* sentinels that have just started know no replica yet */
        assert_true(clock_mono_us() < until);
        asked = client_ok(&sentinel, &e, "SENTINEL FAILOVER main") == ERR_OK;
        clock_sleep_us(50 * 1000);
    }
    client_close(&sentinel);
    while (!watched_master_is(&watched, watched.redis[1].port)) {
        assert_true(clock_mono_us() < until);
        add_some();
    }
    add_some();
    all_are_there();
    restart();
    all_are_there();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_first_connection__is_kept),
        cmocka_unit_test(test_sentinels_that_are_away__keep_nobody_who_is_connected),
        cmocka_unit_test(test_without_sentinels__a_start_waits_for_them),
        cmocka_unit_test(test_a_failover__loses_no_acknowledged_key),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
