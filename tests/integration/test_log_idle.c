/* SPDX-License-Identifier: MIT */
/* A filter without requests, on a real Redis: nothing is sent, memory is released, and the next request finds
 * all keys. */
#include "tests/integration/log_redis.h"
#include "tests/integration/solo.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/view_load.h"

enum { SHARD_BYTES = 32768, LANES = 2, KEYS = 40, REST_US = 300 * 1000, IDLE_MS = 2500 };

static const bool never = false;
static struct solo solo, second;
static struct log_status s;
static bool has_second;

static struct control_options options(void)
{
    return (struct control_options){.folds = true,
                                    .fold_interval_us = 10000,
                                    .look_interval_us = 20000,
                                    .lease_ms = 200,
                                    .writer_grace_us = 500000,
                                    .rest_us = REST_US};
}

static void open_with(const struct control_options *o)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(log_member_make(on.link, &on.names, 100000, LANES, SHARD_BYTES, &e), e);
    solo_open(&solo, &on.nodes, &on.names, UINT64_MAX, o);
    has_second = false;
}

static int tear_down(void **state)
{
    (void)state;
    if (has_second)
        solo_close(&second);
    solo_close(&solo);
    return 0;
}

static bool rests(void)
{
    control_status(solo.control, &s);
    return s.rests;
}

static void run_until_it_rests(void)
{
    uint64_t until = clock_mono_us() + 20 * 1000000ull;
    while (!rests()) {
        if (clock_mono_us() > until)
            fail_msg("it does not rest; the control says: %s", solo.last.text);
        solo_run(&solo, &never, 10);
    }
}

/* Redis' calls of all commands but PING and INFO, which a worker's connection sends to its node regardless of
 * filters. */
static unsigned long long commands(void)
{
    unsigned long long sum = 0;
    redisReply *r = client_command(&on.client, "INFO commandstats");
    assert_true(r != NULL && r->type == REDIS_REPLY_STRING);
    for (const char *at = strstr(r->str, "cmdstat_"); at != NULL; at = strstr(at + 1, "cmdstat_")) {
        const char *calls = strstr(at, ":calls=");
        assert_non_null(calls);
        if (strncmp(at, "cmdstat_ping:", 13) != 0 && strncmp(at, "cmdstat_info:", 13) != 0)
            sum += strtoull(calls + strlen(":calls="), NULL, 10);
    }
    freeReplyObject(r);
    return sum;
}

/* Counts the commands that are sent for the filter in @ms. The control, which would send INFO, is not
 * called. */
static unsigned sent_in(unsigned ms)
{
    unsigned long long before = commands();
    unsigned tends = solo.tends;
    solo_run(&solo, &never, ms);
    assert_int_equal(solo.tends, tends);
    return (unsigned)(commands() - before);
}

static void add(struct solo *by, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(solo_ask(by, true, first + i), KEY_ADDED);
}

static void finds(struct solo *by, unsigned first, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(solo_ask(by, false, first + i), KEY_PRESENT);
    assert_int_equal(solo_ask(by, false, 1000000 + first), KEY_ABSENT);
}

static unsigned writers(void)
{
    struct error e = {""};
    must(log_view_load(on.link, &on.names, on.view, &e), e);
    return on.view->writer_count;
}

static void test_an_idle_writer__sends_nothing(void **state)
{
    const struct control_options o = options();
    (void)state;
    open_with(&o);
    add(&solo, 0, KEYS);
    assert_int_equal(writers(), 1);
    run_until_it_rests();
    assert_int_equal(writers(), 0);
    assert_false(s.registered);
    assert_false(s.folder.is_here);
    assert_int_equal(sent_in(IDLE_MS), 0);
    finds(&solo, 0, KEYS);
    assert_false(rests());
    add(&solo, 100, KEYS); /* the process registers again */
    assert_int_equal(writers(), 1);
    run_until_it_rests();
    assert_int_equal(sent_in(IDLE_MS), 0);
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    has_second = true;
    finds(&second, 0, KEYS);
    finds(&second, 100, KEYS);
}

static void test_one_that_is_not_folded__does_not_rest(void **state)
{
    struct control_options o = options();
    (void)state;
    o.folds = false;
    open_with(&o);
    add(&solo, 0, KEYS);
    solo_run(&solo, &never, 4 * REST_US / 1000);
    assert_false(rests());
    assert_true(s.registered);
    log_set_folding(solo.control, true);
    run_until_it_rests();
}

static void test_an_add_under_way__keeps_its_writer_registered(void **state)
{
    const struct control_options o = options();
    struct solo_request r;
    (void)state;
    open_with(&o);
    add(&solo, 0, KEYS);
    solo_begin(&solo, &r, true, 500);
    assert_int_equal(solo.filter->adding, 1);
    atomic_fetch_add(&solo.filter->adding, 1); /* another request, which takes long */
    solo_run(&solo, &r.told, 0);
    assert_int_equal(r.answer, KEY_ADDED);
    assert_int_equal(solo.filter->adding, 1);
    solo_run(&solo, &never, 5 * REST_US / 1000);
    assert_false(rests());
    assert_true(s.registered);
    atomic_fetch_sub(&solo.filter->adding, 1);
    run_until_it_rests();
}

