/* SPDX-License-Identifier: MIT */
/* Checks and adds of a coordinator whose shards or view are gone. */
#include "tests/integration/operations.h"

#include <stdio.h>
#include <string.h>

static const struct filter_policy strict = {.configured = true, .sourced = true, .error_on_lost = true};
static const struct filter_policy reserved = {.configured = false};

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

static void delete_shard(uint32_t shard)
{
    const struct key_name *name = filter_shard(&f, current()->number, shard, f.view.epoch);
    assert_int_equal(servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length),
                     1);
}

/* --- shards --- */

static void test_operation__says_maybe_for_keys_of_a_lost_shard(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 300);
    delete_shard(shard_of(0));
    unsigned of_shard = 0;
    for (unsigned i = 0; i < 300; i++)
        of_shard += shard_of(1000 + i) == shard_of(0);
    assert_true(of_shard > 0);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
    assert_int_equal(coordinator_check(&one, 1000, 300, KEY_LOST), 0);
    for (unsigned i = 0; i < 300; i++)
        if (shard_of(1000 + i) == shard_of(0))
            assert_int_equal(one.result[i], KEY_YES);
    assert_in_range(coordinator_results(&one, 300, KEY_NO), 300 - of_shard - 5, 300 - of_shard);
    assert_int_equal(one.lost, 1); /* told once */
    assert_int_equal(one.lost_generation, 2);
    coordinator_add(&one, 0, 300); /* of a filter with a source: the row is the truth */
    assert_int_equal(coordinator_results(&one, 300, KEY_YES), 0);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
}

static void test_operation__gives_an_error_for_a_lost_shard_where_that_is_wanted(void **state)
{
    (void)state;
    coordinator_close(&two);
    coordinator_open_patient(&two, &servers, strict);
    coordinator_add(&two, 0, 300);
    delete_shard(shard_of(0));
    for (int kind = OPERATION_CHECK; kind <= (int)OPERATION_ADD; kind++) {
        assert_int_equal(coordinator_ask(&two, (enum operation_kind)kind, 0, 300), ERR_OK);
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(two.result[i] == KEY_LOST, shard_of(i) == shard_of(0));
    }
    assert_int_equal(two.lost, 1);
}

static void test_operation__acknowledges_no_add_to_a_lost_shard_without_a_source(void **state)
{
    (void)state;
    coordinator_close(&two);
    coordinator_open_patient(&two, &servers, reserved);
    coordinator_add(&two, 0, 300);
    delete_shard(shard_of(0));
    for (int round = 0; round < 2; round++) { /* the first may leave a zombie for the second */
        assert_int_equal(coordinator_ask(&two, OPERATION_ADD, 0, 300), ERR_OK);
        for (unsigned i = 0; i < 300; i++)
            assert_int_equal(two.result[i] == KEY_LOST, shard_of(i) == shard_of(0));
        assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    }
    assert_int_equal(two.lost, 1);
}

/* Behind a cutover the old generation takes adds and answers nothing: its loss is not one of the generation
 * in use. */
static void test_operation__says_which_generation_lost_a_shard(void **state)
{
    (void)state;
    filter_open(&f, SHARDS, true);
    uint64_t old = current()->number;
    filter_cutover(&f, true);
    const struct generation *before = &f.view.slot[1 - f.view.current];
    assert_int_equal(before->number, old);
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        const struct key_name *name = filter_shard(&f, old, shard, f.view.epoch);
        assert_int_equal(
            servers_integer(&servers, filter_node(&f, shard), "DEL %b", name->text, name->length), 1);
    }
    coordinator_add(&one, 0, 50);
    assert_int_equal(one.lost_generation, old);
    assert_int_equal(coordinator_check(&one, 0, 50, KEY_YES), 50);
    delete_shard(shard_of(0));
    assert_int_equal(coordinator_check(&one, 0, 1, KEY_YES), 1);
    assert_int_equal(one.lost_generation, current()->number);
}

/* It may lie under a later epoch, where others read it: home came back with an older view. */
static void test_operation__acknowledges_no_add_to_a_lost_shard_before_that_is_sure(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 20);
    delete_shard(shard_of(0));
    one.unsure = true;
    assert_int_equal(coordinator_check(&one, 0, 1, KEY_YES), 1);
    coordinator_give(&one, COORDINATOR_TIMEOUT_MS);
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 0, 1), ERR_TIMEOUT);
    coordinator_give(&one, COORDINATOR_PATIENT_MS);
    one.unsure = false;
    coordinator_add(&one, 0, 1);
    assert_int_equal(coordinator_results(&one, 1, KEY_NO), 1);
}

