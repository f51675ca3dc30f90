/* SPDX-License-Identifier: MIT */
/* Shards of a Redis Cluster come to a master that the view accepts by way of a server that lost writes. */
#include "tests/integration/log_cluster.h"
#include "tests/integration/solo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "migrate/verify/log_input.h"
#include "shard/generations/grow.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/request/log_filter_state.h"
#include "shard/view/view_load.h"

enum {
    MASTERS = 3,
    REPLY_MS = 5000,
    CAPACITY = 100,
    SHARD_BYTES = 8192, /* each layer has one shard */
    LATER = 1,          /* the layer whose shard moves */
    KEY = 7,
    WAIT_US = 20 * 1000 * 1000,
    LOOP_MS = 500
};

static unsigned slot, from, to;

/* Take a name whose later shard is on another master than the view and the lane. */
static void name_filter(void)
{
    struct error e = {""};
    struct key_name home, lane, shard;
    do {
        static unsigned n;
        char name[16];
        int length = snprintf(name, sizeof(name), "f%u", n++);
        must(names_init(&at.names, "tb", name, (size_t)length, &e), e);
        names_filter_key(&at.names, "view", &home);
        lane_key(&lane, &at.names, 0, 1);
        names_log_shard(&at.names, (struct shard_id){.generation = 1, .layer = LATER}, &shard);
        from = log_cluster_owner(&shard);
    } while (log_cluster_owner(&home) == from || log_cluster_owner(&lane) == from);
    slot = slots_of_key(shard.text, shard.length);
    to = log_cluster_owner(&home);
}

static int start(void **state)
{
    (void)state;
    log_cluster_start(MASTERS, MASTERS, false);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    log_cluster_stop();
    return 0;
}

static void has_layer_folded(const struct log_member *m)
{
    struct error e = {""};
    uint64_t until = clock_mono_us() + WAIT_US;
    for (;; clock_sleep_us(5000)) {
        must(log_view_load(at.link, &at.names, at.view, &e), e);
        if (at.view->slot[1].folded[0].layers == LATER + 1)
            return;
        if (clock_mono_us() > until)
            fail_msg("the layer has not begun: %s", m->last.text);
    }
}

/* The later layer has a key by now; the file that its shard's master has saved lacks it. */
static void adds_key(void)
{
    struct error e = {""};
    struct log_member writer;
    must(log_member_make(at.link, &at.names, CAPACITY, 1, SHARD_BYTES, &e), e);
    log_members_open(&writer, &at.nodes, &at.names, UINT64_MAX, true);
    assert_int_equal(log_member_added(&writer, 0, 1), 1);
    must(log_grow(at.link, &at.names, 1, LATER, at.view, &e), e);
    has_layer_folded(&writer);
    must(client_ok(&at.cluster.client[from], &e, "SAVE"), e);
    assert_int_equal(log_member_added(&writer, KEY, 1), 1);
    log_member_close(&writer);
}

/* Wait until the restarted master takes commands. */
static void serves(void)
{
    uint64_t until = clock_mono_us() + WAIT_US;
    for (bool is = false; !is; clock_sleep_us(20 * 1000)) {
        redisReply *r = client_command(&at.cluster.client[from], "CLUSTER INFO");
        is = strstr(r->str, "cluster_state:ok") != NULL;
        freeReplyObject(r);
        if (clock_mono_us() > until)
            fail_msg("the restarted master takes no commands");
    }
}

/* The master starts with that file, and gives the shard away. */
static void loses_and_moves(void)
{
    struct error e = {""};
    temp_redis_kill(&at.cluster.node[from]);
    must(temp_redis_restart(&at.cluster.node[from], true, &e), e);
    client_close(&at.cluster.client[from]);
    must(client_open(&at.cluster.client[from], at.cluster.node[from].port, REPLY_MS, &e), e);
    serves();
    must(temp_cluster_move(&at.cluster, slot, 1, from, to, 0, &e), e);
}

static void test_a_shard_that_came_by_way_of_another_server__is_not_taken_for_whole(void **state)
{
    struct solo s;
    struct solo_request r;
    (void)state;
    name_filter();
    adds_key();
    solo_open(&s, &at.nodes, &at.names, UINT64_MAX, &(struct control_options){.look_interval_us = WAIT_US});
    solo_tend_once(&s); /* all masters are accepted; the shard of the first layer is loaded */
    assert_int_equal(s.code, ERR_OK);
    assert_int_equal(s.next, 0);
    loses_and_moves();
    solo_tend_once(&s); /* the one of the second layer */
    solo_begin(&s, &r, false, KEY);
    solo_loop(&s, &r.told, LOOP_MS);
    assert_false(r.told && r.code == ERR_OK && r.answer == KEY_ABSENT);
    solo_run(&s, &r.told, 0);
    assert_false(r.code == ERR_OK && r.answer == KEY_ABSENT);
    solo_close(&s);
}

/* A dump, or a comparison, reads the shard by the view that accepts its master of now. */
static void test_a_dump__does_not_take_such_a_shard(void **state)
{
    struct error e = {""};
    struct log_input in;
    (void)state;
    name_filter();
    adds_key();
    must(log_view_load(at.link, &at.names, at.view, &e), e);
    at.names.incarnation = at.view->incarnation;
    must(log_input_init(&in, at.link, &at.names, at.view, at.view->current, &e), e);
    must(log_input_read(&in, LATER, 0, 1, &e), e); /* all masters are those of the view */
    log_input_drop(&in, LATER, 0, 1);
    loses_and_moves();
    assert_int_equal(log_input_read(&in, LATER, 0, 1, &e), ERR_FENCED);
    log_input_fini(&in);
    must(log_input_init(&in, at.link, &at.names, at.view, at.view->current, &e), e);
    assert_int_equal(log_input_read(&in, LATER, 0, 1, &e), ERR_FENCED);
    log_input_fini(&in);
}

/* Blocks of a slot count only behind a look that begins behind its move. */
static void test_a_slot_that_moves_behind_the_asking__is_not_covered_by_that_look(void **state)
{
    struct error e = {""};
    struct solo s;
    (void)state;
    must(names_init(&at.names, "tb", "moves", 5, &e), e);
    must(log_member_make(at.link, &at.names, CAPACITY, 1, SHARD_BYTES, &e), e);
    solo_open(&s, &at.nodes, &at.names, UINT64_MAX, &(struct control_options){.look_interval_us = WAIT_US});
    solo_tend(&s);
    solo_ask_ahead(&s, 20ull * WAIT_US, NULL);
    cluster_note_moved(at.nodes.cluster, 0);
    solo_tend_ahead(&s);
    assert_int_equal(s.code, ERR_OK);
    assert_int_equal(s.filter->moves, cluster_moves(at.nodes.cluster) - 1);
    log_filter_look(s.filter);
    solo_tend_once(&s);
    assert_int_equal(s.filter->moves, cluster_moves(at.nodes.cluster));
    solo_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_shard_that_came_by_way_of_another_server__is_not_taken_for_whole),
        cmocka_unit_test(test_a_dump__does_not_take_such_a_shard),
        cmocka_unit_test(test_a_slot_that_moves_behind_the_asking__is_not_covered_by_that_look),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
