/* SPDX-License-Identifier: MIT */
/* Checks and adds of a coordinator whose view is old or not fenced. */
#include "tests/integration/operations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct generation *current(void)
{
    return &f.view.slot[f.view.current];
}

static uint32_t shard_of(unsigned key)
{
    char text[16];
    struct key_place place;
    int n = snprintf(text, sizeof(text), "k%u", key);
    hash_place(&current()->layers[0].geometry, hash_key(current()->seed, text, (size_t)n), &place);
    return place.shard;
}

/* --- the happy path --- */

static void test_operation__adds_and_finds_keys(void **state)
{
    (void)state;
    assert_in_range(coordinator_check(&one, 0, 500, KEY_NO), 495, 500);
    coordinator_add(&one, 0, 500);
    assert_in_range(coordinator_results(&one, 500, KEY_YES), 495, 500);
    coordinator_add(&one, 0, 500);
    assert_int_equal(coordinator_results(&one, 500, KEY_YES), 0);
    assert_int_equal(coordinator_check(&two, 0, 500, KEY_YES), 500);
    assert_false(two.retried);
    assert_int_equal(filter_check(&f, current(), 0, 500), 500);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_operation__on_a_filter_that_was_never_made_is_not_found(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct operation *op = coordinator_start(&one, i == 1 ? OPERATION_ADD : OPERATION_CHECK, "no-such", 0,
                                                 3, coordinator_done);
        coordinator_wait(&one);
        assert_int_equal(operation_status(op), ERR_NOT_FOUND);
        operation_release(op);
        /* Released by its own callback, as who needs it no more does. */
        (void)coordinator_start(&one, OPERATION_CHECK, "no-such", 0, 3, coordinator_done_release);
        coordinator_wait(&one);
    }
    assert_int_equal(one.lost, 0);
}

/* The second load begins, and finds that the filter was seen, before the first one's operation is told. */
static void test_operation__is_not_told_of_a_loss_by_what_was_seen_after_its_load(void **state)
{
    (void)state;
    one.seen_from_look = 2;
    struct operation *first = coordinator_start(&one, OPERATION_ADD, "no-such", 0, 1, coordinator_done);
    struct operation *second = coordinator_start(&one, OPERATION_ADD, "no-such", 0, 1, coordinator_done);
    coordinator_wait(&one);
    coordinator_run(&one, 100);
    assert_int_equal(one.looks, 2);
    assert_int_equal(operation_status(first), ERR_NOT_FOUND);
    assert_int_equal(operation_status(second), ERR_LOST);
    operation_release(first);
    operation_release(second);
}

static void test_operation__released_early_calls_nobody(void **state)
{
    (void)state;
    struct operation *op = coordinator_start(&one, OPERATION_ADD, "f", 0, 10, coordinator_done);
    operation_release(op);
    coordinator_run(&one, 100);
    assert_false(one.done);
    assert_int_equal(coordinator_check(&one, 0, 10, KEY_YES), 10); /* what was sent is not taken back */
}

static void test_catalog_free__cancels_what_still_runs(void **state)
{
    (void)state;
    (void)coordinator_start(&one, OPERATION_CHECK, "f", 0, 10, coordinator_done_release);
    catalog_free(one.catalog);
    one.catalog = NULL;
    assert_true(one.done);
    assert_int_equal(one.status, ERR_CANCELLED);
}

/* --- an old view --- */

static void test_operation__with_an_old_view_never_says_no_to_a_newer_key(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 100);
    assert_int_equal(coordinator_check(&two, 0, 100, KEY_YES),
                     100); /* two has the view of epoch 1 now, and sleeps */
    filter_open(&f, 2 * SHARDS, true);
    coordinator_add(&one, 100, 200);
    (void)filter_add(&f, &f.view.slot[1], 0, 100); /* the scan */
    assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    assert_true(two.retried);
    filter_cutover(&f, true);
    coordinator_add(&one, 300, 100);
    filter_finish(&f, true);
    coordinator_add(&one, 400, 100);
    assert_int_equal(coordinator_check(&two, 0, 500, KEY_YES), 500);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_operation__with_an_old_view_adds_to_both_generations(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 10);
    coordinator_add(&two, 0, 10);
    filter_open(&f, 2 * SHARDS, true);
    coordinator_add(&two, 100, 300);
    assert_true(two.retried);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 100, 300), 300);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 100, 300), 300);
    filter_cutover(&f, true);
    coordinator_add(&one, 400, 300); /* one has slept since epoch 1 */
    assert_int_equal(filter_check(&f, &f.view.slot[0], 400, 300), 300);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 400, 300), 300);
    filter_finish(&f, true);
    coordinator_add(&one, 700, 300);
    assert_int_equal(filter_check(&f, current(), 100, 900), 900);
    filter_all_are(&f, current(), 4, "shard");
    filter_all_are(&f, current(), 3, "tombstone"); /* no zombie in its place */
}

/* The commands are written before the change, and executed after it. */
static void test_operation__that_a_view_change_overtakes_starts_again(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 1);
    struct operation *op = coordinator_start(&one, OPERATION_ADD, "f", 100, 300, coordinator_done);
    filter_open(&f, 2 * SHARDS, true);
    coordinator_wait(&one);
    assert_int_equal(operation_status(op), ERR_OK);
    assert_true(operation_was_retried(op));
    operation_release(op);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 100, 300), 300);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 100, 300), 300);
}

