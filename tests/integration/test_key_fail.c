/* SPDX-License-Identifier: MIT */
/* key_request_fail() in each state of a request, on a real Redis: the request ends once, its memory is not
 * used afterwards, and the other requests of its turn get their answers. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <stdlib.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"

enum { REPLY_MS = 5000, PAUSE_MS = 150, BESIDE = 5 };

static const bool never = false;
static struct solo solo;

static void open_with(uint64_t memory)
{
    const struct control_options o = {.look_interval_us = 20000, .fold_interval_us = 20000, .folds = true};
    log_redis_make(10000, 2, 32768);
    solo_open(&solo, &on.nodes, &on.names, memory, &o);
}

static int tear_down(void **state)
{
    (void)state;
    solo_close(&solo);
    return 0;
}

/* Whatever arrives during the pause, the request does not end again, and has no answer. */
static void ended_once(struct solo_request *r)
{
    solo_run(&solo, &never, PAUSE_MS + 50);
    assert_int_equal(r->code, ERR_CANCELLED);
    assert_int_equal(r->answer, KEY_NO_ANSWER);
}

static uint64_t pinned(void)
{
    struct log_status s;
    control_status(solo.control, &s);
    return s.generation[0].memory.pinned_blocks + s.generation[1].memory.pinned_blocks;
}

/* Have Redis send no reply for a while. */
static void hold_back_answers(void)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "CLIENT PAUSE %d ALL", PAUSE_MS), e);
}

static void test_parked__it_leaves_the_filter(void **state)
{
    struct solo_request r, other;
    (void)state;
    open_with(UINT64_MAX); /* the view has not been read yet */
    solo_begin(&solo, &r, false, 1);
    solo_begin(&solo, &other, false, 2);
    assert_int_equal(r.q->state, REQUEST_PARKED);
    assert_int_equal(log_filter_parked(solo.filter), 2);
    solo_fail(&r);
    assert_int_equal(log_filter_parked(solo.filter), 1);
    solo_run(&solo, &other.told, 0);
    assert_int_equal(other.answer, KEY_ABSENT);
    ended_once(&r);
}

static void test_on_its_way_to_its_port__it_is_taken_back(void **state)
{
    struct solo_request r, other;
    (void)state;
    open_with(UINT64_MAX);
    solo_begin(&solo, &r, false, 1);
    solo_begin(&solo, &other, false, 2);
    log_filter_changed(solo.filter);
    assert_int_equal(r.q->state, REQUEST_READY);
    solo_fail(&r);
    solo_run(&solo, &other.told, 0);
    ended_once(&r);
}

static void test_over_and_not_told__it_is_told_once(void **state)
{
    struct solo_request r, other;
    (void)state;
    open_with(UINT64_MAX);
    log_filter_close(solo.filter, ERR_NOT_FOUND, "the filter does not exist");
    solo_begin(&solo, &r, true, 1);
    solo_begin(&solo, &other, true, 2);
    assert_int_equal(r.q->state, REQUEST_OVER);
    solo_fail(&r);
    solo_loop(&solo, &other.told, 0);
    assert_int_equal(other.code, ERR_NOT_FOUND);
    solo_loop(&solo, &never, 50);
    assert_int_equal(r.code, ERR_CANCELLED);
}

/* Fail a check before its tail read is sent, or while it is under way. */
static void check_while_lanes_are_asked(bool is_sent)
{
    struct solo_request r, beside[BESIDE];
    hold_back_answers();
    solo_begin(&solo, &r, false, 100);
    for (unsigned i = 0; i < BESIDE; i++)
        solo_begin(&solo, &beside[i], false, i);
    assert_int_equal(r.q->state, REQUEST_ASKING);
    if (is_sent)
        solo_loop(&solo, &never, 20);
    solo_fail(&r);
    for (unsigned i = 0; i < BESIDE; i++) {
        solo_run(&solo, &beside[i].told, 0);
        assert_int_equal(beside[i].code, ERR_OK);
        assert_int_equal(beside[i].answer, i == 1 ? KEY_PRESENT : KEY_ABSENT);
    }
    ended_once(&r);
}

