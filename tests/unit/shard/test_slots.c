/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"
#include "shard/redis/nodes/cluster.h"

/* --- keys --- */

static void test_slots__are_those_of_the_specification(void **state)
{
    (void)state;
    assert_int_equal(slots_crc(0, "123456789", 9), 0x31c3);
    static const struct {
        const char *key;
        unsigned slot;
    } rows[] = {{"", 0},
                {"foo", 12182},
                {"bar", 5061},
                {"{user1000}.following", 3443},
                {"user1000", 3443},
                {"foo{}{bar}", 8363},     /* an empty tag is ignored */
                {"foo{{bar}}zap", 4015},  /* the tag is "{bar" */
                {"foo{bar}{zap}", 5061}}; /* the first tag */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(slots_of_key(rows[i].key, strlen(rows[i].key)), rows[i].slot);
}

/* All keys of a filter, and all keys of a shard, are in the slot that is computed without their names. */
static void test_slots__of_placements_and_homes_are_those_of_the_keys(void **state)
{
    (void)state;
    static struct nodes seeds, nodes;
    static struct generation g;
    struct error e;
    struct placement p;
    static const char *const filters[] = {"f", "", "a{b}c", "%7b", "f.1.2"};
    assert_int_equal(cluster_parse_seeds(&seeds, "redis://a:1, redis://b:2", &e), ERR_OK);
    nodes.cluster = cluster_new(&seeds);
    assert_non_null(nodes.cluster);
    for (size_t f = 0; f < sizeof(filters) / sizeof(filters[0]); f++) {
        struct names n;
        struct key_name key;
        static const char *const whats[] = {"view",  "expansion_flag", "job",  "count", "history",
                                            "token", "load",           "tail", "marks"};
        assert_int_equal(names_init(&n, "pre", filters[f], strlen(filters[f]), &e), ERR_OK);
        n.incarnation = 0x1234;
        for (size_t i = 0; i < sizeof(whats) / sizeof(whats[0]); i++) {
            names_filter_key(&n, whats[i], &key);
            assert_int_equal(nodes_home(&nodes, &n), WHERE_SLOT | slots_of_key(key.text, key.length));
        }
        for (uint64_t number = 1; number < 1000000000; number = number * 7 + 3) {
            g.number = number;
            nodes_pin(&nodes, &g);
            assert_int_equal(g.node_count, 1);
            assert_string_equal(g.nodes[0], "cluster");
            assert_int_equal(placement_resolve(&p, &n, &g, &nodes, &e), ERR_OK);
            for (unsigned layer = 0; layer < 24; layer += 11)
                for (uint32_t shard = 0; shard < 100000; shard = shard * 9 + 1) {
                    struct shard_id id = {.generation = number, .layer = layer, .shard = shard};
                    unsigned where = placement_where(&p, layer, shard);
                    assert_true(where_is_slot(where));
                    names_log_shard(&n, id, &key);
                    assert_int_equal(where_slot(where), slots_of_key(key.text, key.length));
                    names_new_shard(&n, id, 5, &key);
                    assert_int_equal(where_slot(where), slots_of_key(key.text, key.length));
                }
        }
    }
    assert_int_equal(nodes_filters(&nodes, "pre"), WHERE_SLOT | slots_of_key("pre:filters", 11));
    cluster_free(nodes.cluster);
}

static void test_placement__of_a_list_and_of_a_cluster_are_not_taken_for_each_other(void **state)
{
    (void)state;
    static struct nodes seeds, clustered, listed;
    static struct generation in_cluster, on_nodes;
    struct error e;
    struct placement p;
    struct names n;
    assert_int_equal(names_init(&n, "p", "f", 1, &e), ERR_OK);
    assert_int_equal(cluster_parse_seeds(&seeds, "redis://a:1", &e), ERR_OK);
    assert_int_equal(nodes_parse(&listed, "redis://a:1, redis://b:2", &e), ERR_OK);
    clustered.cluster = cluster_new(&seeds);
    nodes_pin(&clustered, &in_cluster);
    nodes_pin(&listed, &on_nodes);
    assert_int_equal(placement_resolve(&p, &n, &in_cluster, &listed, &e), ERR_CONFIG);
    assert_string_equal(e.text, "the filter's shards are in a Redis Cluster, but none is configured");
    assert_int_equal(placement_resolve(&p, &n, &on_nodes, &clustered, &e), ERR_CONFIG);
    assert_string_equal(
        e.text,
        "the filter has shards on node a:1, which is not configured: it was not made in this cluster");
    cluster_free(clustered.cluster);
}