static void test_operation__with_a_view_of_a_lost_incarnation_is_no_answer(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 100);
    coordinator_add(&two, 0, 100);
    filter_fini(&f);
    servers_flush(&servers);
    filter_init(&f, &servers, "f");
    f.fence.names.incarnation = INCARNATION + 1;
    filter_make(&f, SHARDS); /* epoch 1 again */
    (void)filter_add(&f, current(), 200, 100);
    assert_int_equal(coordinator_check(&one, 200, 100, KEY_YES), 100);
    coordinator_add(&two, 300, 100);
    assert_int_equal(filter_check(&f, current(), 300, 100), 100);
}

/* --- a view that is not fenced --- */

static void test_operation__under_an_unfenced_view_is_kept_by_the_fence(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    coordinator_add(&one, 0, 300);
    filter_open(&f, 2 * SHARDS, false);
    coordinator_add(&one, 300,
                    100); /* with the view of epoch 1: its shards are still there, or renamed under it */
    coordinator_add(&two, 400, 200);
    assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 0, 600), 600);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 400, 200), 200);
    assert_int_equal(coordinator_check(&one, 0, 600, KEY_YES), 600);
    assert_int_equal(coordinator_check(&two, 0, 600, KEY_YES), 600);
    assert_int_equal(one.lost + two.lost, 0);
}

static void test_operation__under_a_half_fenced_view_takes_part_in_the_fence(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    coordinator_add(&one, 0, 300);
    filter_open(&f, 2 * SHARDS, false);
    coordinator_add(&two, 300, 300);
    filter_all_are(&f, &f.view.slot[0], 2, "shard");
    filter_all_are(&f, &f.view.slot[0], 1, "tombstone");
    filter_all_are(&f, &f.view.slot[1], 2, "shard");
    coordinator_add(&one, 600, 300); /* its view is old: it finds the tombstones */
    assert_true(one.retried);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 0);
    assert_int_equal(filter_check(&f, &f.view.slot[0], 0, 900), 900);
    assert_int_equal(filter_check(&f, &f.view.slot[1], 300, 600), 600);
}

/* A shard that is not there may be on its way: nothing is concluded before the fence is complete. */
static void test_operation__concludes_no_loss_under_an_unfenced_view(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost = 99;
    coordinator_add(&one, 0, 300);
    filter_open(&f, 2, false);
    const uint32_t shard = shard_of(0);
    for (uint64_t epoch = 1; epoch < 3; epoch++) {
        const struct key_name *name = filter_shard(&f, 2, shard, epoch);
        (void)servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length);
    }
    assert_int_equal(coordinator_ask(&two, OPERATION_CHECK, 0, 1), ERR_TIMEOUT);
    assert_int_equal(two.lost, 0);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    assert_int_equal(lost, 1);
    assert_int_equal(coordinator_check(&two, 0, 1, KEY_YES), 1); /* maybe */
    assert_int_equal(two.lost, 1);
}

/* EVALs that all nodes have run. */
static long long evals(void)
{
    long long sum = 0;
    struct client *node;
    for (unsigned i = 0; (node = servers_each(&servers, i)) != NULL; i++) {
        redisReply *info = client_command(node, "INFO commandstats");
        assert_non_null(info);
        const char *at = strstr(info->str, "cmdstat_eval:calls=");
        sum += at == NULL ? 0 : strtoll(at + strlen("cmdstat_eval:calls="), NULL, 10);
        freeReplyObject(info);
    }
    return sum;
}

static void test_operation__stops_renaming_once_the_fence_is_complete(void **state)
{
    (void)state;
    struct error e = {""};
    uint64_t lost;
    coordinator_add(&one, 0, 300);
    filter_open(&f, 500, false);
    coordinator_add(&two, 300, 1);
    must(fence_complete(&f.fence, &f.view, &lost, &e), e);
    coordinator_run(&two, 200);
    long long before = evals();
    assert_true(before > 500);
    coordinator_add(&two, 301, 600);
    assert_int_equal(evals(), before);
    assert_false(two.retried);
}

/* The connection may break with the rename on it: here the shard lies under its old name although the
 * coordinator has sent one. */
static void test_operation__sends_a_rename_again_that_did_not_arrive(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 300);
    filter_open(&f, 2, false);
    assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    const uint32_t shard = shard_of(0);
    const struct key_name to = *filter_shard(&f, 2, shard, 1);
    const struct key_name from = *filter_shard(&f, 2, shard, 2);
    (void)servers_text(&servers, filter_node(&f, shard), "RENAME %b %b", from.text, from.length, to.text,
                       to.length);
    assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    assert_true(two.retried);
    assert_int_equal(two.lost, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, operations_setup, operations_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_operation__adds_and_finds_keys),
        TEST(test_operation__on_a_filter_that_was_never_made_is_not_found),
        TEST(test_operation__is_not_told_of_a_loss_by_what_was_seen_after_its_load),
        TEST(test_operation__released_early_calls_nobody),
        TEST(test_catalog_free__cancels_what_still_runs),
        TEST(test_operation__with_an_old_view_never_says_no_to_a_newer_key),
        TEST(test_operation__with_an_old_view_adds_to_both_generations),
        TEST(test_operation__that_a_view_change_overtakes_starts_again),
        TEST(test_operation__with_a_view_of_a_lost_incarnation_is_no_answer),
        TEST(test_operation__under_an_unfenced_view_is_kept_by_the_fence),
        TEST(test_operation__under_a_half_fenced_view_takes_part_in_the_fence),
        TEST(test_operation__concludes_no_loss_under_an_unfenced_view),
        TEST(test_operation__stops_renaming_once_the_fence_is_complete),
        TEST(test_operation__sends_a_rename_again_that_did_not_arrive),
    };
    return cmocka_run_group_tests(tests, operations_start, operations_stop);
}
