/* SPDX-License-Identifier: MIT */
/* Blocks in a Redis Cluster whose slots move. Commands for one master are sent together. Commands for a slot
 * that has moved, or is moving, follow it, together with the command that tells whether their replies
 * count. */
#include "tests/integration/pinning.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"
#include "tests/lib/temp_cluster.h"

enum { MASTERS = 3, READ_MS = 8000, SHORT_MS = 400 };

static struct temp_cluster cluster;
static struct nodes seeds, nodes;
static struct pinning p;
static unsigned slot, from, to; /* of the first key's shard */

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_cluster_start(&cluster, MASTERS, MASTERS, 0, &e), e);
    must(cluster_parse_seeds(&seeds, cluster.seeds, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    temp_cluster_fini(&cluster);
    return 0;
}

static void accept_eras(void)
{
    p.eras.count = MASTERS;
    for (unsigned i = 0; i < MASTERS; i++)
        p.eras.id[i] = lanes_era(&cluster.client[i]);
}

/* All masters are looked at, and accepted. */
static void look(void)
{
    p.source.moves = cluster_moves(nodes.cluster);
}

static bool has_moved(void)
{
    struct pinning_request q;
    pinning_begin(&q, &p, 0, PINNING_MANY);
    pinning_wait(&q);
    bool moved = q.result.code == ERR_FENCED && strstr(q.text, "slots have moved") != NULL;
    assert_true(moved == q.result.is_other_era && (moved || q.result.code == ERR_OK));
    pinning_end(&q);
    return moved;
}

/* As often as the map that this process has changes. */
static void look_until_all_stay(void)
{
    for (unsigned looks = 0; has_moved(); looks++) {
        assert_true(looks < 5);
        look();
    }
}

static int set_up(void **state)
{
    (void)state;
    nodes = (struct nodes){.cluster = cluster_new(&seeds)};
    pinning_open(&p, &nodes, &nodes);
    accept_eras();
    look_until_all_stay();
    slot = where_slot(placement_where(&p.placement, 0, pinning_place(0, 0).shard));
    from = temp_cluster_owner(&cluster, 0, slot);
    to = (from + 1) % MASTERS;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pinning_close(&p);
    cluster_free(nodes.cluster);
    return 0;
}

/* The map that MOVED has asked for may come meanwhile: another look. */
static void reads_present(uint64_t first, unsigned count)
{
    struct pinning_request q;
    uint8_t answers[PINNING_MANY];
    pinning_begin(&q, &p, first, count);
    pinning_wait(&q);
    for (unsigned looks = 0; looks < 3 && q.result.code == ERR_FENCED && strstr(q.text, "have moved") != NULL;
         looks++) {
        pinning_end(&q);
        look();
        pinning_begin(&q, &p, first, count);
        pinning_wait(&q);
    }
    pinning_ends(&q, ERR_OK, "");
    pinning_look(&q, answers);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(answers[i], RESIDENT_PRESENT);
    pinning_end(&q);
}

static void is_of_another_era(void)
{
    struct pinning_request q;
    uint8_t answer;
    pinning_begin(&q, &p, 0, 1);
    pinning_ends(&q, ERR_FENCED, "which the view does not accept");
    assert_true(q.result.is_other_era);
    pinning_look(&q, &answer);
    assert_int_equal(answer, RESIDENT_UNKNOWN);
    pinning_end(&q);
}

static uint64_t calls_of(const char *command)
{
    char line[64];
    uint64_t calls = 0;
    (void)snprintf(line, sizeof(line), "cmdstat_%s:calls=", command);
    for (unsigned i = 0; i < MASTERS; i++) {
        redisReply *r = client_command(&cluster.client[i], "INFO commandstats");
        const char *at = strstr(r->str, line);
        calls += at == NULL ? 0 : strtoull(at + strlen(line), NULL, 10);
        freeReplyObject(r);
    }
    return calls;
}

static void test_blocks_of_one_master__go_together(void **state)
{
    struct error e = {""};
    (void)state;
    reads_present(0, PINNING_MANY);
    for (unsigned i = 0; i < MASTERS; i++)
        must(client_ok(&cluster.client[i], &e, "CONFIG RESETSTAT"), e);
    reads_present(100, PINNING_MANY);
    assert_in_range(calls_of("info"), 1, 2 * MASTERS); /* including the store's own; there are eight shards */
    assert_true(calls_of("getrange") > PINNING_MANY);
}

static void test_a_shard_that_moves__is_followed(void **state)
{
    struct error e = {""};
    unsigned moved = 0;
    (void)state;
    reads_present(0, PINNING_MANY);
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    reads_present(100, PINNING_MANY);
    must(temp_cluster_migrate(&cluster, slot, from, to, 100, &moved, &e), e);
    assert_int_equal(moved, 1);
    reads_present(0, PINNING_MANY); /* follows ASK */
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    assert_true(has_moved()); /* follows MOVED */
    look_until_all_stay();
    reads_present(200, PINNING_MANY);
}

/* A replica that lags may have taken the place of the slot's master, and given the slot away. */
static void test_a_slot_that_has_moved__counts_behind_a_look(void **state)
{
    struct error e = {""};
    (void)state;
    must(temp_cluster_move(&cluster, slot, 1, from, to, 0, &e), e);
    for (unsigned i = 0; i < 3; i++)
        assert_true(has_moved()); /* also where the new master is asked at once */
    look_until_all_stay();
    reads_present(0, PINNING_MANY);
}

/* What lies at the node that ASK named counts if the slot's master says ASK again, and is the one that is
 * accepted. */
static void test_a_shard_that_moves__is_asked_for_twice(void **state)
{
    struct error e = {""};
    unsigned moved = 0;
    (void)state;
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    must(temp_cluster_migrate(&cluster, slot, from, to, 100, &moved, &e), e);
    temp_cluster_reset_counts(&cluster);
    reads_present(0, 1);
    assert_int_equal(temp_cluster_redirections(&cluster), 2);
    p.eras.id[from] = p.eras.id[to];
    is_of_another_era();
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
}

static void test_a_shard_that_moved__counts_only_under_an_era_of_its_new_node(void **state)
{
    struct error e = {""};
    unsigned moved = 0;
    (void)state;
    reads_present(0, 1);
    p.eras.id[to] = p.eras.id[from]; /* the view accepts only the other masters */
    must(temp_cluster_open(&cluster, slot, from, to, &e), e);
    must(temp_cluster_migrate(&cluster, slot, from, to, 100, &moved, &e), e);
    is_of_another_era(); /* after ASK */
    must(temp_cluster_close(&cluster, slot, from, to, &e), e);
    is_of_another_era(); /* after MOVED */
    accept_eras();
    look_until_all_stay();
    reads_present(0, 1);
}

/* A message that was under way tells a node of the owner again. */
static void nobody_serves(void)
{
    struct error e = {""};
    unsigned quiet = 0;
    for (unsigned turn = 0; quiet < 2; turn++) {
        bool served = false;
        if (turn == 50)
            fail_msg("slot %u is still served", slot);
        for (unsigned i = 0; i < MASTERS; i++)
            if (temp_cluster_owner(&cluster, i, slot) < MASTERS) {
                must(client_ok(&cluster.client[i], &e, "CLUSTER DELSLOTS %u", slot), e);
                served = true;
            }
        quiet = served ? 0 : quiet + 1;
        clock_sleep_us(100 * 1000);
    }
}

/* A request for a slot that no node serves waits; the blocks of other slots are read meanwhile. Who serves it
 * again may be another one. */
static void test_a_slot_that_is_not_served__is_waited_for(void **state)
{
    struct error e = {""};
    struct pinning_request q;
    (void)state;
    reads_present(0, PINNING_MANY);
    for (unsigned i = 0; i < MASTERS; i++)
        must(client_ok(&cluster.client[i], &e, "CONFIG SET cluster-require-full-coverage no"), e);
    nobody_serves();
    pinning_begin(&q, &p, 0, PINNING_MANY);
    cluster_note_moved(nodes.cluster, slot); /* as if a map came before the replies */
    pinning_waits(&q, SHORT_MS);
    pinning_end(&q);
    pinning_begin(&q, &p, 0, PINNING_MANY);
    for (unsigned i = 0; i < 100; i++)
        pinning_turn(&p);
    assert_int_equal(q.told, 0);
    for (unsigned i = 0; i < MASTERS; i++)
        must(client_ok(&cluster.client[i], &e, "CLUSTER SETSLOT %u NODE %s", slot, cluster.id[from]), e);
    pinning_ends(&q, ERR_FENCED, "slots have moved");
    pinning_end(&q);
    look_until_all_stay();
}

static void set_owner(unsigned at, unsigned owner)
{
    struct error e = {""};
    must(client_ok(&cluster.client[at], &e, "CLUSTER SETSLOT %u NODE %s", slot, cluster.id[owner]), e);
}

static void test_nodes_that_send_a_slot_round__are_told_of(void **state)
{
    struct pinning_request q;
    (void)state;
    reads_present(0, PINNING_MANY);
    pinning_command(&p, 0, pinning_place(0, 0).shard, "DEL %b", NULL,
                    0); /* or the slot could not be given away */
    set_owner(from, to);
    pinning_begin(&q, &p, 0, PINNING_MANY);
    pinning_ends(&q, ERR_UNREACHABLE, "round and round");
    assert_in_range(q.took_us, 0, READ_MS * 1000 / 2);
    pinning_end(&q);
    set_owner(from, from);
}

#define CLUSTER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(test_blocks_of_one_master__go_together),
        CLUSTER_TEST(test_a_shard_that_moves__is_followed),
        CLUSTER_TEST(test_a_slot_that_has_moved__counts_behind_a_look),
        CLUSTER_TEST(test_a_shard_that_moves__is_asked_for_twice),
        CLUSTER_TEST(test_a_shard_that_moved__counts_only_under_an_era_of_its_new_node),
        CLUSTER_TEST(test_a_slot_that_is_not_served__is_waited_for),
        CLUSTER_TEST(test_nodes_that_send_a_slot_round__are_told_of),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
