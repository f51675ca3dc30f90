/* SPDX-License-Identifier: MIT */
/* The metadata node starts with an older file, from before a layer began; lanes and shards are on another
 * node and keep their data. Members that know the layer put it back into the view. */
#include "tests/integration/log_members.h"
#include "tests/integration/cut_over.h"
#include "tests/integration/two_nodes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "shard/generations/grow.h"
#include "shard/members/lost.h"
#include "shard/request/log_filter_state.h"
#include "shard/resident/header.h"
#include "shard/view/view_load.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum {
    REPLY_MS = 5000,
    MEMBERS = 4,
    CAPACITY = 3000,
    BATCH = 100,
    WAIT_US = 20 * 1000 * 1000,
    GONE_US = 300 * 1000
};

static struct temp_redis home, data;
static struct client client;
static struct nodes nodes;
static struct sync_client *l;
static struct names names;
static struct log_view *view;
static struct log_member member[MEMBERS];
static unsigned opened;

static const struct two_nodes two = {&home, &data, &client, &nodes, &names, &l, &view};

static int start(void **state)
{
    (void)state;
    two_nodes_start(&two, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    two_nodes_stop(&two);
    return 0;
}

/* Shards and lanes are on the other node. */
static int set_up(void **state)
{
    struct error e = {""};
    (void)state;
    opened = 0;
    must(client_ok(&client, &e, "FLUSHALL"), e);
    two_nodes_make(&two, &data, CAPACITY, 2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    while (opened > 0)
        log_member_abandon(&member[--opened]); /* nobody may be left who folds its entries */
    return 0;
}

static struct log_member *opens(uint64_t memory, bool folds)
{
    struct error e = {""};
    const struct log_member_options o = {.nodes = &nodes,
                                         .names = &names,
                                         .memory = memory,
                                         .timeout_ms = REPLY_MS,
                                         .writer_grace_us = GONE_US,
                                         .look_interval_us = 200 * 1000,
                                         .folds = folds};
    must(log_member_open(&member[opened], &o, &e), e);
    return &member[opened++];
}

static const struct log_generation *stored(void)
{
    struct error e = {""};
    must(log_view_load(l, &names, view, &e), e);
    return &view->slot[1];
}

/* Wait until the view has @layers layers, and positions after the beginning of the last one. */
static void wait_for_layers(unsigned layers)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (;; clock_sleep_us(5000)) {
        const struct log_generation *g = stored();
        if (g->shape.layer_count == layers && g->folded[0].layers == layers && g->folded[1].layers == layers)
            return;
        if (clock_mono_us() > until)
            fail_msg("%u layers, folded to %u and %u; %s", g->shape.layer_count, g->folded[0].layers,
                     g->folded[1].layers, member[0].last.text);
    }
}

/* Read the lane once, from @at on. */
static enum tail_state read_on(unsigned lane, struct log_position *at)
{
    struct error e = {""};
    struct lane stream;
    enum tail_state state;
    names.incarnation = view->incarnation;
    must(log_view_lane_at(view, &names, &nodes, lane, &stream, &e), e);
    must(lane_read(l, &stream, at, NULL, NULL, &state, &e), e);
    return state;
}

/* True if the loaded view says that @g has each lane up to its end. */
static bool is_folded(const struct log_generation *g)
{
    bool is = true;
    for (unsigned i = 0; i < view->lane_count; i++) {
        struct log_position at = g->folded[i].position;
        is &= read_on(i, &at) == TAIL_COMPLETE && log_id_compare(at.id, g->folded[i].position.id) == 0;
    }
    return is;
}

static void wait_until_folded(void)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (; !is_folded(stored()); clock_sleep_us(5000))
        if (clock_mono_us() > until)
            fail_msg("the lanes are not folded: %s", member[0].last.text);
}

/* Wait until no lane has the position that the view had. */
static void wait_until_trimmed(const struct log_generation *before)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (unsigned i = 0; i < view->lane_count; i++)
        for (struct log_position at = before->folded[i].position; read_on(i, &at) != TAIL_GAP;
             at = before->folded[i].position, clock_sleep_us(5000))
            if (clock_mono_us() > until)
                fail_msg("lane %u is not trimmed: %s", i, member[0].last.text);
}

static void grows(void)
{
    struct error e = {""};
    struct log_view *v = malloc(sizeof(*v));
    must(log_grow(l, &names, 1, 1, v, &e), e);
    free(v);
}

/* All keys are present for every member, and new for none. */
static void has_all(unsigned keys)
{
    for (unsigned i = 0; i < opened; i++) {
        assert_int_equal(log_member_count(&member[i], 0, keys, KEY_PRESENT), keys);
        assert_int_equal(log_member_added(&member[i], 0, keys), 0);
    }
}