/* --- views --- */

/* At the end of their time: the view might come back. */
static void refuses_adds(struct coordinator *c)
{
    coordinator_give(c, COORDINATOR_TIMEOUT_MS);
    assert_int_equal(coordinator_ask(c, OPERATION_ADD, 0, 10), ERR_LOST);
    coordinator_give(c, COORDINATOR_PATIENT_MS);
}

static void test_operation__never_says_no_once_the_view_is_gone(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 300);
    coordinator_close(&two);
    coordinator_open_patient(&two, &servers, reserved);
    assert_int_equal(coordinator_check(&two, 0, 300, KEY_YES), 300);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
    servers_flush(&servers);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(coordinator_check(&one, 0, 600, KEY_YES), 600);
        assert_int_equal(coordinator_check(&two, 0, 600, KEY_YES), 600);
        refuses_adds(&two);
        refuses_adds(&one);
    }
    assert_true(one.lost > 0);
    assert_true(two.lost > 0);
    assert_int_equal(one.lost_generation, 0); /* the whole view */
    assert_int_equal(servers_integer(&servers, 0, "EXISTS " PREFIX ":{f}:view"), 0);
}

/* Its shards are there, and whoever still holds the view reads them: "no" is right for what was not written.
 */
static void test_operation__acknowledges_no_add_once_the_view_is_gone(void **state)
{
    (void)state;
    coordinator_add(&one, 0, 10);
    filter_open(&f, 2, true);
    assert_int_equal(coordinator_check(&two, 0, 10, KEY_YES), 10);
    assert_int_equal(servers_integer(&servers, 0, "DEL " PREFIX ":{f}:view"), 1);
    coordinator_give(&one, COORDINATOR_TIMEOUT_MS);
    assert_int_equal(coordinator_ask(&one, OPERATION_ADD, 100, 10), ERR_LOST);
    assert_in_range(one.late_turns, 0, COORDINATOR_LATE_TURNS);
    assert_non_null(strstr(one.error, "nothing was acknowledged"));
    assert_int_equal(one.lost_generation, 0);
    assert_int_equal(coordinator_check(&two, 100, 10, KEY_NO), 10);
}

static void test_operation__never_says_no_for_a_configured_filter_without_a_view(void **state)
{
    (void)state;
    servers_flush(&servers);
    assert_int_equal(coordinator_check(&one, 0, 300, KEY_YES), 300);
    coordinator_close(&two);
    coordinator_open_patient(&two, &servers, strict);
    assert_int_equal(coordinator_ask(&two, OPERATION_CHECK, 0, 10), ERR_OK);
    assert_int_equal(coordinator_results(&two, 10, KEY_LOST), 10);
}

/* Whoever sends the add makes it; one that had been there was lost. */
static void test_operation__an_add_finds_no_filter_where_a_configured_one_was_never_made(void **state)
{
    (void)state;
    static const struct filter_policy configured = {.configured = true};
    coordinator_add(&one, 0, 10);
    coordinator_close(&two);
    servers_flush(&servers);
    coordinator_open_patient(&two, &servers, configured);
    assert_int_equal(coordinator_ask(&two, OPERATION_ADD, 0, 10), ERR_NOT_FOUND);
    assert_int_equal(coordinator_check(&two, 0, 10, KEY_YES), 10);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, operations_setup_patient, operations_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_operation__says_maybe_for_keys_of_a_lost_shard),
        TEST(test_operation__gives_an_error_for_a_lost_shard_where_that_is_wanted),
        TEST(test_operation__acknowledges_no_add_to_a_lost_shard_without_a_source),
        TEST(test_operation__says_which_generation_lost_a_shard),
        TEST(test_operation__acknowledges_no_add_to_a_lost_shard_before_that_is_sure),
        TEST(test_operation__never_says_no_once_the_view_is_gone),
        TEST(test_operation__acknowledges_no_add_once_the_view_is_gone),
        TEST(test_operation__never_says_no_for_a_configured_filter_without_a_view),
        TEST(test_operation__an_add_finds_no_filter_where_a_configured_one_was_never_made),
    };
    return cmocka_run_group_tests(tests, operations_start, operations_stop);
}
