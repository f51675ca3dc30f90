/* SPDX-License-Identifier: MIT */
/* A job loads shards from a Redis Cluster whose slots move. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/info.h"
#include "tests/integration/loads.h"

enum { NONE = TEMP_CLUSTER_NODES_MAX, MOVING = 2 /* the shard whose slot moves */ };

static unsigned slot, from, to;

static void slot_moves(void)
{
    slot = where_slot(placement_where(&loads.placement, 0, MOVING));
    from = temp_cluster_owner(&loads.cluster, 0, slot);
    to = (from + 1) % 3;
}

/* Remove the replication id of @node from those that the view accepts. */
static void forget_era(unsigned node)
{
    redisReply *r = client_command(&loads.cluster.client[node], "INFO replication");
    uint64_t era = info_id(r->str, r->len, "master_replid");
    for (unsigned i = 0; i < loads.eras.count; i++)
        if (loads.eras.id[i] == era)
            loads.eras.id[i] = 1;
    freeReplyObject(r);
}

/* All shards are loaded except those of @node. */
static void loads_all_but(unsigned node)
{
    uint32_t fail = 0;
    if (node != NONE)
        forget_era(node);
    for (uint32_t s = 0; s < loads_g.shards; s++) {
        unsigned at = where_slot(placement_where(&loads.placement, 0, s));
        fail += node == (s == MOVING ? to : temp_cluster_owner(&loads.cluster, 0, at));
    }
    assert_true(node != to || fail > 0);
    assert_int_equal(loads_all(), loads_g.shards - fail);
    assert_int_equal(loads.failures, fail);
    assert_int_equal(loads.fenced, fail);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_true(fail > 0 || loads_look(key) == RESIDENT_PRESENT);
    loads_finish();
}

/* The first command on the slot is answered MOVED. */
static void moved(const unsigned *without)
{
    struct error e = {""};
    loads_prepare();
    slot_moves();
    if (temp_cluster_move(&loads.cluster, slot, 1, from, to, 0, &e) != ERR_OK)
        fail_msg("%s", e.text);
    loads_all_but(without == NULL ? NONE : *without);
}

/* Commands on the slot are answered ASK. */
static void on_its_way(const unsigned *without)
{
    struct error e = {""};
    unsigned keys = 0;
    loads_prepare();
    slot_moves();
    if (temp_cluster_open(&loads.cluster, slot, from, to, &e) != ERR_OK ||
        temp_cluster_migrate(&loads.cluster, slot, from, to, 100, &keys, &e) != ERR_OK)
        fail_msg("%s", e.text);
    loads_all_but(without == NULL ? NONE : *without);
    if (temp_cluster_close(&loads.cluster, slot, from, to, &e) != ERR_OK)
        fail_msg("%s", e.text);
}

static void each_move(const unsigned *without)
{
    moved(without);
    on_its_way(without);
}

static void test_load__follows_a_shard_whose_slot_moves(void **state)
{
    (void)state;
    each_move(NULL);
}

static void test_load__counts_a_shard_that_moved_under_the_era_of_its_new_node(void **state)
{
    (void)state;
    each_move(&to);
    each_move(&from);
}

static void moves(uint64_t *connection)
{
    struct error e = {""};
    (void)connection;
    slot_moves();
    if (temp_cluster_move(&loads.cluster, slot, 1, from, to, 0, &e) != ERR_OK)
        fail_msg("%s", e.text);
}

/* What came from the old node has no judge any more. */
static void test_load__follows_a_shard_whose_slot_moves_between_its_pieces(void **state)
{
    (void)state;
    for (unsigned piece = 1; piece <= 7; piece++) {
        loads_prepare();
        loads_at_piece(7 * MOVING + piece, moves);
        loads_all_but(NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__follows_a_shard_whose_slot_moves),
        cmocka_unit_test(test_load__counts_a_shard_that_moved_under_the_era_of_its_new_node),
        cmocka_unit_test(test_load__follows_a_shard_whose_slot_moves_between_its_pieces),
    };
    return cmocka_run_group_tests(tests, loads_start_cluster, loads_stop_cluster);
}