static void test_seeds__have_one_login_and_no_database(void **state)
{
    (void)state;
    static struct nodes seeds;
    struct error e;
    struct node n;
    assert_int_equal(cluster_parse_seeds(&seeds, "redis://a:1/1", &e), ERR_PARSE);
    assert_int_equal(cluster_parse_seeds(&seeds, "redis://u:p@a:1, redis://u:q@b:1", &e), ERR_PARSE);
    assert_null(strstr(e.text, "q"));
    assert_int_equal(cluster_parse_seeds(&seeds, "redis://a:1/0, redis://u:p@b:1, redis://u:p@c:1", &e),
                     ERR_OK);
    assert_string_equal(seeds.node[0].user, "u");
    assert_string_equal(seeds.node[0].password, "p");
    struct cluster *c = cluster_new(&seeds);
    cluster_node(c, "10.0.0.9", 77, &n);
    assert_string_equal(n.name, "10.0.0.9:77");
    assert_string_equal(n.password, "p");
    cluster_node(c, "fe80::1", 77, &n);
    assert_string_equal(n.name, "[fe80::1]:77");
    assert_int_equal(cluster_version(c), 0);
    cluster_free(c);
}

/* --- replies --- */

static redisReply *parse(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    redisReaderFree(reader);
    assert_non_null(reply);
    return reply;
}

#define MASTER(port) "*3\r\n$9\r\n127.0.0.1\r\n:" port "\r\n$1\r\nx\r\n"

static void test_slots_reply__gives_owners_and_replicas(void **state)
{
    (void)state;
    static struct slot_map m;
    struct error e;
    redisReply *r = parse(
        "*3\r\n"
        "*4\r\n:0\r\n:99\r\n" MASTER("7000")
            MASTER("7003") "*3\r\n:200\r\n:16383\r\n" MASTER("7001") "*3\r\n:150\r\n:150\r\n" MASTER("7000"));
    assert_int_equal(slot_map_parse(&m, r, "asked", false, &e), ERR_OK);
    assert_int_equal(m.count, 3);
    assert_int_equal(slot_map_masters(&m), 2);
    assert_int_equal(slot_map_covered(&m), 101 + 16184);
    assert_string_equal(m.node[m.owner[0]].name, "127.0.0.1:7000");
    assert_int_equal(m.node[m.owner[150]].port, 7000);
    assert_int_equal(m.owner[100], SLOT_UNOWNED);
    assert_int_equal(m.owner[16383], slot_map_find(&m, "127.0.0.1", 7001));
    assert_true(m.node[slot_map_find(&m, "127.0.0.1", 7003)].replica);
    slot_map_fini(&m);
    freeReplyObject(r);
}

/* The host of the node that replies may be missing. An unknown host is "?". */
static void test_slots_reply__whose_host_is_missing_means_the_node_that_was_asked(void **state)
{
    (void)state;
    static struct slot_map m;
    struct error e;
    redisReply *r = parse("*3\r\n"
                          "*3\r\n:0\r\n:9\r\n*4\r\n$-1\r\n:7000\r\n$1\r\nx\r\n*0\r\n"
                          "*3\r\n:10\r\n:19\r\n*2\r\n$0\r\n\r\n:7001\r\n"
                          "*3\r\n:20\r\n:29\r\n*2\r\n$1\r\n?\r\n:7002\r\n");
    assert_int_equal(slot_map_parse(&m, r, "fe80::1", false, &e), ERR_OK);
    assert_int_equal(m.count, 2);
    assert_string_equal(m.node[m.owner[0]].name, "[fe80::1]:7000");
    assert_string_equal(m.node[m.owner[10]].name, "[fe80::1]:7001");
    assert_int_equal(m.owner[20], SLOT_UNOWNED);
    slot_map_fini(&m);
    freeReplyObject(r);
}