/* An add that starts before its process knows the layer reads no blocks of it, and cannot tell which keys are
 * new (KEY_UNSURE). A check reads the lanes up to the layer's beginning, and waits for the view that has
 * it. */
static void has_layer(struct log_member *m)
{
    assert_int_equal(log_member_count(m, 3 * BATCH, BATCH, KEY_ABSENT), BATCH);
}

static void behind_a_layer(uint64_t memory)
{
    struct error e = {""};
    struct log_member *folder = opens(UINT64_MAX, true), *other = opens(memory, false);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    assert_int_equal(log_member_added(other, BATCH, BATCH), BATCH);
    wait_until_folded();
    must(client_save(&client, &e), e);
    grows();
    wait_for_layers(2);
    has_layer(other);
    assert_int_equal(log_member_added(folder, 2 * BATCH, BATCH), BATCH);
    assert_int_equal(log_member_added(other, 3 * BATCH, BATCH), BATCH);
    uint64_t token = stored()->shape.layers[1].token;
    wait_until_folded();
    two_nodes_go_back(&two);
    wait_for_layers(2);
    assert_int_equal(stored()->shape.layers[1].token, token);
    assert_int_equal(stored()->filled, 2); /* nobody takes its shards for empty */
    has_all(4 * BATCH);
    assert_int_equal(log_member_added(folder, 4 * BATCH, BATCH), BATCH);
    assert_int_equal(log_member_added(other, 5 * BATCH, BATCH), BATCH);
    (void)opens(UINT64_MAX, false);
    (void)opens(0, false);
    has_all(6 * BATCH);
    assert_int_equal(log_member_count(other, 1000 * BATCH, BATCH, KEY_ABSENT), BATCH);
    (void)stored();
    assert_false(view->degraded);
}

static void test_home_goes_back_behind_a_layer__it_gets_it_again(void **state)
{
    (void)state;
    behind_a_layer(UINT64_MAX);
}

static void test_home_goes_back_beside_one_without_memory__it_is_not_degraded(void **state)
{
    (void)state;
    behind_a_layer(0);
}

/* The folder has not noticed, and stores what the view cannot have: the lanes hold a layer's beginning that
 * the view does not know. The view has the folder's token, so nothing else refuses it. */
static void test_view_goes_back_under_a_folder__its_positions_do_not_spoil_it(void **state)
{
    struct error e = {""};
    (void)state;
    struct log_member *folder = opens(UINT64_MAX, true);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    wait_until_folded();
    redisReply *before = client_command(&client, "DUMP tb:{f}:view");
    assert_int_equal(before->type, REDIS_REPLY_STRING);
    grows();
    assert_int_equal(log_member_added(folder, BATCH, BATCH), BATCH);
    wait_for_layers(2);
    log_member_pause(folder);
    log_set_look_interval(folder->control, 3 * WAIT_US);
    redisReply *token = client_command(&client, "HGET tb:{f}:view token1");
    must(client_ok(&client, &e, "RESTORE tb:{f}:view 0 %b REPLACE", before->str, before->len), e);
    freeReplyObject(client_command(&client, "HSET tb:{f}:view token1 %b", token->str, token->len));
    freeReplyObject(before);
    freeReplyObject(token);
    log_member_go_on(folder);
    assert_int_equal(log_member_added(folder, 2 * BATCH, BATCH), BATCH);
    wait_for_layers(2);
    (void)opens(UINT64_MAX, false);
    has_all(3 * BATCH);
}

/* The counter of tokens goes back, too, behind the token of the layer, and the shards are lost: none of them
 * tells a later token. */
static void test_home_goes_back_behind_the_token_of_a_layer__its_shards_are_made_again(void **state)
{
    struct error e = {""};
    struct client shards;
    (void)state;
    struct log_member *folder = opens(UINT64_MAX, true);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    wait_until_folded();
    must(client_save(&client, &e), e);
    must(client_ok(&client, &e, "SET tb:{f}:token 1000000"), e);
    grows();
    wait_for_layers(2);
    assert_int_equal(log_member_added(folder, BATCH, BATCH), BATCH);
    assert_true(stored()->shape.layers[1].token > 1000000);
    wait_until_folded();
    must(client_open(&shards, data.port, REPLY_MS, &e), e);
    for (unsigned layer = 0; layer < 2; layer++) {
        struct key_name key;
        int64_t deleted = 0;
        names.incarnation = view->incarnation;
        names_log_shard(&names, (struct shard_id){1, layer, 0}, &key);
        must(client_integer(&shards, &deleted, &e, "DEL %b", key.text, (size_t)key.length), e);
        assert_int_equal(deleted, 1);
    }
    client_close(&shards);
    two_nodes_go_back(&two);
    wait_for_layers(2);
    (void)opens(UINT64_MAX, false);
    has_all(2 * BATCH);
    assert_int_equal(log_member_count(&member[1], 1000 * BATCH, BATCH, KEY_ABSENT), BATCH);
    (void)stored();
    assert_false(view->degraded);
}

