/* SPDX-License-Identifier: MIT */
/* When a control reads the view: when a lane has a notice, when a lane broke, when a request wants to append,
 * and otherwise hardly ever. On a real Redis; the test counts commands and tail reads, not time. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <stdlib.h>
#include <string.h>

#include "shard/view/view_load.h"

enum { REPLY_MS = 5000, LANES = 3, SECOND_MS = 1000 };

static const bool never = false;
static struct solo solo;

static void open_with(const struct control_options *o)
{
    log_redis_make(10000, LANES, 32768);
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, o);
    solo_tend(&solo);
}

/* The interval of looks is longer than a test, so that each look has another reason. */
static int set_up(void **state)
{
    const struct control_options o = {.folds = true, .look_interval_us = 3600 * 1000000ull};
    (void)state;
    open_with(&o);
    return 0;
}

static int set_up_defaults(void **state)
{
    const struct control_options o = {.folds = true};
    (void)state;
    open_with(&o);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

/* The commands that Redis has executed, without INFO, which checks a node regardless of filters. */
static uint64_t commands(void)
{
    redisReply *r = client_command(&on.client, "INFO commandstats");
    uint64_t sum = 0;
    for (const char *at = r->str; (at = strstr(at, "cmdstat_")) != NULL; at++)
        if (strncmp(at, "cmdstat_info", 12) != 0)
            sum += strtoull(strstr(at, "calls=") + 6, NULL, 10);
    freeReplyObject(r);
    return sum;
}

static uint64_t looks(void)
{
    struct log_status s;
    control_status(solo.control, &s);
    return s.looks;
}

/* Change the view visibly: no key is "absent" any more. */
static void degrade(void)
{
    struct error e = {""};
    int64_t n;
    must(client_integer(&on.client, &n, &e, "HSET tb:{f}:view degraded 1"), e);
    must(client_integer(&on.client, &n, &e, "HINCRBY tb:{f}:view version 1"), e);
}

static void test_a_filter_that_nobody_asks__costs_nothing(void **state)
{
    (void)state;
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    solo_run(&solo, &never, 200);
    uint64_t before = commands(), tends = solo.tends;
    solo_run(&solo, &never, SECOND_MS);
    assert_in_range(commands() - before, 0, 2 * LANES); /* the lanes' sizes, as there is a lag */
    assert_in_range(solo.tends - tends, 0, 2);
}

static void test_a_reader_that_nobody_asks__reads_the_view_every_ten_seconds(void **state)
{
    (void)state;
    assert_int_equal(solo_ask(&solo, false, 1), KEY_ABSENT);
    uint64_t before = commands();
    solo_run(&solo, &never, 2 * SECOND_MS);
    assert_int_equal(commands() - before, 0);
}

/* A roll call waits for writers, so a writer looks once a second. */
static void test_a_writer_that_nobody_asks__reads_the_view_once_a_second(void **state)
{
    (void)state;
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    uint64_t before = commands(), looked = looks();
    solo_run(&solo, &never, 3 * SECOND_MS);
    assert_in_range(looks() - looked, 2, 4);
    assert_in_range(commands() - before, 2, 4 + 2 * LANES); /* the view; the lanes' sizes, once */
}

static void test_a_notice__is_met_by_the_next_tail_read(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_ABSENT);
    degrade();
    for (unsigned i = 0; i < 20; i++) /* there is no notice of it */
        assert_int_equal(solo_ask(&solo, false, i), KEY_ABSENT);
    uint64_t looked = looks();
    log_view_notify(on.link, &on.names);
    assert_false(atomic_load(&solo.woken));
    (void)solo_ask(&solo, false, 1);
    assert_true(atomic_load(&solo.woken)); /* woken by the one tail read */
    solo_tend(&solo);
    assert_int_equal(solo_ask(&solo, false, 1), KEY_MAYBE);
    assert_in_range(looks() - looked, 1, 2);
}

/* Each lane has the notice, whichever is read. */
static void test_a_notice__is_in_every_lane(void **state)
{
    struct log_status status;
    (void)state;
    control_status(solo.control, &status);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            struct lane one;
            lane_key(&one.key, &on.names, lane, status.lane[lane].lane.number);
            assert_int_equal(lanes_number(&on.client, "XLEN", &one), 1 + i);
        }
        log_view_notify(on.link, &on.names);
    }
}

/* No notice for a filter that is deleted, whose lane is closed, or that was made again. */
static void test_a_notice__needs_a_view_and_lanes(void **state)
{
    struct error e = {""};
    struct names others = on.names;
    int64_t n;
    (void)state;
    others.incarnation++;
    log_view_notify(on.link, &others);
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    log_view_notify(on.link, &on.names);
    must(client_integer(&on.client, &n, &e, "DBSIZE"), e);
    assert_int_equal(n, 0);
}

static void delete_lane(unsigned lane)
{
    redisReply *r = client_command(&on.client, "KEYS tb:{f.%u}:*.log*", lane);
    assert_int_equal(r->elements, 1);
    freeReplyObject(client_command(&on.client, "DEL %s", r->element[0]->str));
    freeReplyObject(r);
}

/* The tail read that finds no lane wakes the control, which repairs the lane long before its next look. */
static void test_a_lane_that_is_lost__is_mended_for_the_request_that_met_it(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(solo_ask(&solo, true, i), KEY_ADDED);
    for (unsigned lane = 0; lane < LANES; lane++)
        delete_lane(lane);
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_PRESENT);
    for (unsigned i = 100; i < 150; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_ABSENT);
    assert_int_equal(solo_ask(&solo, true, 100), KEY_ADDED);
}

#define NOTICE_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NOTICE_TEST(test_a_filter_that_nobody_asks__costs_nothing),
        cmocka_unit_test_setup_teardown(test_a_reader_that_nobody_asks__reads_the_view_every_ten_seconds,
                                        set_up_defaults, tear_down),
        cmocka_unit_test_setup_teardown(test_a_writer_that_nobody_asks__reads_the_view_once_a_second,
                                        set_up_defaults, tear_down),
        NOTICE_TEST(test_a_notice__is_met_by_the_next_tail_read),
        NOTICE_TEST(test_a_notice__is_in_every_lane),
        NOTICE_TEST(test_a_notice__needs_a_view_and_lanes),
        NOTICE_TEST(test_a_lane_that_is_lost__is_mended_for_the_request_that_met_it),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