static void test_slots_reply__that_is_malformed_is_refused(void **state)
{
    (void)state;
    static const char *const replies[] = {
        "+OK\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:1\r\n" MASTER("1"),
        "*1\r\n*3\r\n:5\r\n:1\r\n" MASTER("1"),
        "*1\r\n*3\r\n:5\r\n:16384\r\n" MASTER("1"),
        "*1\r\n*3\r\n:0\r\n:1\r\n" MASTER("0"),
        "*1\r\n*3\r\n:0\r\n:1\r\n" MASTER("65536"),
        "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$3\r\na b\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:1\r\n:1\r\n",
        "*1\r\n*3\r\n+0\r\n:1\r\n" MASTER("1"),
    };
    static struct slot_map m;
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        struct error e = {""};
        redisReply *r = parse(replies[i]);
        assert_int_equal(slot_map_parse(&m, r, "asked", false, &e), ERR_PARSE);
        assert_int_equal(m.count, 0);
        assert_true(e.text[0] != '\0');
        freeReplyObject(r);
    }
    struct error e;
    redisReply *r = parse("-ERR This instance has cluster support disabled\r\n");
    assert_int_equal(slot_map_parse(&m, r, "asked", false, &e), ERR_REFUSED);
    assert_string_equal(e.text, "ERR This instance has cluster support disabled");
    freeReplyObject(r);
    r = parse("-LOADING Redis is loading the dataset in memory\r\n");
    assert_int_equal(slot_map_parse(&m, r, "asked", false, &e), ERR_UNREACHABLE);
    freeReplyObject(r);
}

#define TEXT(n, s) "$" n "\r\n" s "\r\n"
#define NODE(port, tls, role_length, role, health_length, health)                                            \
    "*10\r\n" TEXT("8", "endpoint") TEXT("1", "h")                                                           \
        TEXT("4", "port") ":" port "\r\n" TEXT("8", "tls-port") ":" tls "\r\n" TEXT("4", "role")             \
            TEXT(role_length, role) TEXT("6", "health") TEXT(health_length, health)
#define SHARD(slots, nodes) "*4\r\n" TEXT("5", "slots") slots TEXT("5", "nodes") nodes

static void test_shards_reply__names_masters_without_slots_too(void **state)
{
    (void)state;
    static struct slot_map m;
    struct error e;
    redisReply *r =
        parse("*4\r\n" SHARD("*4\r\n:0\r\n:9\r\n:20\r\n:29\r\n",
                             "*3\r\n" NODE("1", "11", "6", "master", "4", "fail")
                                 NODE("2", "12", "6", "master", "6", "online")
                                     NODE("3", "13", "7", "replica", "6", "online"))
                  SHARD("*2\r\n:10\r\n:19\r\n", "*1\r\n" NODE("4", "14", "6", "master", "6", "failed"))
                      SHARD("*0\r\n", "*1\r\n" NODE("5", "15", "6", "master", "6", "online"))
                          SHARD("*0\r\n", "*2\r\n" NODE("6", "16", "6", "master", "6", "failed")
                                              NODE("7", "17", "6", "master", "4", "fail")));
    assert_int_equal(slot_map_parse(&m, r, "asked", false, &e), ERR_OK);
    assert_int_equal(m.node[m.owner[0]].port, 2); /* the one of two masters that is online */
    assert_int_equal(m.node[m.owner[29]].port, 2);
    assert_int_equal(m.node[m.owner[10]].port, 4); /* failed, and not replaced yet */
    assert_int_equal(m.owner[30], SLOT_UNOWNED);
    assert_true(slot_map_find(&m, "h", 5) < m.count);  /* a new master, without slots so far */
    assert_true(slot_map_find(&m, "h", 6) == m.count); /* failed, and has been replaced */
    assert_true(slot_map_find(&m, "h", 7) == m.count);
    assert_true(m.node[slot_map_find(&m, "h", 3)].replica);
    slot_map_fini(&m);
    assert_int_equal(slot_map_parse(&m, r, "asked", true, &e), ERR_OK);
    assert_int_equal(m.node[m.owner[0]].port, 12);
    slot_map_fini(&m);
    freeReplyObject(r);
    static const char *const replies[] = {"+OK\r\n",
                                          "*1\r\n:1\r\n",
                                          "*1\r\n*0\r\n",
                                          "*1\r\n" SHARD("*1\r\n:1\r\n", "*0\r\n"),
                                          "*1\r\n" SHARD("*2\r\n:1\r\n:99999\r\n", "*0\r\n"),
                                          "*1\r\n" SHARD("*0\r\n", "*1\r\n*0\r\n"),
                                          "*1\r\n" SHARD("*0\r\n", "*1\r\n:1\r\n")};
    for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
        r = parse(replies[i]);
        assert_int_equal(slot_map_parse(&m, r, "asked", false, &e), ERR_PARSE);
        freeReplyObject(r);
    }
}

