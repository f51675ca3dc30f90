/* SPDX-License-Identifier: MIT */
/* A filter that is deleted, step by step: what coordinators that hold its view see, and who goes on where the
 * driver died. */
#include "tests/integration/coordinator.h"

#include <stdio.h>
#include <string.h>

enum { SHARDS = 8, KEYS = 200, SECOND = 0xfeed };

static struct servers servers;
static struct filter f;
static struct coordinator one, two;
static const struct filter_policy unconfigured = {0};

static int start(void **state)
{
    (void)state;
    return servers_start(&servers, 2);
}

static int stop(void **state)
{
    (void)state;
    return servers_stop(&servers);
}

static int setup(void **state)
{
    (void)state;
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    filter_make(&f, SHARDS);
    coordinator_open(&one, &servers, unconfigured);
    coordinator_open(&two, &servers, unconfigured);
    coordinator_add(&one, 0, KEYS);
    assert_int_equal(coordinator_check(&two, 0, KEYS, KEY_YES), KEYS);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    coordinator_close(&one);
    coordinator_close(&two);
    filter_fini(&f);
    return 0;
}

/* The first step; the mutex is ours. */
static void begin(void)
{
    struct error e = {""};
    must(fence_drop(&f.fence, &f.view, 0, MUTEX, &e), e);
}

static void complete(void)
{
    struct error e = {""};
    must(fence_drop_complete(&f.fence, &f.view, MUTEX, &e), e);
}

/* Some other driver that knows only what is in Redis. */
static void take_over(void)
{
    struct error e = {""};
    static struct view found;
    must(fence_load_any(&f.fence, &found, &e), e);
    assert_int_equal(found.dropped, VIEW_DROP_BEGUN);
    f.view = found;
    complete();
}

static void bury(uint32_t shard)
{
    const struct key_name *name = filter_shard(&f, view_current(&f.view)->number, shard, f.view.epoch);
    unsigned node = filter_node(&f, shard);
    assert_int_equal(servers_integer(&servers, node, "DEL %b", name->text, name->length), 1);
    assert_int_equal(servers_integer(&servers, node, "RPUSH %b retired", name->text, name->length), 1);
    assert_int_equal(servers_integer(&servers, node, "PEXPIRE %b 60000", name->text, name->length), 1);
}

/* A new filter under the name, as a creator makes it. */
static void make_again(void)
{
    struct error e = {""};
    uint64_t swept = 0;
    f.fence.names.incarnation = SECOND;
    must(fence_sweep(&f.fence, MUTEX, &swept, &e), e);
    assert_int_equal(swept, 0); /* tombstones, all of them */
    filter_make(&f, SHARDS);
}

/* Nothing but tombstones, and what waits to expire, on any node. */
static void nothing_is_left(void)
{
    struct client *c;
    for (unsigned node = 0; (c = servers_each(&servers, node)) != NULL; node++) {
        redisReply *keys = client_command(c, "KEYS *");
        assert_non_null(keys);
        for (size_t i = 0; i < keys->elements; i++) {
            const char *name = keys->element[i]->str;
            if (strcmp(name, PREFIX ":{f}:expansion_flag") == 0)
                continue; /* this test's mutex */
            if (servers_integer(&servers, node, "PTTL %s", name) <= 0)
                fail_msg("%s stays for ever", name);
            bool marker = strcmp(name, PREFIX ":{f}:view") == 0 || strcmp(name, PREFIX ":{f}:count") == 0 ||
                          strcmp(name, PREFIX ":{f}:token") == 0;
            if (!marker && strcmp(servers_text(&servers, node, "TYPE %s", name), "list") != 0)
                fail_msg("%s is neither a tombstone nor the marker", name);
        }
        freeReplyObject(keys);
    }
}

