/* SPDX-License-Identifier: MIT */
/* A filter that does not grow is full, and its node has failed over to a replica that lagged. An add only
 * looks then, and what it finds must be known to all processes. */
#include "tests/integration/eras_case.h"
#include "tests/integration/log_members.h"

#include <string.h>

#include "base/clock.h"
#include "shard/generations/make.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/view_load.h"

enum { GUARD_MS = 20000, KEPT = 1, LOST = 5, OTHER = 1000, TIMES = 20, FIRST_MS = 1 << 30 };

static int set_up(void **state)
{
    struct error e = {""};
    struct placement placement;
    const struct make_options o = {
        .capacity = 1000, .error_rate = 0.0001, .lanes = 1, .placement = &placement, .shard_bytes = 32768};
    (void)state;
    must(client_ok(&on.client, &e, "FLUSHALL"), e);
    must(names_init(&on.names, "tb", "f", 1, &e), e);
    must(placement_choose(&placement, &on.nodes, "", &e), e);
    must(log_make(on.link, &on.names, &o, on.view, NULL, &e), e);
    eras_case_load();
    return 0;
}

static void lane_is(struct lane *lane)
{
    struct error e = {""};
    eras_case_load();
    must(log_view_lane_at(on.view, &on.names, &on.nodes, 0, lane, &e), e);
}

/* A third writer's entry, which is acknowledged to nobody. */
static void put(const struct lane *lane, const char *key)
{
    struct error e = {""};
    const struct key_hash hash = hash_key(on.view->seed, key, strlen(key));
    struct lane_put entry;
    entry.length = log_entry_encode(entry.bytes, lanes_writer, 1, &hash, 1);
    must(lane_put(on.link, lane, &entry, 1, &e), e);
}

/* The replica that is promoted lacks what came to the lane since @was. */
static void fails_over(const struct lane *lane, redisReply *was)
{
    struct error e = {""};
    must(client_ok(&on.client, &e, "RESTORE %b 0 %b REPLACE", lane->key.text, lane->key.length, was->str,
                   was->len),
         e);
    must(client_ok(&on.client, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&on.client, &e, "REPLICAOF NO ONE"), e);
    freeReplyObject(was);
}

static void wait_until_taken(void)
{
    uint64_t until = clock_mono_us() + GUARD_MS * UINT64_C(1000);
    bool has = false;
    for (; !has && clock_mono_us() < until; eras_case_load())
        has = trusted_contains(&on.view->eras, lanes_era(&on.client)) &&
              on.view->lane[0].era == lanes_era(&on.client);
    assert_true(has);
    assert_false(on.view->degraded);
}

/* One process adds, the other one only checks, so that nobody asks what it has in memory. */
static void test_a_full_filter__knows_no_key_of_an_entry_that_was_lost(void **state)
{
    struct error e = {""};
    struct log_member adds, checks, late;
    struct lane lane;
    uint8_t answer = KEY_OLD, kept = KEY_NO_ROOM;
    (void)state;
    log_members_open(&adds, &on.nodes, &on.names, UINT64_MAX, true);
    log_members_open(&checks, &on.nodes, &on.names, UINT64_MAX, false);
    assert_int_equal(log_member_added(&adds, KEPT, 1), 1);
    assert_int_equal(log_member_count(&checks, KEPT, 1, KEY_PRESENT), 1);
    lane_is(&lane);
    log_member_pause(&adds);
    redisReply *was = client_command(&on.client, "DUMP %b", lane.key.text, lane.key.length);
    put(&lane, "5");
    assert_int_equal(log_member_count(&checks, LOST, 1, KEY_PRESENT), 1);
    log_member_pause(&checks);
    fails_over(&lane, was);
    log_member_go_on(&adds);
    wait_until_taken();
    lane_is(&lane);
    must(lane_mark_full(on.link, &lane, 1, &e), e);
    log_member_go_on(&checks);
    assert_int_equal(log_member_count(&checks, OTHER, 1, KEY_ABSENT), 1); /* it meets the mark */
    must(log_member_add(&checks, LOST, 1, &answer, &e), e);
    log_members_open(&late, &on.nodes, &on.names, UINT64_MAX, false);
    if (answer == KEY_OLD || answer == KEY_ADDED)
        assert_int_equal(log_member_count(&late, LOST, 1, KEY_PRESENT), 1);
    /* A key that all have is never refused for long. */
    for (unsigned i = 0; i < TIMES && kept != KEY_OLD; i++) {
        must(log_member_add(&checks, KEPT, 1, &kept, &e), e);
        clock_sleep_us(100 * 1000);
    }
    assert_int_equal(kept, KEY_OLD);
    log_member_close(&late);
    log_member_close(&checks);
    log_member_close(&adds);
}

