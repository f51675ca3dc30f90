/* SPDX-License-Identifier: MIT */
/* The generation before a cutover, on real servers: it becomes current again, is forgotten and deleted. Also
 * a build that is aborted. */
#include "tests/integration/log_builds.h"
#include "tests/integration/cut_over.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 3000, OTHERS = 1000000 };

static struct log_process p;

static int teardown(void **state)
{
    (void)state;
    log_close(&p);
    return 0;
}

static uint64_t current(void)
{
    return log_stored()->slot[log_stored()->current].shape.number;
}

static void build_one(bool heals)
{
    struct error e = {""};
    log_begin(&p, UINT64_MAX);
    log_rows(&p, 0, ROWS);
    must(build_cutover(p.build, heals, &e), e);
    assert_int_equal(current(), p.builder->shape.number);
}

static enum err switch_to(uint64_t number, struct error *e)
{
    static struct generation g; /* as large as a view's */
    const struct log_view *v = log_stored();
    g = v->slot[number % 2].shape;
    g.number = number;
    return grace_switch(p.link, &log_names, "", v->version, &g, e);
}

static enum err forget(uint64_t number, struct error *e)
{
    return grace_forget(p.link, &log_names, "", number, e);
}

/* The number of entries of the lane. */
static long long entries(void)
{
    struct lane lane;
    struct log_position at;
    log_lane(&lane, &at);
    return servers_integer(&log_servers, 0, "XLEN %b", lane.key.text, lane.key.length);
}

static long long shards_of(uint64_t number)
{
    char pattern[64];
    (void)snprintf(pattern, sizeof(pattern), ".%" PRIu64 ".*", number);
    return log_count_keys(pattern);
}

/* The lane has all keys that were added since the old generation was folded. */
static void test_switch__keeps_what_was_added_after_the_cutover(void **state)
{
    struct error e = {""};
    (void)state;
    log_add(OTHERS, 100);
    build_one(false);
    uint64_t now = current();
    log_add(OTHERS + 100, 100);
    must(switch_to(LOG_OLD, &e), e);
    assert_int_equal(current(), LOG_OLD);
    assert_int_equal(log_missing(OTHERS, OTHERS + 200), 0);
    log_add(OTHERS + 200, 100);
    must(switch_to(now, &e), e);
    assert_int_equal(log_missing(0, ROWS), 0);
    assert_int_equal(log_missing(OTHERS + 100, OTHERS + 300), 0);
}

/* Each change appends a notice, so that readers of the lane read the view. A refusal changes nothing. */
static void test_a_change_of_generations__is_told_in_the_lane(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&p, UINT64_MAX);
    log_rows(&p, 0, ROWS);
    long long before = entries();
    must(build_cutover(p.build, false, &e), e);
    uint64_t now = current();
    assert_int_equal(entries(), before + 1);
    must(switch_to(LOG_OLD, &e), e);
    assert_int_equal(entries(), before + 2);
    assert_int_equal(switch_to(now + 2, &e), ERR_NOT_FOUND);
    must(switch_to(now, &e), e);
    assert_int_equal(entries(), before + 3);
    must(forget(LOG_OLD, &e), e);
    assert_int_equal(entries(), before + 4);
    assert_int_equal(forget(now, &e), ERR_CONFLICT);
    assert_int_equal(entries(), before + 4);
}

static void test_switch__refuses_what_was_not_folded_in_the_lane(void **state)
{
    struct error e = {""};
    (void)state;
    build_one(false);
    log_replace_lane();
    gives(ERR_CONFLICT, switch_to(LOG_OLD, &e), e);
    assert_non_null(strstr(e.text, "not folded"));
    assert_int_equal(current(), p.builder->shape.number);
}

static void test_switch__refuses_what_is_being_built(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&p, UINT64_MAX);
    gives(ERR_CONFLICT, switch_to(p.builder->shape.number, &e), e);
    gives(ERR_NOT_FOUND, switch_to(LOG_OLD + 3, &e), e);
    assert_int_equal(current(), LOG_OLD);
}

/* The old generation lacks the keys that the build has healed. */
static void test_switch__refuses_what_was_degraded(void **state)
{
    struct error e = {""};
    (void)state;
    log_set_field("degraded", "1");
    build_one(true);
    assert_false(log_stored()->degraded);
    gives(ERR_CONFLICT, switch_to(LOG_OLD, &e), e);
    assert_false(log_stored()->slot[0].shape.built);
    must(forget(LOG_OLD, &e), e);
}

static void test_cutover__that_does_not_heal_leaves_the_filter_degraded(void **state)
{
    struct error e = {""};
    (void)state;
    log_set_field("degraded", "1");
    build_one(false);
    assert_true(log_stored()->degraded);
    must(switch_to(LOG_OLD, &e), e);
    assert_true(log_stored()->degraded);
}