static void both_find_nothing(void)
{
    assert_int_equal(coordinator_ask(&one, OPERATION_CHECK, 0, KEYS), ERR_NOT_FOUND);
    assert_int_equal(coordinator_ask(&two, OPERATION_CHECK, 0, KEYS), ERR_NOT_FOUND);
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 0, 1), ERR_NOT_FOUND);
    assert_int_equal(coordinator_ask(&two, OPERATION_ADD, 0, 1), ERR_NOT_FOUND);
    assert_false(one.seen);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_fence_drop__leaves_tombstones_and_a_marker(void **state)
{
    (void)state;
    assert_string_equal(servers_text(&servers, 0, "SET " PREFIX ":{f}:token 7"), "OK");
    begin();
    complete();
    filter_all_are(&f, view_current(&f.view), f.view.epoch, "tombstone");
    nothing_is_left();
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:view dropped"), "done");
    both_find_nothing();
}

static void test_fence_drop__is_a_loss_to_nobody_once_its_marker_is_gone(void **state)
{
    (void)state;
    begin();
    complete();
    both_find_nothing();
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    both_find_nothing();
}

/* Without the marker a coordinator that slept through it all cannot tell it from a loss. */
static void test_fence_drop__is_a_loss_to_who_slept_past_the_marker(void **state)
{
    (void)state;
    begin();
    complete();
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    assert_int_equal(coordinator_check(&two, 0, KEYS, KEY_YES), KEYS);
    assert_int_equal(coordinator_ask(&two, OPERATION_ADD, 0, 1), ERR_LOST);
}

static void test_fence_drop__goes_on_serving_until_a_shard_is_gone(void **state)
{
    (void)state;
    begin();
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_YES), KEYS);
    coordinator_add(&two, KEYS, 10);
    assert_int_equal(coordinator_check(&one, KEYS, 10, KEY_YES), 10);
    take_over();
    both_find_nothing();
}

/* Whoever would say that the filter is gone while another may yet acknowledge into it would make a lost key
 * of what is added next. */
static void test_fence_drop__keeps_keys_of_gone_shards_waiting_until_all_are_gone(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < SHARDS / 2; i++)
        bury(i);
    assert_int_equal(coordinator_ask(&one, OPERATION_CHECK, 0, KEYS), ERR_TIMEOUT);
    assert_non_null(strstr(one.error, "being deleted"));
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 0, KEYS), ERR_TIMEOUT);
    assert_int_equal(one.lost, 0);
    struct operation *op = coordinator_start(&one, OPERATION_CHECK, "f", 0, KEYS, coordinator_done);
    coordinator_run(&one, 100);
    assert_false(one.done);
    take_over();
    coordinator_wait(&one);
    assert_int_equal(one.status, ERR_NOT_FOUND);
    operation_release(op);
    filter_all_are(&f, view_current(&f.view), f.view.epoch, "tombstone");
    both_find_nothing();
}

/* Keys of one add, some of which were written before their shards went: all are written to the new filter. */
static void test_fence_drop__makes_an_add_that_it_met_half_way_start_anew(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < SHARDS / 2; i++)
        bury(i);
    struct operation *op = coordinator_start(&one, OPERATION_ADD, "f", KEYS, KEYS, coordinator_done);
    coordinator_run(&one, 100);
    assert_false(one.done);
    take_over();
    make_again();
    coordinator_wait(&one);
    if (one.status ==
        ERR_NOT_FOUND) { /* it saw the marker: its client makes the filter, and starts it again */
        struct catalog_filter *entry;
        struct error e = {""};
        must(catalog_find(one.catalog, "f", 1, &entry, &e), e);
        one.done = false;
        operation_start(op, entry, coordinator_done, &one);
        coordinator_wait(&one);
    }
    assert_int_equal(one.status, ERR_OK);
    operation_release(op);
    assert_int_equal(coordinator_check(&two, KEYS, KEYS, KEY_YES), KEYS);
}

