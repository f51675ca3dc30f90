/* SPDX-License-Identifier: MIT */
/* A job loads shards from real servers while entries are applied. A shard that is missing, cut, of another
 * type, or on a server that the view does not mean is reported, and never taken for zeros. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/info.h"
#include "shard/filter/block.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sync_client_replications.h"
#include "shard/resident/load.h"
#include "tests/lib/temp_cluster.h"

enum { NODES = 2, TAG = 0xbee5, MIX = 77, KEYS = 3000, SYNC_CLIENT_MS = 2000, GENERATION = 3 };

static const struct geometry g = {.shards = 6, .blocks = 1500, .block_bits = 1024, .hashes = 9};
static const struct writer_token writer = {.number = 7, .random = 8};

static struct fixture {
    struct temp_redis redis[NODES];
    struct temp_cluster cluster;
    struct nodes seeds, nodes;
    struct trusted eras; /* replication ids of all masters when a test began */
    bool changes;        /* the first node's id changes while shards are loaded */
    struct names names;
    struct placement placement;
    struct sync_client *link, *other; /* @other has no pending replies during a load */
    struct budget budget;
    struct resident *r;
    uint8_t *shards;
    struct load load;
    unsigned failures, fenced;
    uint32_t failed_shard;
    enum err code;
    char why[512];
    uint64_t applied; /* keys that were added by entries while shards were loaded */
    _Atomic bool done;
} f;

static struct key_hash hash_of(uint64_t key)
{
    return hash_key(5, &key, sizeof(key));
}

static int begin(void)
{
    struct error e = {""};
    static struct generation generation;
    if (names_init(&f.names, "test", "f", 1, &e) != ERR_OK)
        return -1;
    f.names.incarnation = 0xabcdef;
    generation = (struct generation){.number = GENERATION};
    nodes_pin(&f.nodes, &generation);
    enum err code = placement_resolve(&f.placement, &f.names, &generation, &f.nodes, &e);
    f.link = sync_client_new(&f.nodes, SYNC_CLIENT_MS, "test");
    f.other = sync_client_new(&f.nodes, SYNC_CLIENT_MS, "test");
    return code == ERR_OK && f.link != NULL && f.other != NULL ? 0 : -1;
}

static void end(void)
{
    sync_client_free(f.link);
    sync_client_free(f.other);
}

static int start(void **state)
{
    struct error e = {""};
    char list[256];
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < NODES; i++)
        if (temp_redis_start(&f.redis[i], NULL, &e) != ERR_OK) {
            print_error("%s\n", e.text);
            return -1;
        }
    (void)snprintf(list, sizeof(list), "%s, %s", f.redis[0].url, f.redis[1].url);
    return nodes_parse(&f.nodes, list, &e) == ERR_OK ? begin() : -1;
}

static int stop(void **state)
{
    (void)state;
    end();
    for (int i = 0; i < NODES; i++)
        temp_redis_fini(&f.redis[i]);
    return 0;
}

static int start_cluster(void **state)
{
    struct error e = {""};
    (void)state;
    memset(&f, 0, sizeof(f));
    if (temp_cluster_start(&f.cluster, 3, 3, 0, &e) != ERR_OK ||
        cluster_parse_seeds(&f.seeds, f.cluster.seeds, &e) != ERR_OK) {
        print_error("%s\n", e.text);
        return -1;
    }
    f.nodes.cluster = cluster_new(&f.seeds);
    return f.nodes.cluster == NULL ? -1 : begin();
}

static int stop_cluster(void **state)
{
    (void)state;
    end();
    cluster_free(f.nodes.cluster);
    temp_cluster_fini(&f.cluster);
    return 0;
}

static void command(unsigned where, const char *what, const struct key_name *name, const void *bytes,
                    size_t length)
{
    struct error e = {""};
    redisReply *reply = NULL;
    if (sync_client_command(f.link, where, &reply, &e, what, name->text, name->length, bytes, length) !=
        ERR_OK)
        fail_msg("%s", e.text);
    freeReplyObject(reply);
}

static struct key_name name_of(uint32_t shard)
{
    struct key_name name;
    names_log_shard(&f.names, (struct shard_id){.generation = GENERATION, .shard = shard}, &name);
    return name;
}