static void test_who_rests__finds_what_others_add_meanwhile(void **state)
{
    const struct control_options o = options();
    (void)state;
    open_with(&o);
    add(&solo, 0, KEYS);
    run_until_it_rests();
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    has_second = true;
    add(&second, 100, KEYS);
    solo_run(&second, &never, 300); /* until folded and trimmed */
    assert_true(rests());
    finds(&solo, 0, KEYS);
    finds(&solo, 100, KEYS);
    assert_int_equal(solo_ask(&solo, true, 100), KEY_OLD);
}

/* A process must not put back a writer that left while it rested. */
static void test_who_rested__does_not_enter_again_who_left_meanwhile(void **state)
{
    struct control_options o = options();
    struct error e = {""};
    struct key_name view;
    int64_t removed = 0;
    (void)state;
    o.folds = false; /* this process does not look for others either */
    open_with(&o);
    o.folds = true;
    o.rest_us = 0;
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    has_second = true;
    add(&second, 0, KEYS);
    finds(&solo, 0, KEYS);
    log_filter_look(solo.filter);
    solo_tend(&solo);
    assert_false(rests());
    assert_int_equal(s.writers, 1);
    run_until_it_rests();
    assert_int_equal(writers(), 1);
    has_second = false;
    solo_close(&second);
    assert_int_equal(writers(), 0);
    names_filter_key(&on.names, "view", &view);
    must(client_integer(&on.client, &removed, &e, "HDEL %b left", view.text, view.length), e);
    assert_int_equal(removed, 1);
    finds(&solo, 0, KEYS);
    log_filter_look(solo.filter);
    solo_tend(&solo);
    assert_int_equal(writers(), 0);
}

/* The removal is folded, though there are no requests. */
static void test_a_writer_that_is_gone__is_removed_before_the_folder_rests(void **state)
{
    struct control_options o = options();
    (void)state;
    open_with(&o);
    o.rest_us = 0;
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    has_second = true;
    add(&second, 0, KEYS); /* the second process is silent from then on */
    finds(&solo, 0, KEYS);
    log_filter_look(solo.filter);
    solo_tend(&solo);
    run_until_it_rests();
    assert_int_equal(writers(), 0);
    finds(&solo, 0, KEYS);
}

static uint64_t resident(void)
{
    uint64_t sum = 0;
    control_status(solo.control, &s);
    for (unsigned i = 0; i < 2; i++)
        sum += s.generation[i].memory.resident_bytes;
    return sum;
}

static void test_memory__is_given_back_when_nobody_asks(void **state)
{
    struct control_options o = options();
    (void)state;
    o.resident_idle_us = 3 * REST_US;
    open_with(&o);
    add(&solo, 0, KEYS);
    uint64_t had = resident();
    assert_true(had > 0);
    for (unsigned i = 0; resident() > 0 && i < 1000; i++)
        solo_run(&solo, &never, 10);
    assert_int_equal(resident(), 0);
    assert_int_equal(solo.budget.used, 0);
    run_until_it_rests();
    assert_int_equal(sent_in(IDLE_MS), 0);
    finds(&solo, 0, KEYS);
    for (unsigned i = 0; resident() < had && i < 1000; i++) {
        solo_run(&solo, &never, 10);
        finds(&solo, 0, 1);
    }
    assert_true(resident() == had);
    finds(&solo, 0, KEYS);
    assert_int_equal(solo_ask(&solo, true, 1), KEY_OLD);
}

static void test_what_is_dear_to_load__is_tailed_and_stays(void **state)
{
    struct control_options o = options();
    (void)state;
    o.resident_idle_us = REST_US;
    o.dear_bytes = 1;
    o.retain_us = 600 * 1000; /* the lanes are read every 0.2 s */
    open_with(&o);
    add(&solo, 0, KEYS);
    uint64_t had = resident();
    run_until_it_rests();
    solo_open(&second, &on.nodes, &on.names, UINT64_MAX, &o);
    has_second = true;
    add(&second, 100, KEYS);
    uint64_t entries = solo.filter->lane[0].entries + solo.filter->lane[1].entries;
    for (unsigned i = 0;
         solo.filter->lane[0].entries + solo.filter->lane[1].entries < entries + KEYS && i < 1000; i++)
        solo_run(&solo, &never, 10);
    assert_true(solo.filter->lane[0].entries + solo.filter->lane[1].entries >= entries + KEYS);
    run_until_it_rests();
    assert_true(resident() == had);
    finds(&solo, 100, KEYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_an_idle_writer__sends_nothing, tear_down),
        cmocka_unit_test_teardown(test_one_that_is_not_folded__does_not_rest, tear_down),
        cmocka_unit_test_teardown(test_an_add_under_way__keeps_its_writer_registered, tear_down),
        cmocka_unit_test_teardown(test_who_rests__finds_what_others_add_meanwhile, tear_down),
        cmocka_unit_test_teardown(test_who_rested__does_not_enter_again_who_left_meanwhile, tear_down),
        cmocka_unit_test_teardown(test_a_writer_that_is_gone__is_removed_before_the_folder_rests, tear_down),
        cmocka_unit_test_teardown(test_what_is_dear_to_load__is_tailed_and_stays, tear_down),
        cmocka_unit_test_teardown(test_memory__is_given_back_when_nobody_asks, tear_down),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