static void test_fence_drop__lets_no_view_from_before_answer_or_acknowledge(void **state)
{
    (void)state;
    static struct view old;
    struct error e = {""};
    uint64_t lost;
    static const char *const keys[] = {"k0"};
    static const size_t lengths[] = {2};
    uint8_t found[1];
    old = f.view;
    begin();
    complete();
    gives(ERR_LOST, fence_check(&f.fence, &old, view_current(&old), 1, keys, lengths, found, &e), e);
    gives(ERR_LOST, fence_add(&f.fence, &old, view_current(&old), 1, keys, lengths, found, &e), e);
    old.fenced_epoch = 0;
    gives(ERR_FENCED, fence_complete(&f.fence, &old, &lost, &e), e);
    make_again();
    /* As one that was stopped all the while. */
    coordinator_add(&two, 1000, 100);
    assert_int_equal(coordinator_check(&one, 1000, 100, KEY_YES), 100);
    assert_int_equal(coordinator_check(&one, 0, KEYS, KEY_NO), KEYS);
    assert_int_equal(filter_check(&f, view_current(&f.view), 1000, 100), 100);
}

static void test_fence_drop__is_forgotten_for_the_filter_that_comes_after(void **state)
{
    (void)state;
    begin();
    complete();
    both_find_nothing();
    make_again();
    coordinator_add(&one, 0, 10);
    assert_true(one.seen);
    servers_flush(&servers); /* a loss it is now, and no deletion */
    assert_int_equal(coordinator_check(&one, 500, 10, KEY_YES), 10);
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 0, 1), ERR_LOST);
}

static void test_fence_drop__takes_both_generations_and_what_retires(void **state)
{
    (void)state;
    static struct view before;
    filter_open(&f, 5, true);
    before = f.view;
    begin();
    complete();
    filter_all_are(&f, &before.slot[0], before.epoch, "tombstone");
    filter_all_are(&f, &before.slot[1], before.epoch, "tombstone");
    nothing_is_left();

    make_again();
    filter_open(&f, 5, true);
    filter_cutover(&f, true);
    filter_finish(&f, true);
    before = f.view;
    assert_true(before.retiring_epoch != 0);
    begin();
    complete();
    filter_all_are(&f, view_current(&before), before.epoch, "tombstone");
    filter_all_are(&f, &before.retiring, before.retiring_epoch, "tombstone");
    nothing_is_left();
}

static void test_fence_drop__takes_a_layer_that_was_being_opened(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost;
    struct view to = f.view;
    struct generation *g = &to.slot[to.current];
    g->layers[1] = g->layers[0];
    g->layers[1].born_epoch = f.view.epoch + 1;
    g->layer_count = 2;
    g->opening = true;
    to.phase = PHASE_OVERFLOW_OPEN;
    must(fence_create(&f.fence, g, 1, &e), e);
    filter_change(&f, &to, false); /* its driver dies here */
    gives(ERR_CONFLICT, fence_drop(&f.fence, &f.view, 0, MUTEX, &e), e);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    begin();
    complete();
    nothing_is_left();
    both_find_nothing();
}

static void test_fence_drop__refuses_what_is_not_fenced_or_not_ours(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost;
    static struct view old;
    gives(ERR_CONFLICT, fence_drop_complete(&f.fence, &f.view, MUTEX, &e), e);
    gives(ERR_MUTEX_LOST, fence_drop(&f.fence, &f.view, 0, "owner:8", &e), e);
    old = f.view;
    filter_open(&f, 5, false);
    gives(ERR_FENCED, fence_drop(&f.fence, &old, 0, MUTEX, &e), e);
    gives(ERR_CONFLICT, fence_drop(&f.fence, &f.view, 0, MUTEX, &e), e);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:view dropped"), "");
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    begin();
    gives(ERR_MUTEX_LOST, fence_drop_complete(&f.fence, &f.view, "owner:8", &e), e);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:view dropped"), "begun");
    begin(); /* may be done again */
    complete();
    complete();
    gives(ERR_NOT_FOUND, fence_load_any(&f.fence, &old, &e), e);
    assert_int_equal(old.dropped, VIEW_DROP_DONE);
    assert_true(old.incarnation == INCARNATION && old.last_generation == f.view.last_generation);
}