static struct header header_of(uint32_t shard)
{
    return (struct header){.tag = TAG,
                           .incarnation = f.names.incarnation,
                           .generation = GENERATION,
                           .writer = writer,
                           .shard = shard,
                           .blocks = g.blocks,
                           .block_bits = (uint16_t)g.block_bits,
                           .hashes = (uint16_t)g.hashes};
}

/* Write @shard to Redis behind the header @h, without its last @cut bytes. */
static void write_shard(uint32_t shard, const struct header *h, size_t cut)
{
    size_t length = header_shard_bytes(&g);
    uint8_t *bytes = malloc(length);
    struct key_name name = name_of(shard);
    assert_non_null(bytes);
    header_encode(h, bytes);
    memcpy(bytes + header_bytes(&g), f.shards + (size_t)shard * geometry_shard_bytes(&g),
           geometry_shard_bytes(&g));
    command(placement_where(&f.placement, 0, shard), "SET %b %b", &name, bytes, length - cut);
    free(bytes);
}

/* --- eras --- */

/* Accept the replication ids that the masters have now. */
static void accept_eras(void)
{
    struct error e = {""};
    struct replications found = {0};
    if (sync_client_replications(f.link, &found, &e) != ERR_OK)
        fail_msg("%s", e.text);
    f.eras = (struct trusted){.known = true};
    for (unsigned i = 0; i < found.count; i++) {
        assert_true(found.one[i].id != 0);
        f.eras.id[f.eras.count++] = found.one[i].id;
    }
    replications_fini(&found);
}

static void first_node_does(const char *what)
{
    struct error e = {""};
    redisReply *reply = NULL;
    if (sync_client_command(f.other, 0, &reply, &e, what) !=
        ERR_OK) /* NOLINT(clang-diagnostic-format-security) */
        fail_msg("%s", e.text);
    freeReplyObject(reply);
}

static void on_failed(void *arg, uint32_t shard, enum err code, const char *why)
{
    (void)arg;
    if (f.changes && f.failures == 0)
        first_node_does("DEBUG CHANGE-REPL-ID");
    f.failures++;
    f.failed_shard = shard;
    f.fenced += code == ERR_FENCED;
    f.code = code;
    (void)snprintf(f.why, sizeof(f.why), "%s", why);
}

static void prepare(void)
{
    f.failures = 0;
    f.fenced = 0;
    f.changes = false;
    f.code = ERR_OK;
    f.why[0] = '\0';
    f.applied = 0;
    accept_eras();
    budget_init(&f.budget, 1 << 30);
    assert_int_equal(resident_new(&f.r, MIX, 1, &f.budget, NULL), ERR_OK);
    assert_int_equal(resident_add_layer(f.r, &g, TAG, NULL), ERR_OK);
    f.shards = calloc(g.shards, geometry_shard_bytes(&g));
    assert_non_null(f.shards);
    for (uint32_t s = 0; s < g.shards; s++)
        block_fill(&g, TAG, f.shards + (size_t)s * geometry_shard_bytes(&g));
    for (uint64_t key = 0; key < KEYS; key++) {
        struct key_place p;
        hash_place(&g, hash_mix(hash_of(key), MIX), &p);
        (void)block_set(&g, &p, f.shards + (size_t)p.shard * geometry_shard_bytes(&g));
    }
    for (uint32_t s = 0; s < g.shards; s++) {
        struct header h = header_of(s);
        write_shard(s, &h, 0);
    }
}

static void finish(void)
{
    resident_free(f.r);
    assert_int_equal(f.budget.used, 0);
    free(f.shards);
}

/* Apply keys from KEYS on while the pieces come. */
static void *apply(void *arg)
{
    uint8_t added;
    while (!f.done) {
        struct key_hash h = hash_of(KEYS + f.applied++);
        if (resident_apply(f.r, 0, (struct log_id){f.applied, 0}, &h, 1, &added, NULL) != ERR_OK)
            return &f;
    }
    return arg;
}

/* Load all shards and end the load. Return how many shards are in memory then. */
static uint32_t load_all(void)
{
    f.load = (struct load){.resident = f.r,
                           .names = &f.names,
                           .placement = &f.placement,
                           .generation = GENERATION,
                           .writer = writer,
                           .eras = &f.eras,
                           .piece_bytes = LOAD_PIECE,
                           .count = g.shards,
                           .failed = on_failed};
    assert_int_equal(load_begin(&f.load, NULL), ERR_OK);
    load_and_wait(&f.load, f.link);
    return load_end(&f.load);
}