static void test_a_check_that_asks_its_lane__leaves_the_turn(void **state)
{
    (void)state;
    open_with(UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    check_while_lanes_are_asked(false);
    check_while_lanes_are_asked(true);
}

/* The request's entry may be in the lane. The others' entries are, and they get their own "new" answers. */
static void test_an_add_that_was_sent__leaves_the_turn(void **state)
{
    struct solo_request r, beside[BESIDE];
    (void)state;
    open_with(UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    hold_back_answers();
    solo_begin(&solo, &beside[0], true, 0);
    solo_begin(&solo, &r, true, 100);
    for (unsigned i = 1; i < BESIDE; i++)
        solo_begin(&solo, &beside[i], true, i);
    assert_int_equal(r.q->state, REQUEST_ASKING);
    assert_true(r.q->is_sent);
    solo_loop(&solo, &never, 20);
    solo_fail(&r);
    for (unsigned i = 0; i < BESIDE; i++) {
        solo_run(&solo, &beside[i].told, 0);
        assert_int_equal(beside[i].code, ERR_OK);
        assert_int_equal(beside[i].answer, i == 1 ? KEY_OLD : KEY_ADDED);
    }
    ended_once(&r);
    for (unsigned i = 0; i < BESIDE; i++)
        assert_int_equal(solo_ask(&solo, false, i), KEY_PRESENT);
}

/* No shard is in memory: the request's blocks are pinned until it ends. */
static void fail_while_blocks_are_read(bool adds, bool is_sent)
{
    struct solo_request r, other;
    assert_int_equal(pinned(), 0);
    hold_back_answers();
    solo_begin(&solo, &r, adds, 100);
    solo_begin(&solo, &other, adds, 100); /* the same block */
    assert_int_equal(r.q->state, REQUEST_ASKING);
    assert_int_equal(pinned(), 1);
    if (is_sent)
        solo_loop(&solo, &never, 20);
    solo_fail(&r);
    assert_int_equal(pinned(), 1);
    solo_run(&solo, &other.told, 0);
    assert_int_equal(other.code, ERR_OK);
    assert_int_equal(pinned(), 0);
    ended_once(&r);
}

static void test_a_request_that_reads_blocks__unpins_them(void **state)
{
    (void)state;
    open_with(0);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    fail_while_blocks_are_read(false, false);
    fail_while_blocks_are_read(false, true);
    fail_while_blocks_are_read(true, false);
    fail_while_blocks_are_read(true, true);
}

struct failer {
    struct solo_request *victim;
    bool told;
};

static void fail_other(void *arg, enum err code, const char *text)
{
    struct failer *c = arg;
    (void)code;
    (void)text;
    c->told = true;
    solo_fail(c->victim);
}

/* A callback may end other requests, even of its own turn. */
static void test_from_within_a_done__of_the_same_turn(void **state)
{
    struct solo_request r, last;
    struct failer c = {.victim = &r};
    struct key_request first;
    uint8_t answer;
    (void)state;
    open_with(UINT64_MAX);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_ADDED);
    const struct request_key key = {.bytes = "absent", .length = 6};
    assert_false(key_check(solo.port, solo.filter, &first, &key, 1, &answer, fail_other, &c));
    solo_begin(&solo, &r, false, 100);
    solo_begin(&solo, &last, false, 101);
    solo_run(&solo, &last.told, 0);
    assert_true(c.told);
    assert_int_equal(last.answer, KEY_ABSENT);
    ended_once(&r);
}

#define FAIL_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAIL_TEST(test_parked__it_leaves_the_filter),
        FAIL_TEST(test_on_its_way_to_its_port__it_is_taken_back),
        FAIL_TEST(test_over_and_not_told__it_is_told_once),
        FAIL_TEST(test_a_check_that_asks_its_lane__leaves_the_turn),
        FAIL_TEST(test_an_add_that_was_sent__leaves_the_turn),
        FAIL_TEST(test_a_request_that_reads_blocks__unpins_them),
        FAIL_TEST(test_from_within_a_done__of_the_same_turn),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