static void apply(struct held *h, uint64_t ms, const struct log_entry *entry, enum resident_added expected)
{
    struct error e = {""};
    uint8_t added[LOG_KEYS_MAX];
    bool was;
    struct held_entry in = {
        .count = entry->count, .entry = entry, .id = {ms, 0}, .keys = {hash_key(on.view->seed, "5", 1)}};
    must(held_apply(h, &in, added, &was, &e), e);
    assert_false(was);
    assert_true(entry->count == 0 || added[0] == expected);
    in.id.ms = ms / 2; /* what was applied is not applied again, nor does it take the position back */
    must(held_apply(h, &in, added, &was, &e), e);
    assert_true(was);
    assert_int_equal(h->resident->applied[0].ms, ms);
}

/* Also of an add that was under way when the mark came. */
static void test_an_entry_behind_the_mark__is_old_only_where_nobody_doubts_it(void **state)
{
    struct error e = {""};
    struct budget budget;
    struct held *h;
    const struct log_entry keys = {.kind = LOG_KEYS, .count = 1};
    const struct log_entry other = {.kind = LOG_FULL, .sequence = 3},
                           mark = {.kind = LOG_FULL, .sequence = 1};
    (void)state;
    budget_init(&budget, UINT64_MAX);
    must(held_new(&h, on.view, on.view->current, &on.names, &on.nodes, &budget, &e), e);
    assert_true(held_load_empty(h, 0, 0, h->shape.layers[0].geometry.shards));
    uint64_t ms = on.view->slot[on.view->current].folded[0].position.id.ms + FIRST_MS;
    apply(h, ms++, &keys, RESIDENT_NEW);
    apply(h, ms++, &other, RESIDENT_UNSURE); /* of another generation */
    assert_false(held_is_full(h));
    apply(h, ms++, &mark, RESIDENT_UNSURE);
    assert_true(held_is_full(h));
    apply(h, ms++, &keys, RESIDENT_OLD);
    h->doubtful = true;
    apply(h, ms, &keys, RESIDENT_REFUSED);
    held_drop(h);
}

/* Bits that are set already make keys count as old when the lanes are read again. */
static void test_keys_that_were_counted__stay_counted_when_lanes_are_read_again(void **state)
{
    struct error e = {""};
    struct budget budget;
    struct held *h;
    const struct log_entry keys = {.kind = LOG_KEYS, .count = 1};
    (void)state;
    budget_init(&budget, UINT64_MAX);
    must(held_new(&h, on.view, on.view->current, &on.names, &on.nodes, &budget, &e), e);
    assert_true(held_load_empty(h, 0, 0, h->shape.layers[0].geometry.shards));
    uint64_t ms = on.view->slot[on.view->current].folded[0].position.id.ms + FIRST_MS;
    apply(h, ms, &keys, RESIDENT_NEW);
    uint64_t own = held_own_keys(h);
    assert_int_equal(own, 1);
    resident_rebase(h->resident);
    held_begin(h, on.view, on.view->current);
    held_keep_keys(h, own);
    apply(h, ms, &keys, RESIDENT_UNSURE); /* its shard is to be loaded again */
    assert_int_equal(held_own_keys(h), own);
    held_drop(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_an_entry_behind_the_mark__is_old_only_where_nobody_doubts_it, set_up),
        cmocka_unit_test_setup(test_keys_that_were_counted__stay_counted_when_lanes_are_read_again, set_up),
        cmocka_unit_test_setup_teardown(test_a_full_filter__knows_no_key_of_an_entry_that_was_lost, set_up,
                                        eras_case_tear_down),
    };
    return cmocka_run_group_tests(tests, log_redis_start, log_redis_stop);
}