/* An earlier writer's token in a header, which its layer cannot have. Then the node gets another replication
 * id, so that all shards are written from memory, and loaded again. */
static void test_a_shard_that_was_made_before_its_layer__is_made_again(void **state)
{
    struct error e = {""};
    struct client shards;
    struct key_name key;
    struct header header;
    uint8_t bytes[BLOCK_BITS_MAX / 8];
    (void)state;
    must(client_ok(&client, &e, "SET tb:{f}:token 1000"), e);
    struct log_member *folder = opens(UINT64_MAX, true);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    grows();
    wait_for_layers(2);
    assert_int_equal(log_member_added(folder, BATCH, BATCH), BATCH);
    wait_until_folded();
    log_member_pause(folder);
    (void)stored();
    names.incarnation = view->incarnation;
    names_log_shard(&names, (struct shard_id){1, 1, 0}, &key);
    must(client_open(&shards, data.port, REPLY_MS, &e), e);
    redisReply *r = client_command(&shards, "GETRANGE %b 0 %d", key.text, key.length, HEADER_BYTES - 1);
    must(header_decode(&header, (const uint8_t *)r->str, r->len, key.text, &e), e);
    freeReplyObject(r);
    assert_true(header.writer.number >= stored()->shape.layers[1].token);
    header.writer = (struct writer_token){.number = 1, .random = 1};
    header_encode(&header, bytes);
    freeReplyObject(
        client_command(&shards, "SETRANGE %b 0 %b", key.text, key.length, bytes, (size_t)HEADER_BYTES));
    must(client_ok(&shards, &e, "REPLICAOF 127.0.0.1 1"), e);
    must(client_ok(&shards, &e, "REPLICAOF NO ONE"), e);
    client_close(&shards);
    log_member_go_on(folder);
    (void)opens(UINT64_MAX, false);
    has_all(2 * BATCH);
    assert_int_equal(log_member_count(&member[1], 1000 * BATCH, BATCH, KEY_ABSENT), BATCH);
    (void)stored();
    assert_false(view->degraded);
}

/* True if a lane was replaced, and the view has accepted the eras of both. The position in the other one may
 * not have been trimmed. */
static bool has_other_lane(void)
{
    (void)stored();
    return view->lane[0].number + view->lane[1].number > 2 && view->lane[0].era != 0 &&
           view->lane[1].era != 0;
}