/* A driver of a job, or a creator, that comes late. */
static void test_fence_drop__lets_the_view_change_no_more(void **state)
{
    (void)state;
    struct error e = {""};
    static struct view next, again;
    next = f.view;
    next.epoch++;
    next.phase = PHASE_BUILDING;
    next.last_generation++;
    next.slot[1 - next.current] = filter_generation(&f, next.last_generation, 5, next.epoch);
    again = f.view;
    again.fenced_epoch = 0;
    begin();
    gives(ERR_FENCED, fence_change(&f.fence, &f.view, &next, MUTEX, NULL, &e), e);
    gives(ERR_EXISTS, fence_publish(&f.fence, &again, MUTEX, &e), e);
    static struct view found;
    gives(ERR_NOT_FOUND, fence_load(&f.fence, &found, &e), e);
    assert_int_equal(found.dropped, VIEW_DROP_BEGUN);
    complete();
    gives(ERR_FENCED, fence_change(&f.fence, &f.view, &next, MUTEX, NULL, &e), e);
    must(fence_publish(&f.fence, &again, MUTEX, &e), e);
}

static void test_fence_drop__begins_nothing_while_a_node_is_away(void **state)
{
    (void)state;
    struct error e = {""};
    assert_string_equal(servers_text(&servers, 1, "CONFIG SET maxclients 1"), "OK");
    link_forget(f.fence.link);
    link_free(f.fence.link);
    f.fence.link = link_new(&servers.nodes, 300, NULL);
    enum err code = fence_drop(&f.fence, &f.view, 0, MUTEX, &e);
    assert_string_equal(servers_text(&servers, 1, "CONFIG SET maxclients 1000"), "OK");
    assert_true(code == ERR_UNREACHABLE || code == ERR_REFUSED);
    assert_string_equal(servers_text(&servers, 0, "HGET " PREFIX ":{f}:view dropped"), "");
}

static void test_fence_drop__leaves_late_counts_to_expire(void **state)
{
    (void)state;
    coordinator_add(&one, 5000, 500); /* counts of single shards wait for a second */
    begin();
    complete();
    (void)coordinator_ask(&two, OPERATION_CHECK, 0, 1);
    coordinator_run(&one, 1500);
    nothing_is_left();
}

/* --- expiry --- */

static bool expire(uint64_t at_ms, unsigned conditions)
{
    struct error e = {""};
    bool done = false, would = false;
    must(fence_expire(&f.fence, at_ms, conditions, true, &would, &e), e);
    must(fence_expire(&f.fence, at_ms, conditions, false, &done, &e), e);
    assert_int_equal(done, would);
    return done;
}

static uint64_t expire_at(void)
{
    struct error e = {""};
    static struct view found;
    must(fence_load(&f.fence, &found, &e), e);
    return found.expire_at_ms;
}

static void test_fence_expire__goes_by_its_conditions(void **state)
{
    (void)state;
    struct error e = {""};
    bool done;
    assert_false(expire(0, 0));
    assert_false(expire(5000, EXPIRE_XX));
    assert_false(expire(5000, EXPIRE_GT));
    assert_int_equal(expire_at(), 0);
    assert_true(expire(5000, EXPIRE_LT));
    assert_false(expire(6000, EXPIRE_NX));
    assert_false(expire(6000, EXPIRE_LT));
    assert_false(expire(5000, EXPIRE_GT));
    assert_int_equal(expire_at(), 5000);
    assert_true(expire(6000, EXPIRE_GT | EXPIRE_XX));
    assert_true(expire(4000, EXPIRE_LT));
    assert_true(expire(9000, 0));
    assert_int_equal(expire_at(), 9000);
    assert_true(expire(0, 0));
    assert_int_equal(expire_at(), 0);
    assert_true(expire(7000, EXPIRE_NX));
    begin();
    gives(ERR_NOT_FOUND, fence_expire(&f.fence, 1, 0, false, &done, &e), e);
    complete();
    gives(ERR_NOT_FOUND, fence_expire(&f.fence, 1, 0, false, &done, &e), e);
}