/* --- maps --- */

/* The number of slots that have another master in @b. */
static unsigned moved(const struct slot_map *a, const struct slot_map *b)
{
    unsigned n = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++)
        n += slot_map_has_moved(a, b, slot);
    return n;
}

static void test_slot_map__is_patched_and_compared(void **state)
{
    (void)state;
    static struct slot_map a, b;
    slot_map_init(&a);
    for (unsigned slot = 0; slot < SLOTS; slot++)
        assert_int_equal(slot_map_patch(&a, slot, slot < 100 ? "x" : "y", 1), ERR_OK);
    assert_int_equal(slot_map_copy(&b, &a), ERR_OK);
    assert_int_equal(moved(&a, &b), 0);
    assert_int_equal(slot_map_patch(&b, 5, "y", 1), ERR_OK);
    assert_int_equal(slot_map_patch(&b, 6, "z", 2), ERR_OK);
    assert_int_equal(slot_map_patch(&b, 6, "z", 2), ERR_OK);
    assert_int_equal(moved(&a, &b), 2);
    assert_int_equal(b.node[slot_map_find(&b, "x", 1)].slots, 98);
    assert_int_equal(b.node[slot_map_find(&b, "z", 2)].slots, 1);
    assert_int_equal(slot_map_covered(&b), SLOTS);
    for (unsigned port = 2; b.count < SLOT_NODES_MAX; port++)
        assert_int_equal(slot_map_patch(&b, 7, "w", (uint16_t)port), ERR_OK);
    assert_int_equal(slot_map_patch(&b, 7, "one-more", 1), ERR_RANGE);
    assert_int_equal(slot_map_covered(&b), SLOTS);
    slot_map_fini(&a);
    slot_map_fini(&b);
}

/* --- errors --- */