/* Nobody is left who had the filter in memory, and stores positions again. */
static void test_home_goes_back_behind_what_was_trimmed__it_is_degraded(void **state)
{
    enum { ENTRIES = 600 };
    struct error e = {""};
    struct log_generation before;
    (void)state;
    struct log_member *folder = opens(UINT64_MAX, true);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    wait_until_folded();
    before = *stored();
    must(client_save(&client, &e), e);
    for (unsigned i = 0; i < ENTRIES; i++)
        (void)log_member_added(folder, BATCH + i, 1);
    wait_until_trimmed(&before);
    log_member_close(&member[--opened]);
    two_nodes_go_back(&two);
    struct log_member *later = opens(UINT64_MAX, true);
    uint8_t answers[BATCH];
    uint64_t until = clock_mono_us() + WAIT_US;
    while (log_member_check(later, 1000 * BATCH, BATCH, answers, &e) != ERR_OK && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    while (!has_other_lane() && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    assert_true(has_other_lane());
    assert_int_equal(log_member_count(later, 1000 * BATCH, BATCH, KEY_MAYBE), BATCH);
    (void)stored();
    assert_true(view->degraded);
    while (log_member_count(later, 0, BATCH, KEY_PRESENT) < BATCH && clock_mono_us() < until) /* or "maybe" */
        clock_sleep_us(10 * 1000);
    has_all(BATCH); /* the shards were not lost */
    must(log_member_add(later, 0, BATCH, answers, &e), e);
    uint64_t made;
    must(lost_accept(l, &names, &made, &e), e);
    while (log_member_count(later, 1000 * BATCH, BATCH, KEY_ABSENT) < BATCH && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    assert_int_equal(log_member_count(later, 1000 * BATCH, BATCH, KEY_ABSENT), BATCH);
    has_all(BATCH + ENTRIES);
}

/* Generation 2 replaces the first one, before any key is added. */
static void cuts_over(void)
{
    struct error e = {""};
    struct builder *b;
    (void)stored();
    must(builder_new(&b, l, &names, &e), e);
    must(builder_begin(b, &view->slot[view->current].shape, "", &e), e);
    must(builder_start(b, &e), e);
    builder_note(b);
    must(cut_over(b, false, &e), e);
    builder_free(b);
}

/* Wait until both generations have the lanes up to their ends, and the one that is read has @keys keys. */
static void wait_for_both(uint64_t keys)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    bool same = false;
    for (; !same; clock_sleep_us(5000)) {
        const struct log_generation *g = stored(), *read = &view->slot[view->current];
        same = read->keys == keys && is_folded(g) && is_folded(read); /* the keys are stored first */
        if (clock_mono_us() > until)
            fail_msg("the generations are not folded: %s", member[0].last.text);
    }
}

/* The file is from between the folds of the two generations, in the time of grace: only the one before lacks
 * what was trimmed. The one that is read answers on, and there is no way back. @sleeps: a process that has
 * both in memory has slept meanwhile; otherwise nobody has them. */
static void behind_what_was_trimmed_of_the_generation_before(bool sleeps)
{
    enum { ENTRIES = 600, LANES = 2 };
    struct error e = {""};
    redisReply *folded[LANES];
    struct log_generation before;
    uint8_t answers[BATCH];
    unsigned keys = BATCH;
    struct log_member *first = opens(UINT64_MAX, true), *folder = first;
    cuts_over();
    assert_int_equal(log_member_added(first, 0, keys), keys);
    wait_for_both(keys);
    before = *stored();
    for (unsigned i = 0; i < LANES; i++)
        folded[i] = client_command(&client, "HGET tb:{f}:view folded1.%u", i);
    if (sleeps) {
        log_member_pause(first);
        folder = opens(UINT64_MAX, true);
    }
    for (unsigned i = 0; i < ENTRIES; i++)
        assert_int_equal(log_member_added(folder, keys++, 1), 1);
    wait_for_both(keys);
    assert_int_equal(log_member_added(folder, keys, BATCH), BATCH);
    keys += BATCH;
    wait_for_both(keys);
    wait_until_trimmed(&before);
    log_member_close(&member[--opened]);
    for (unsigned i = 0; i < LANES; i++) {
        assert_int_equal(folded[i]->type, REDIS_REPLY_STRING);
        freeReplyObject(client_command(&client, "HSET tb:{f}:view folded1.%u %b", i, folded[i]->str,
                                       (size_t)folded[i]->len));
        freeReplyObject(folded[i]);
    }
    must(client_save(&client, &e), e);
    two_nodes_go_back(&two);
    struct log_member *later = sleeps ? first : opens(UINT64_MAX, true);
    if (sleeps)
        log_member_go_on(first);
    uint64_t until = clock_mono_us() + WAIT_US;
    for (; stored()->shape.built && clock_mono_us() < until; clock_sleep_us(20 * 1000)) {
        enum err code = log_member_add(later, keys++, 1, answers, &e);
        if (code != ERR_OK)
            fail_msg("%s; %s", e.text, later->last.text);
        assert_int_equal(log_member_count(later, 1000 * BATCH, BATCH, KEY_ABSENT), BATCH);
    }
    if (stored()->shape.built)
        fail_msg("the generation before still has its grace: %s", later->last.text);
    assert_false(view->degraded);
    (void)opens(UINT64_MAX, false);
    has_all(keys);
}

static void
test_home_goes_back_behind_what_was_trimmed_of_the_generation_before__it_ends_its_grace(void **state)
{
    (void)state;
    behind_what_was_trimmed_of_the_generation_before(false);
}

static void test_home_goes_back_beside_one_that_slept__the_generation_before_ends_its_grace(void **state)
{
    (void)state;
    behind_what_was_trimmed_of_the_generation_before(true);
}

static bool is_there(const struct key_name *key)
{
    struct client shards;
    struct error e = {""};
    int64_t there = 0;
    must(client_open(&shards, data.port, REPLY_MS, &e), e);
    must(client_integer(&shards, &there, &e, "EXISTS %b", key->text, (size_t)key->length), e);
    client_close(&shards);
    return there == 1;
}

/* Somebody else's key lies where a shard was, so positions cannot be stored again. */
static void test_home_goes_back_beside_a_foreign_key__nobody_waits_for_it(void **state)
{
    struct error e = {""};
    int64_t deleted = 0;
    struct client shards;
    struct key_name key;
    (void)state;
    struct log_member *folder = opens(UINT64_MAX, true);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    must(client_save(&client, &e), e);
    grows(); /* so that the view goes back to an earlier version */
    wait_for_layers(2);
    (void)stored();
    names.incarnation = view->incarnation;
    names_log_shard(&names, (struct shard_id){1, 0, 0}, &key);
    log_member_pause(folder);
    must(client_open(&shards, data.port, REPLY_MS, &e), e);
    freeReplyObject(client_command(&shards, "DEL %b", key.text, key.length));
    freeReplyObject(client_command(&shards, "RPUSH %b theirs", key.text, key.length));
    two_nodes_go_back(&two);
    log_member_go_on(folder);
    uint8_t answers[BATCH];
    enum err code;
    uint64_t until = clock_mono_us() + WAIT_US;
    while ((code = log_member_check(folder, 1000 * BATCH, BATCH, answers, &e)) != ERR_OK &&
           clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    if (code != ERR_OK)
        fail_msg("%s; %s", e.text, folder->last.text);
    assert_int_equal(log_member_added(folder, BATCH, BATCH), BATCH);
    must(client_integer(&shards, &deleted, &e, "DEL %b", key.text, (size_t)key.length), e);
    assert_int_equal(deleted, 1);
    client_close(&shards);
    while (!is_there(&key) && clock_mono_us() < until)
        clock_sleep_us(10 * 1000);
    (void)opens(UINT64_MAX, false);
    has_all(2 * BATCH);
    (void)stored();
    assert_false(view->degraded);
}

static void wait_until_there(const struct key_name *key)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (; !is_there(key); clock_sleep_us(5000))
        if (clock_mono_us() > until)
            fail_msg("the shard is not made again: %s", member[0].last.text);
}

/* A shard has the token under which it was made again, and the view has none that is as late. Nothing is to
 * be folded, so no folder draws a later one. */
static void test_home_goes_back_behind_a_token__who_reads_blocks_finds_a_later_one(void **state)
{
    struct error e = {""};
    struct client shards;
    struct key_name key = {.length = 0};
    (void)state;
    struct log_member *folder = opens(UINT64_MAX, true);
    assert_int_equal(log_member_added(folder, 0, BATCH), BATCH);
    wait_until_folded();
    must(client_save(&client, &e), e);
    names.incarnation = view->incarnation;
    must(client_open(&shards, data.port, REPLY_MS, &e), e);
    for (unsigned i = 0; i < view->slot[1].shape.layers[0].geometry.shards; i++) {
        names_log_shard(&names, (struct shard_id){1, 0, i}, &key);
        freeReplyObject(client_command(&shards, "DEL %b", key.text, key.length));
    }
    client_close(&shards);
    log_member_pause(folder);
    log_set_folding(folder->control, false);
    log_member_go_on(folder);
    log_filter_lost(folder->filter, &(struct log_lost){.generation = 1});
    folder->filter->wake(folder->filter->wake_arg);
    wait_until_there(&key);
    uint64_t until = clock_mono_us() + WAIT_US;
    for (; stored()->lost.generation != 0; clock_sleep_us(5000))
        assert_true(clock_mono_us() < until);
    log_member_abandon(folder);
    opened--;
    two_nodes_go_back(&two);
    (void)opens(0, true);
    has_all(BATCH);
    assert_int_equal(log_member_added(&member[0], BATCH, BATCH), BATCH);
}

#define BACK_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BACK_TEST(test_home_goes_back_behind_a_layer__it_gets_it_again),
        BACK_TEST(test_home_goes_back_beside_one_without_memory__it_is_not_degraded),
        BACK_TEST(test_view_goes_back_under_a_folder__its_positions_do_not_spoil_it),
        BACK_TEST(test_home_goes_back_behind_what_was_trimmed__it_is_degraded),
        BACK_TEST(test_home_goes_back_behind_what_was_trimmed_of_the_generation_before__it_ends_its_grace),
        BACK_TEST(test_home_goes_back_beside_one_that_slept__the_generation_before_ends_its_grace),
        BACK_TEST(test_home_goes_back_beside_a_foreign_key__nobody_waits_for_it),
        BACK_TEST(test_home_goes_back_behind_the_token_of_a_layer__its_shards_are_made_again),
        BACK_TEST(test_a_shard_that_was_made_before_its_layer__is_made_again),
        BACK_TEST(test_home_goes_back_behind_a_token__who_reads_blocks_finds_a_later_one),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