static void test_forget__then_delete_leaves_no_shard(void **state)
{
    struct error e = {""};
    (void)state;
    long long shards = log_shape().layers[0].geometry.shards;
    build_one(false);
    gives(ERR_CONFLICT, forget(current(), &e), e);
    assert_int_equal(shards_of(LOG_OLD), shards);
    must(forget(LOG_OLD, &e), e);
    assert_int_equal(log_stored()->slot[0].shape.number, 0);
    assert_int_equal(log_stored()->slot[0].folded[0].lane_number, 0);
    gives(ERR_NOT_FOUND, switch_to(LOG_OLD, &e), e);
    assert_int_equal(shards_of(LOG_OLD), shards); /* the deletion stopped here, and another process goes on */
    must(forget(LOG_OLD, &e), e);
    must(grace_delete(p.link, &log_names, &e), e);
    assert_int_equal(shards_of(LOG_OLD), 0);
    assert_int_equal(shards_of(current()), shards);
    assert_int_equal(log_count_keys("}:forgotten"), 0);
    must(grace_delete(p.link, &log_names, &e), e);
    assert_int_equal(log_missing(0, ROWS), 0);
}

/* Nobody can write the generation or store its positions any more. */
static void test_forget__ends_its_writer(void **state)
{
    struct error e = {""};
    struct fold f;
    struct lane lane;
    struct log_position at;
    struct fold_bound needed, over_hold;
    (void)state;
    build_one(false);
    fold_init(&f, p.link, &log_names, LOG_OLD);
    must(fold_draw(&f, 1, &e), e);
    must(forget(LOG_OLD, &e), e);
    log_lane(&lane, &at);
    gives(ERR_FENCED, fold_store(&f, 0, 1, lane.era, &at, 1, false, &needed, &over_hold, &e), e);
    gives(ERR_NOT_FOUND, fold_draw(&f, 1, &e), e);
    fold_fini(&f);
}

static void test_delete__says_what_is_damaged(void **state)
{
    struct error e = {""};
    (void)state;
    log_open(&p, &log_servers.nodes);
    (void)servers_integer(&log_servers, 0, "HSET " PREFIX ":{f}:forgotten 0000000000abcdef%%201 x");
    gives(ERR_PARSE, grace_delete(p.link, &log_names, &e), e);
    assert_non_null(strstr(e.text, PREFIX ":{f}:forgotten"));
    assert_int_equal(log_count_keys("}:forgotten"), 1);
}

static void test_abort__leaves_the_filter_as_it_was(void **state)
{
    struct error e = {""};
    (void)state;
    log_add(OTHERS, 100);
    log_begin(&p, UINT64_MAX);
    log_rows(&p, 0, ROWS);
    must(build_checkpoint(p.build, "", 0, &e), e);
    uint64_t number = p.builder->shape.number;
    for (int again = 0; again < 2; again++) {
        must(forget(number, &e), e);
        must(grace_delete(p.link, &log_names, &e), e);
    }
    assert_int_equal(current(), LOG_OLD);
    assert_int_equal(log_stored()->slot[1].shape.number, 0);
    assert_string_equal(log_field("hold.0"), "");
    assert_int_equal(shards_of(number), 0);
    assert_int_equal(log_count_keys("}:build") + log_count_keys("}:forgotten"), 0);
    assert_int_equal(log_missing(OTHERS, OTHERS + 100), 0);
    gives(ERR_FENCED, builder_record(p.builder, "", 0, &e), e);
    gives(ERR_FENCED, cut_over(p.builder, false, &e), e);
    gives(ERR_FENCED, builder_start(p.builder, &e), e);
    gives(ERR_NOT_FOUND, builder_take_over(p.builder, &e), e);
    log_close(&p);
    build_one(false);
    assert_int_equal(current(), number + 2); /* no number is used twice */
    assert_int_equal(log_missing(0, ROWS), 0);
}

/* An operator ends a build, whoever drives it. */
static void test_forget__of_a_build_ends_it(void **state)
{
    struct error e = {""};
    (void)state;
    log_begin(&p, UINT64_MAX);
    log_rows(&p, 0, ROWS);
    must(forget(p.builder->shape.number, &e), e);
    must(grace_delete(p.link, &log_names, &e), e);
    gives(ERR_LOST, build_checkpoint(p.build, "", 0, &e), e);
    assert_true(p.builder->anew);
    gives(ERR_FENCED, builder_start(p.builder, &e), e);
    assert_int_equal(shards_of(p.builder->shape.number), 0);
    assert_string_equal(log_field("hold.0"), "");
}

#define GRACE_TEST(test) cmocka_unit_test_setup_teardown(test, log_setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GRACE_TEST(test_switch__keeps_what_was_added_after_the_cutover),
        GRACE_TEST(test_a_change_of_generations__is_told_in_the_lane),
        GRACE_TEST(test_switch__refuses_what_was_not_folded_in_the_lane),
        GRACE_TEST(test_switch__refuses_what_is_being_built),
        GRACE_TEST(test_switch__refuses_what_was_degraded),
        GRACE_TEST(test_cutover__that_does_not_heal_leaves_the_filter_degraded),
        GRACE_TEST(test_forget__then_delete_leaves_no_shard),
        GRACE_TEST(test_forget__ends_its_writer),
        GRACE_TEST(test_delete__says_what_is_damaged),
        GRACE_TEST(test_abort__leaves_the_filter_as_it_was),
        GRACE_TEST(test_forget__of_a_build_ends_it),
    };
    return cmocka_run_group_tests(tests, log_start, log_stop);
}
