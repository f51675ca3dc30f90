/* SPDX-License-Identifier: MIT */
/* Requests to all masters of a Redis Cluster: every asker gets the same result, also while slots move. */
#include "tests/integration/lanes.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "expansion/job/memory.h"
#include "shard/redis/ahead.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/view/registry.h"
#include "shard/view/shards.h"
#include "tests/lib/temp_cluster.h"

enum {
    MASTERS = 3,
    /* with slots; a fourth one has none */ REPLY_MS = 8000,
    KEYS_MAX = 100,
    LOWEST = 0 /* slot of the first master */
};

static struct temp_cluster cluster;
static struct names names;

static int start(void **state)
{
    struct error e = {""};
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    must(temp_cluster_start(&cluster, MASTERS + 1, MASTERS, 0, &e), e);
    must(names_init(&names, "tb", "f", 1, &e), e);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    temp_cluster_fini(&cluster);
    return 0;
}

/* A link that starts from one node. */
struct asker {
    struct nodes seeds, nodes;
    struct sync_client *link;
};

static void asker_open(struct asker *a, unsigned node)
{
    char url[64];
    struct error e = {""};
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%u", cluster.node[node].port);
    must(cluster_parse_seeds(&a->seeds, url, &e), e);
    a->nodes = (struct nodes){.cluster = cluster_new(&a->seeds)};
    a->link = sync_client_new(&a->nodes, REPLY_MS, NULL);
    assert_non_null(a->link);
}

static void asker_close(struct asker *a)
{
    sync_client_free(a->link);
    cluster_free(a->nodes.cluster);
}

/* Each node lists the masters in its own order. The eras of writers and of the view are compared as text. */
static void test_eras__are_the_same_whichever_node_lists_the_masters(void **state)
{
    struct error e = {""};
    static struct trusted first, now;
    const struct generation everywhere = {.number = 1, .node_count = 1, .nodes = {"cluster"}};
    (void)state;
    for (unsigned i = 0; i < MASTERS; i++) {
        struct asker a;
        asker_open(&a, i);
        must(shards_eras(a.link, &names, &everywhere, &now, &e), e);
        assert_int_equal(now.count, MASTERS);
        if (i == 0)
            first = now;
        assert_memory_equal(first.id, now.id, sizeof(now.id[0]) * MASTERS);
        asker_close(&a);
    }
}

static uint64_t looks(const struct asker *a)
{
    struct error e = {""};
    struct registry_said said;
    must(registry_look(a->link, &names, &said, &e), e);
    return said.named ? said.incarnation : 0;
}

static void keeps(const struct asker *a, uint64_t incarnation)
{
    struct error e = {""};
    struct handle h = {.redis = a->link, .names = names};
    h.names.incarnation = incarnation;
    must(registry_keep(&h, &e), e);
    handle_fini(&h);
}

/* The lowest slot of the next master after the one with @slot. */
static unsigned lowest_of_next(const struct asker *a, unsigned slot)
{
    struct error e = {""};
    unsigned count = 0, next = SLOTS;
    must(sync_client_masters(a->link, &count, &e), e);
    for (unsigned i = 0; i < count; i++) {
        unsigned lowest = sync_client_master_slot(a->link, i);
        if (lowest > slot && lowest < next)
            next = lowest;
    }
    return next;
}

static void moves(unsigned from, unsigned to)
{
    struct error e = {""};
    unsigned moved = 0;
    must(temp_cluster_open(&cluster, LOWEST, from, to, &e), e);
    must(temp_cluster_migrate(&cluster, LOWEST, from, to, KEYS_MAX, &moved, &e), e);
    must(temp_cluster_close(&cluster, LOWEST, from, to, &e), e);
}

/* Deletions do not reach such a registry, and its slot may become the lowest one of its master again. */
static void test_a_registry_in_a_slot_that_is_no_lowest_one__is_removed(void **state)
{
    struct error e = {""};
    struct asker a;
    struct key_name key;
    struct registry_slots seen = {0};
    (void)state;
    asker_open(&a, 2);
    unsigned left = lowest_of_next(&a, LOWEST);
    names_on_master("tb", left, "incarnations", &key);
    freeReplyObject(client_command(&cluster.client[1], "HSET %s f 00000000000000cd", key.text));
    must(registry_remove_left(a.link, "tb", &seen, &e), e);
    assert_int_equal(seen.count, MASTERS);
    assert_int_equal(looks(&a), 0xcd);
    moves(0, 1);
    must(registry_remove_left(a.link, "tb", &seen, &e), e);
    moves(1, 0);
    must(registry_remove_left(a.link, "tb", &seen, &e), e);
    assert_int_equal(lowest_of_next(&a, LOWEST), left);
    assert_int_equal(looks(&a), 0);
    asker_close(&a);
}

/* A master's registry is in its lowest slot, which moves first when slots are given away. */
static void test_a_registry__is_followed_when_its_slot_moves(void **state)
{
    struct error e = {""};
    struct asker a;
    struct key_name key;
    unsigned moved = 0;
    (void)state;
    names_on_master("tb", LOWEST, "incarnations", &key);
    freeReplyObject(client_command(&cluster.client[0], "HSET %s f 00000000000000ab", key.text));
    asker_open(&a, 2);
    assert_int_equal(looks(&a), 0xab);
    must(temp_cluster_open(&cluster, LOWEST, 0, 1, &e), e);
    must(temp_cluster_migrate(&cluster, LOWEST, 0, 1, KEYS_MAX, &moved, &e), e);
    assert_int_equal(moved, 1);
    assert_int_equal(looks(&a), 0xab);
    keeps(&a, 0xab);
    must(temp_cluster_close(&cluster, LOWEST, 0, 1, &e), e);
    assert_int_equal(looks(&a), 0xab);
    keeps(&a, 0xab);
    asker_close(&a);
}