static void test_redirect__is_read_from_the_error(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *host;
        unsigned slot;
        uint16_t port;
        bool is, ask;
    } rows[] = {{"MOVED 3999 127.0.0.1:6381", "127.0.0.1", 3999, 6381, true, false},
                {"ASK 16383 node-1.example:1", "node-1.example", 16383, 1, true, true},
                {"MOVED 0 ::1:6381", "::1", 0, 6381, true, false},
                {"MOVED 0 :6381", "asked", 0, 6381, true, false},
                {"MOVED 0 ?:6381", "", 0, 0, false, false},
                {"MOVED 16384 a:1", "", 0, 0, false, false},
                {"MOVED -1 a:1", "", 0, 0, false, false},
                {"MOVED 1 a:0", "", 0, 0, false, false},
                {"MOVED 1 a:65536", "", 0, 0, false, false},
                {"MOVED 1 a", "", 0, 0, false, false},
                {"MOVED 1", "", 0, 0, false, false},
                {"MOVED ", "", 0, 0, false, false},
                {"ASK a:1", "", 0, 0, false, false},
                {"MOVED 1 a b:1", "", 0, 0, false, false},
                {"ERR MOVED 1 a:1", "", 0, 0, false, false},
                {"", "", 0, 0, false, false}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct slot_redirect to;
        assert_int_equal(slots_parse_redirect(&to, rows[i].text, strlen(rows[i].text), "asked"), rows[i].is);
        if (!rows[i].is)
            continue;
        assert_int_equal(to.ask, rows[i].ask);
        assert_int_equal(to.slot, rows[i].slot);
        assert_string_equal(to.host, rows[i].host);
        assert_int_equal(to.port, rows[i].port);
    }
    char longest[400] = "MOVED 1 ";
    memset(longest + 8, 'a', 300);
    memcpy(longest + 308, ":1", 3);
    struct slot_redirect to;
    assert_false(slots_parse_redirect(&to, longest, strlen(longest), "asked"));
    assert_true(slots_error_passes("TRYAGAIN Multiple keys request during rehashing of slot"));
    assert_true(slots_error_passes("CLUSTERDOWN Hash slot not served"));
    assert_true(slots_error_passes("ERR Script attempted to access a non local key in a cluster node"));
    assert_true(slots_error_passes("ERR Unable to execute command 'rename' in script because undeclared "
                                   "keys were accessed during rehashing of the slot script: 1, on 2."));
    assert_false(slots_error_passes("BUSYKEY Target key name already exists."));
    assert_false(slots_error_passes("ERR x"));
    assert_true(slots_error_wants_map("CLUSTERDOWN The cluster is down"));
    assert_false(slots_error_wants_map("TRYAGAIN x"));
}

/* --- the shared map --- */

static void test_cluster__lets_one_ask_at_a_time_and_not_too_often(void **state)
{
    (void)state;
    static struct nodes seeds;
    static struct slot_map m, copy;
    struct error e;
    struct node n;
    uint64_t version = 0;
    assert_int_equal(cluster_parse_seeds(&seeds, "redis://a:1, redis://b:2", &e), ERR_OK);
    struct cluster *c = cluster_new(&seeds);
    assert_int_equal(cluster_candidate(c, 3, &n), 2);
    assert_string_equal(n.name, "b:2");
    assert_true(cluster_may_refresh(c));
    assert_false(cluster_may_refresh(c)); /* a refresh is under way */
    slot_map_init(&m);
    assert_int_equal(slot_map_patch(&m, 9, "z", 9), ERR_OK);
    cluster_refreshed(c, &m);
    assert_false(cluster_may_refresh(c)); /* the last refresh was a moment ago */
    assert_int_equal(cluster_version(c), 1);
    slot_map_init(&copy);
    assert_int_equal(cluster_copy(c, &copy, &version), ERR_OK);
    assert_int_equal(version, 1);
    assert_int_equal(moved(&m, &copy), 0);
    assert_int_equal(cluster_candidate(c, 0, &n), 3);
    assert_string_equal(n.name, "z:9");
    assert_int_equal(cluster_masters(c), 1);
    slot_map_fini(&m);
    slot_map_fini(&copy);
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots__are_those_of_the_specification),
        cmocka_unit_test(test_slots__of_placements_and_homes_are_those_of_the_keys),
        cmocka_unit_test(test_placement__of_a_list_and_of_a_cluster_are_not_taken_for_each_other),
        cmocka_unit_test(test_seeds__have_one_login_and_no_database),
        cmocka_unit_test(test_slots_reply__gives_owners_and_replicas),
        cmocka_unit_test(test_slots_reply__whose_host_is_missing_means_the_node_that_was_asked),
        cmocka_unit_test(test_slots_reply__that_is_malformed_is_refused),
        cmocka_unit_test(test_shards_reply__names_masters_without_slots_too),
        cmocka_unit_test(test_slot_map__is_patched_and_compared),
        cmocka_unit_test(test_redirect__is_read_from_the_error),
        cmocka_unit_test(test_cluster__lets_one_ask_at_a_time_and_not_too_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