static uint8_t look(uint64_t key)
{
    struct key_hash h = hash_of(key);
    uint8_t answer;
    resident_look(f.r, &h, 1, &answer);
    return answer;
}

static uint32_t shard_of(uint64_t key)
{
    struct key_place p;
    hash_place(&g, hash_mix(hash_of(key), MIX), &p);
    return p.shard;
}

static void has_all(void)
{
    assert_int_equal(f.failures, 0);
    for (uint64_t key = 0; key < KEYS + f.applied; key++)
        assert_int_equal(look(key), RESIDENT_PRESENT);
    unsigned found = 0;
    for (uint64_t key = 1 << 20; key < (1 << 20) + 1000; key++) {
        assert_int_not_equal(look(key), RESIDENT_UNKNOWN);
        found += look(key) == RESIDENT_PRESENT;
    }
    assert_in_range(found, 0, 10);
    finish();
}

static void test_load__brings_all_shards_into_memory(void **state)
{
    (void)state;
    prepare();
    assert_int_equal(load_all(), g.shards);
    has_all();
}

/* The rate holds for all loads of the process together. At this rate a yielding thread makes too little
 * progress, so the rest is loaded without yielding. */
static void test_load__asks_for_no_more_than_the_rate(void **state)
{
    (void)state;
    prepare();
    f.budget.load_rate = 4000000;
    uint64_t began = clock_mono_us(), paid = geometry_bytes(&g) - BUDGET_LOAD_BURST - LOAD_PIECE;
    assert_int_equal(load_all(), g.shards);
    assert_true(clock_mono_us() - began >= paid / 4);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_int_equal(look(key), RESIDENT_PRESENT);
    finish();
}

static void test_load__brings_all_shards_into_memory_while_entries_are_applied(void **state)
{
    pthread_t thread;
    void *failed;
    (void)state;
    prepare();
    f.budget.load_rate = 4000000; /* so that the load takes a while */
    f.done = false;
    assert_int_equal(pthread_create(&thread, NULL, apply, NULL), 0);
    uint32_t loaded = load_all();
    f.done = true;
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(loaded, g.shards);
    assert_true(f.applied > 10);
    has_all();
}

/* One shard fails, and the others are loaded. No key of the failed shard is reported absent. */
static void fails(uint32_t shard, enum err code, const char *why)
{
    assert_int_equal(load_all(), g.shards - 1);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.failed_shard, shard);
    if (f.code != code || strstr(f.why, why) == NULL)
        fail_msg("%s: \"%s\", expected %s: \"%s\"", error_name(f.code), f.why, error_name(code), why);
    struct key_name name = name_of(shard);
    assert_non_null(memmem(f.why, strlen(f.why), name.text, name.length));
    for (uint64_t key = 0; key < KEYS + 100; key++)
        assert_true(shard_of(key) == shard ? look(key) == RESIDENT_UNKNOWN
                                           : key >= KEYS || look(key) == RESIDENT_PRESENT);
    finish();
}

static void missing(void)
{
    struct key_name name = name_of(2);
    command(placement_where(&f.placement, 0, 2), "DEL %b", &name, NULL, 0);
    fails(2, ERR_LOST, "is missing");
}

static void cut(void)
{
    struct header h = header_of(3);
    write_shard(3, &h, 1);
    fails(3, ERR_LOST, "is cut");
}

static void without_a_tag(void)
{
    struct header h = header_of(5);
    size_t at = 5 * (size_t)geometry_shard_bytes(&g) + 1200 * 128;
    f.shards[at] ^= 1;
    write_shard(5, &h, 0);
    fails(5, ERR_LOST, "block 1200 of shard 5 does not begin with its tag");
}

static void of_another_generation(void)
{
    struct header h = header_of(1);
    h.generation++;
    write_shard(1, &h, 0);
    fails(1, ERR_LOST, "belongs to generation 4");
}

static void of_a_later_writer(void)
{
    struct header h = header_of(0);
    h.writer.number++;
    write_shard(0, &h, 0);
    fails(0, ERR_FENCED, "token 8, later than the view's 7");
}

static void of_a_later_format(void)
{
    struct key_name name = name_of(4);
    command(placement_where(&f.placement, 0, 4), "SETRANGE %b 5 %b", &name, "\2", 1);
    fails(4, ERR_FORMAT, "has format 2");
}