/* As node @at sees node @node. */
static bool is_listed_as_master(unsigned at, unsigned node)
{
    redisReply *r = client_command(&cluster.client[at], "CLUSTER NODES");
    char *line = strstr(r->str, cluster.id[node]);
    bool listed = line != NULL && strstr(strtok(line, "\n"), " master ") != NULL;
    freeReplyObject(r);
    return listed;
}

/* Returns when it knows node 0, and node 0 knows it. */
static void is_master_again(void)
{
    struct error e = {""};
    must(client_ok(&cluster.client[MASTERS], &e, "CLUSTER RESET SOFT"), e);
    must(client_ok(&cluster.client[0], &e, "CLUSTER MEET 127.0.0.1 %u %s", cluster.node[MASTERS].port,
                   cluster.bus[MASTERS]),
         e);
    for (uint64_t until = clock_mono_us() + REPLY_MS * UINT64_C(1000);
         !is_listed_as_master(0, MASTERS) || !is_listed_as_master(MASTERS, 0);) {
        assert_true(clock_mono_us() < until);
        clock_sleep_us(20000);
    }
}

/* A master that was replaced and comes back is a replica before other nodes know that: for them it is a
 * master without slots. Filters are made meanwhile. */
static void test_memory__of_a_node_that_has_become_a_replica_is_not_needed(void **state)
{
    enum { TRIES = 20 };
    struct error e = {""};
    struct asker a;
    struct placement on;
    struct plan_node *nodes = NULL;
    unsigned count = 0;
    bool listed = false;
    (void)state;
    if (temp_redis_is_before_7()) /* CLUSTER SLOTS names no node without slots */
        skip();
    asker_open(&a, 0);
    const struct handle h = {.redis = a.link, .names = names};
    must(placement_choose(&on, &a.nodes, "", &e), e);
    for (unsigned i = 0; i < TRIES && !listed; i++) { /* by chance node 0 hears of it at once */
        if (i > 0)
            is_master_again();
        free(nodes);
        must(client_ok(&cluster.client[MASTERS], &e, "CLUSTER REPLICATE %s", cluster.id[0]), e);
        must(memory_of_filter(&h, NULL, &on, &nodes, &count, &e), e);
        listed = is_listed_as_master(0, MASTERS);
    }
    assert_true(listed);
    assert_int_equal(count, MASTERS + 1);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(nodes[i].known, nodes[i].share > 0);
    free(nodes);
    asker_close(&a);
}

/* In the registry of each master, as nodes may not agree yet on where one of them lies. */
static void name_incarnation(struct sync_client *l, const struct names *of, const char *incarnation)
{
    struct error e = {""};
    struct key_name key;
    unsigned count;
    must(sync_client_masters(l, &count, &e), e);
    for (unsigned i = 0; i < count; i++) {
        if (!sync_client_master_has_slots(l, i))
            continue;
        names_on_master(of->prefix, sync_client_master_slot(l, i), "incarnations", &key);
        must(sync_client_command(l, sync_client_master_keys(l, i), NULL, &e, "HSET %s %s %s", key.text,
                                 of->filter, incarnation),
             e);
    }
}

static uint64_t named(struct sync_client *l, const struct names *of)
{
    struct error e = {""};
    struct registry_said said;
    must(registry_look(l, of, &said, &e), e);
    return said.incarnation;
}

/* Who asks again which masters there are gets other addresses: what was asked ahead at the former ones does
 * not count any more. */
static void test_masters__are_asked_for_once_for_all_who_are_asked_ahead(void **state)
{
    struct asker a, other;
    struct names first, second;
    struct error e = {""};
    unsigned count;
    (void)state;
    must(names_init(&first, "tb", "first", 5, &e), e);
    must(names_init(&second, "tb", "second", 6, &e), e);
    asker_open(&a, 0);
    asker_open(&other, 1);
    name_incarnation(other.link, &first, "0000000000000001");
    name_incarnation(other.link, &second, "0000000000000001");
    assert_true(ahead_begin(a.link));
    ahead_read(a.link);
    registry_ask_ahead(a.link, 1, &first);
    registry_ask_ahead(a.link, 2, &second);
    ahead_close(a.link);
    name_incarnation(other.link, &first, "0000000000000002");
    name_incarnation(other.link, &second, "0000000000000002");
    ahead_use(a.link, 1);
    assert_int_equal(named(a.link, &first), 1);
    ahead_use(a.link, 0);
    must(sync_client_masters(a.link, &count, &e), e);
    ahead_use(a.link, 2);
    assert_int_equal(named(a.link, &second), 2);
    ahead_end(a.link);
    asker_close(&other);
    asker_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eras__are_the_same_whichever_node_lists_the_masters),
        cmocka_unit_test(test_a_registry_in_a_slot_that_is_no_lowest_one__is_removed),
        cmocka_unit_test(test_a_registry__is_followed_when_its_slot_moves),
        cmocka_unit_test(test_memory__of_a_node_that_has_become_a_replica_is_not_needed),
        cmocka_unit_test(test_masters__are_asked_for_once_for_all_who_are_asked_ahead),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