static void test_fence_expire__outlives_a_change_of_view_and_is_compared_by_the_drop(void **state)
{
    (void)state;
    struct error e = {""};
    assert_true(expire(7000, 0));
    filter_open(&f, 5, true);
    assert_int_equal(expire_at(), 7000);
    gives(ERR_CONFLICT, fence_drop(&f.fence, &f.view, 6999, MUTEX, &e), e);
    assert_true(expire(0, 0));
    gives(ERR_CONFLICT, fence_drop(&f.fence, &f.view, 7000, MUTEX, &e), e);
    assert_true(expire(7000, 0));
    must(fence_drop(&f.fence, &f.view, 7000, MUTEX, &e), e);
    complete();
    make_again();
    assert_int_equal(expire_at(), 0);
}

/* --- counting by bits --- */

static void test_fence_count_keys__counts_keys_and_no_tags(void **state)
{
    (void)state;
    struct error e = {""};
    double keys = -1;
    must(fence_count_keys(&f.fence, &f.view, view_current(&f.view), BITS_RANGES_MAX, 2000, &keys, &e), e);
    if (keys < 0.98 * KEYS || keys > 1.02 * KEYS)
        fail_msg("%g of %d keys", keys, KEYS);
    bury(3);
    gives(ERR_LOST,
          fence_count_keys(&f.fence, &f.view, view_current(&f.view), BITS_RANGES_MAX, 2000, &keys, &e), e);
    gives(ERR_TIMEOUT,
          fence_count_keys(&f.fence, &f.view, view_current(&f.view), BITS_RANGES_MAX, 0, &keys, &e), e);
}

static void test_fence_count_keys__looks_at_a_sample_of_a_large_generation(void **state)
{
    (void)state;
    enum { MANY = BITS_RANGES_MAX + 1000, ADDED = 4000 };
    static struct filter large;
    struct error e = {""};
    double keys = -1;
    filter_init(&large, &servers, "large");
    filter_make(&large, MANY);
    (void)filter_add(&large, view_current(&large.view), 0, ADDED);
    must(fence_count_keys(&large.fence, &large.view, view_current(&large.view), BITS_RANGES_MAX, 20000, &keys,
                          &e),
         e);
    filter_fini(&large);
    if (keys < 0.95 * ADDED || keys > 1.05 * ADDED)
        fail_msg("%g of %d keys", keys, ADDED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_fence_drop__leaves_tombstones_and_a_marker),
        TEST(test_fence_drop__is_a_loss_to_nobody_once_its_marker_is_gone),
        TEST(test_fence_drop__is_a_loss_to_who_slept_past_the_marker),
        TEST(test_fence_drop__goes_on_serving_until_a_shard_is_gone),
        TEST(test_fence_drop__keeps_keys_of_gone_shards_waiting_until_all_are_gone),
        TEST(test_fence_drop__makes_an_add_that_it_met_half_way_start_anew),
        TEST(test_fence_drop__lets_no_view_from_before_answer_or_acknowledge),
        TEST(test_fence_drop__is_forgotten_for_the_filter_that_comes_after),
        TEST(test_fence_drop__takes_both_generations_and_what_retires),
        TEST(test_fence_drop__takes_a_layer_that_was_being_opened),
        TEST(test_fence_drop__refuses_what_is_not_fenced_or_not_ours),
        TEST(test_fence_drop__lets_the_view_change_no_more),
        TEST(test_fence_drop__begins_nothing_while_a_node_is_away),
        TEST(test_fence_drop__leaves_late_counts_to_expire),
        TEST(test_fence_expire__goes_by_its_conditions),
        TEST(test_fence_expire__outlives_a_change_of_view_and_is_compared_by_the_drop),
        TEST(test_fence_count_keys__counts_keys_and_no_tags),
        TEST(test_fence_count_keys__looks_at_a_sample_of_a_large_generation),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