static void of_another_type(void)
{
    struct key_name name = name_of(4);
    command(placement_where(&f.placement, 0, 4), "DEL %b", &name, NULL, 0);
    command(placement_where(&f.placement, 0, 4), "LPUSH %b %b", &name, "x", 1);
    fails(4, ERR_WRONG_TYPE, "is no string");
}

static void test_load__tells_of_a_shard_that_is_missing(void **state)
{
    (void)state;
    prepare();
    missing();
}

static void test_load__tells_of_a_shard_that_was_cut(void **state)
{
    (void)state;
    prepare();
    cut();
}

static void test_load__tells_of_a_block_without_its_tag(void **state)
{
    (void)state;
    prepare();
    without_a_tag();
}

static void test_load__tells_of_a_shard_of_something_else(void **state)
{
    (void)state;
    prepare();
    of_another_generation();
    prepare();
    of_a_later_writer();
    prepare();
    of_a_later_format();
    prepare();
    of_another_type();
}

/* From some moment on, the first node's shards do not count: those with even numbers. The others count. A
 * loaded shard has all its bits, and keys of the other shards are unknown. */
static void loads_some(unsigned least, unsigned most, const char *why)
{
    uint32_t ended = load_all();
    assert_in_range(ended, least, most);
    assert_int_equal(f.failures, g.shards - ended);
    assert_non_null(strstr(f.why, why));
    for (uint64_t key = 0; key < KEYS; key++) {
        bool whole = bitmap_state(f.r->layer[0], shard_of(key)) == BITMAP_RESIDENT;
        assert_int_equal(look(key), whole ? RESIDENT_PRESENT : RESIDENT_UNKNOWN);
        assert_true(whole || shard_of(key) % 2 == 0 || f.changes);
    }
    finish();
}

static void under_another_id(void)
{
    first_node_does("DEBUG CHANGE-REPL-ID");
    loads_some(g.shards / 2, g.shards / 2, "has a replication id that the view does not accept");
    assert_int_equal(f.fenced, g.shards / 2);
}

static void from_a_replica(void)
{
    first_node_does("REPLICAOF 127.0.0.1 1");
    loads_some(g.shards / 2, g.shards / 2, "its node is no master");
    assert_int_equal(f.fenced, g.shards / 2);
    first_node_does("REPLICAOF NO ONE");
}

/* A missing shard on a server under another id does not count either. */
static void missing_under_another_id(void)
{
    struct key_name name = name_of(0);
    command(placement_where(&f.placement, 0, 0), "DEL %b", &name, NULL, 0);
    under_another_id();
}

/* The node answers all the time. Its id changes behind some of the pieces, when shard 1 fails. */
static void while_it_is_loaded(void)
{
    struct key_name name = name_of(1);
    command(placement_where(&f.placement, 0, 1), "DEL %b", &name, NULL, 0);
    f.changes = true;
    loads_some(g.shards / 2 - 1, g.shards - 2, "has a replication id that the view does not accept");
    assert_true(f.fenced >= 1);
    assert_int_equal(f.fenced, f.failures - 1);
}

static void test_load__counts_only_under_an_era_that_the_view_accepts(void **state)
{
    (void)state;
    prepare();
    under_another_id();
    prepare();
    missing_under_another_id();
}

/* Shards that were whole before stay in memory, and are not whole again. */
static void test_load__again_counts_only_under_an_era_that_the_view_accepts(void **state)
{
    (void)state;
    prepare();
    assert_int_equal(load_all(), g.shards);
    resident_rebase(f.r);
    first_node_does("DEBUG CHANGE-REPL-ID");
    assert_int_equal(load_all(), g.shards / 2);
    for (uint32_t s = 0; s < g.shards; s++)
        assert_int_equal(bitmap_state(f.r->layer[0], s), s % 2 == 0 ? BITMAP_RELOADING : BITMAP_RESIDENT);
    finish();
}

static void test_load__counts_nothing_that_a_replica_says(void **state)
{
    (void)state;
    prepare();
    from_a_replica();
}

static void test_load__counts_nothing_that_came_before_a_change_of_the_era_was_seen(void **state)
{
    (void)state;
    prepare();
    while_it_is_loaded();
}

/* --- a cluster whose slots move --- */

