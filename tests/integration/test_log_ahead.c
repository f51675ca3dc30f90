/* SPDX-License-Identifier: MIT */
/* A look at a filter for which replies were asked ahead, on a real Redis: what it costs, and what it does not
 * take for later than it is. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"

enum { SOON_US = 20000, NEVER_US = 60 * 1000 * 1000 };

static const bool never = false;
static struct solo solo;
static struct error e;

static int set_up(void **state)
{
    const struct control_options o = {.folds = true, .look_interval_us = NEVER_US};
    (void)state;
    log_redis_make(10000, 1, 32768);
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, &o);
    solo_tend(&solo);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    solo_run(&solo, &never, 300); /* loaded, and folded */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

static void ask_ahead(void)
{
    solo_ask_ahead(&solo, 2ull * NEVER_US, NULL);
}

/* All commands that Redis has executed. */
static uint64_t commands(void)
{
    redisReply *r = client_command(&on.client, "INFO stats");
    uint64_t n = strtoull(strstr(r->str, "total_commands_processed:") + 25, NULL, 10);
    freeReplyObject(r);
    return n;
}

static struct log_status status(void)
{
    static struct log_status s;
    control_status(solo.control, &s);
    return s;
}

static void change_view(void)
{
    int64_t n;
    must(client_integer(&on.client, &n, &e, "HINCRBY tb:{f}:view version 1"), e);
}

static void test_a_look_that_was_asked_ahead__sends_nothing(void **state)
{
    (void)state;
    uint64_t looks = status().looks, version = status().version;
    change_view();
    ask_ahead();
    uint64_t before = commands();
    solo_tend_ahead(&solo);
    assert_int_equal(commands() - before, 1); /* the one by which this is counted */
    assert_int_equal(solo.code, ERR_OK);
    assert_int_equal(status().looks, looks + 1);
    assert_int_equal(status().version, version + 1);
}

/* Who wants a look has seen something that the replies may not have. */
static void test_a_look_that_is_wanted_behind_the_asking__begins_behind_it(void **state)
{
    (void)state;
    uint64_t version = status().version;
    ask_ahead();
    change_view();
    log_filter_look(solo.filter);
    solo_tend_ahead(&solo);
    assert_int_equal(status().version, version + 1);
}

static void test_a_look_that_was_asked_ahead__is_as_old_as_the_asking(void **state)
{
    (void)state;
    uint64_t version = status().version;
    ask_ahead();
    uint64_t asked = clock_mono_us();
    change_view();
    solo_loop(&solo, &never, SOON_US / 1000);
    solo_tend_ahead(&solo);
    assert_int_equal(status().version, version);
    assert_true(atomic_load(&solo.filter->looked) <= asked);
    solo_tend_once(&solo); /* nothing is due */
    assert_int_equal(status().version, version);
    log_filter_look(solo.filter);
    solo_tend_once(&solo);
    assert_int_equal(status().version, version + 1);
}

/* A request that began behind the asking is not told that the view was missing then. */
static void test_a_view_that_comes_back_behind_the_asking__is_not_missed_by_later_requests(void **state)
{
    (void)state;
    must(client_ok(&on.client, &e, "RENAME tb:{f}:view aside"), e);
    ask_ahead();
    must(client_ok(&on.client, &e, "RENAME aside tb:{f}:view"), e);
    uint64_t looks = atomic_load(&solo.filter->looks);
    solo_tend_ahead(&solo);
    assert_int_equal(solo.code, ERR_LOST);
    assert_true(solo.filter->is_missing && solo.filter->missed <= looks);
    assert_int_equal(solo_ask(&solo, false, 2), KEY_ABSENT);
    assert_false(solo.filter->is_missing);
}

static void end_connections(void)
{
    int64_t n;
    must(client_integer(&on.client, &n, &e, "CLIENT KILL TYPE normal SKIPME yes"), e);
}

/* The next look asks for itself. */
static void test_what_could_not_be_asked_ahead__is_asked_by_the_look(void **state)
{
    (void)state;
    uint64_t version = status().version;
    solo_ask_ahead(&solo, 2ull * NEVER_US, end_connections);
    change_view();
    solo_tend_ahead(&solo);
    assert_int_equal(status().version, version);
    solo_run(&solo, &never, 200);
    assert_int_equal(solo.code, ERR_OK);
    assert_int_equal(status().version, version + 1);
}

#define AHEAD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        AHEAD_TEST(test_a_look_that_was_asked_ahead__sends_nothing),
        AHEAD_TEST(test_a_look_that_is_wanted_behind_the_asking__begins_behind_it),
        AHEAD_TEST(test_a_look_that_was_asked_ahead__is_as_old_as_the_asking),
        AHEAD_TEST(test_a_view_that_comes_back_behind_the_asking__is_not_missed_by_later_requests),
        AHEAD_TEST(test_what_could_not_be_asked_ahead__is_asked_by_the_look),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