enum { NONE = TEMP_CLUSTER_NODES_MAX, MOVING = 2 /* the shard whose slot moves */ };

static unsigned slot, from, to;

static void slot_moves(void)
{
    slot = where_slot(placement_where(&f.placement, 0, MOVING));
    from = temp_cluster_owner(&f.cluster, 0, slot);
    to = (from + 1) % 3;
}

/* Remove the replication id of @node from those that the view accepts. */
static void forget_era(unsigned node)
{
    redisReply *r = client_command(&f.cluster.client[node], "INFO replication");
    uint64_t era = info_id(r->str, r->len, "master_replid");
    for (unsigned i = 0; i < f.eras.count; i++)
        if (f.eras.id[i] == era)
            f.eras.id[i] = 1;
    freeReplyObject(r);
}

/* All shards are loaded except those of @node. */
static void loads_all_but(unsigned node)
{
    uint32_t fail = 0;
    if (node != NONE)
        forget_era(node);
    for (uint32_t s = 0; s < g.shards; s++) {
        unsigned at = where_slot(placement_where(&f.placement, 0, s));
        fail += node == (s == MOVING ? to : temp_cluster_owner(&f.cluster, 0, at));
    }
    assert_true(node != to || fail > 0);
    assert_int_equal(load_all(), g.shards - fail);
    assert_int_equal(f.failures, fail);
    assert_int_equal(f.fenced, fail);
    for (uint64_t key = 0; key < KEYS; key++)
        assert_true(fail > 0 || look(key) == RESIDENT_PRESENT);
    finish();
}

/* The first command on the slot is answered MOVED. */
static void moved(const unsigned *without)
{
    struct error e = {""};
    prepare();
    slot_moves();
    if (temp_cluster_move(&f.cluster, slot, 1, from, to, 0, &e) != ERR_OK)
        fail_msg("%s", e.text);
    loads_all_but(without == NULL ? NONE : *without);
}

/* Commands on the slot are answered ASK. */
static void on_its_way(const unsigned *without)
{
    struct error e = {""};
    unsigned keys = 0;
    prepare();
    slot_moves();
    if (temp_cluster_open(&f.cluster, slot, from, to, &e) != ERR_OK ||
        temp_cluster_migrate(&f.cluster, slot, from, to, 100, &keys, &e) != ERR_OK)
        fail_msg("%s", e.text);
    loads_all_but(without == NULL ? NONE : *without);
    if (temp_cluster_close(&f.cluster, slot, from, to, &e) != ERR_OK)
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

/* Runs last: the node does not come back. */
static void test_load__tells_of_shards_whose_node_is_away(void **state)
{
    (void)state;
    prepare();
    temp_redis_kill(&f.redis[1]);
    assert_int_equal(load_all(), g.shards / 2);
    assert_int_equal(f.failures, g.shards / 2);
    assert_int_equal(f.code, ERR_UNREACHABLE);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load__brings_all_shards_into_memory),
        cmocka_unit_test(test_load__asks_for_no_more_than_the_rate),
        cmocka_unit_test(test_load__brings_all_shards_into_memory_while_entries_are_applied),
        cmocka_unit_test(test_load__tells_of_a_shard_that_is_missing),
        cmocka_unit_test(test_load__tells_of_a_shard_that_was_cut),
        cmocka_unit_test(test_load__tells_of_a_block_without_its_tag),
        cmocka_unit_test(test_load__tells_of_a_shard_of_something_else),
        cmocka_unit_test(test_load__counts_only_under_an_era_that_the_view_accepts),
        cmocka_unit_test(test_load__again_counts_only_under_an_era_that_the_view_accepts),
        cmocka_unit_test(test_load__counts_nothing_that_a_replica_says),
        cmocka_unit_test(test_load__counts_nothing_that_came_before_a_change_of_the_era_was_seen),
        cmocka_unit_test(test_load__tells_of_shards_whose_node_is_away),
    };
    const struct CMUnitTest moving[] = {
        cmocka_unit_test(test_load__follows_a_shard_whose_slot_moves),
        cmocka_unit_test(test_load__counts_a_shard_that_moved_under_the_era_of_its_new_node),
    };
    int failed = cmocka_run_group_tests(tests, start, stop);
    return failed + cmocka_run_group_tests(moving, start_cluster, stop_cluster);
}
