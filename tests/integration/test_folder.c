/* SPDX-License-Identifier: MIT */
/* Folding on a real Redis: processes that apply the same entries fold one after the other, wake late, or lose
 * a connection, and what Redis has afterwards is loaded by one that was not there. */
#include "tests/integration/filters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/block.h"
#include "shard/resident/dirty.h"
#include "shard/resident/load.h"
#include "shard/view/folder.h"
#include "shard/view/log_view.h"
#include "tests/lib/proxy.h"

enum { GENERATION = 2, CAPACITY = 20000, ERA = 0xabcd, ENTRY_KEYS = 100, MEMBERS = 3 };

/* What one coordinator has of the filter. Its position is the number of keys that it has applied. */
struct member {
    struct link *link;
    struct budget budget;
    struct resident *resident;
    struct folder folder;
};

static struct servers servers;
static struct proxy *proxy;
static unsigned route;
static struct nodes nodes;
static struct names names;
static struct generation g;
static struct member member[MEMBERS];

static int start(void **state)
{
    (void)state;
    char text[48];
    uint16_t port;
    struct error e = {""};
    if (servers_start(&servers, 1) != 0 || proxy_start(&proxy, &e) != ERR_OK ||
        proxy_add(proxy, WIRE_REDIS, servers.redis[0].port, &route, &port, &e) != ERR_OK)
        return -1;
    (void)snprintf(text, sizeof(text), "redis://127.0.0.1:%u", port);
    return nodes_parse(&nodes, text, &e) == ERR_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    proxy_stop(proxy);
    return servers_stop(&servers);
}

static void put_field(void *arg, const char *name, const char *value)
{
    (void)arg;
    struct key_name key;
    names_filter_key(&names, "view", &key);
    (void)servers_integer(&servers, 0, "HSET %b %s %s", key.text, key.length, name, value);
}

static void make_shard(uint32_t shard)
{
    const struct geometry *shape = &g.layers[0].geometry;
    uint32_t first = header_bytes(shape), length = header_shard_bytes(shape);
    uint8_t *bytes = calloc(1, length);
    struct key_name key;
    const struct header h = {.tag = hash_tag(names.incarnation, "f", 1, GENERATION),
                             .incarnation = names.incarnation,
                             .generation = GENERATION,
                             .shard = shard,
                             .blocks = shape->blocks,
                             .block_bits = (uint16_t)shape->block_bits,
                             .hashes = (uint16_t)shape->hashes};
    header_encode(&h, bytes);
    block_fill(shape, h.tag, bytes + first);
    names_log_shard(&names, (struct shard_id){GENERATION, 0, shard}, &key);
    assert_string_equal(servers_text(&servers, 0, "SET %b %b", key.text, key.length, bytes, (size_t)length),
                        "OK");
    free(bytes);
}

/* All shards into memory, from Redis. */
static void load(struct member *p)
{
    struct load l = {.resident = p->resident,
                     .names = &names,
                     .placement = &p->folder.placement,
                     .generation = GENERATION,
                     .writer = {.number = UINT64_MAX},
                     .piece_bytes = LOAD_PIECE_JOB,
                     .count = g.layers[0].geometry.shards};
    struct error e = {""};
    must(load_begin(&l, &e), e);
    load_by_link(&l, p->link);
    assert_int_equal(load_end(&l), g.layers[0].geometry.shards);
}

static void begin(struct member *p)
{
    struct error e = {""};
    *p = (struct member){0};
    p->link = link_new(&nodes, LINK_MS, NULL);
    assert_non_null(p->link);
    budget_init(&p->budget, UINT64_MAX);
    must(resident_new(&p->resident, g.seed, 1, &p->budget, &e), e);
    must(resident_add_layer(p->resident, &g.layers[0].geometry,
                            hash_tag(names.incarnation, "f", 1, GENERATION), &e),
         e);
    must(folder_init(&p->folder, p->link, &names, &g, p->resident, &e), e);
}

static void end(struct member *p)
{
    folder_fini(&p->folder);
    resident_free(p->resident);
    link_free(p->link);
}

static int setup(void **state)
{
    (void)state;
    struct error e = {""};
    proxy_lift(proxy);
    servers_flush(&servers);
    must(names_init(&names, PREFIX, "f", 1, &e), e);
    names.incarnation = 0xabcdef;
    g = (struct generation){.number = GENERATION,
                            .seed = 77,
                            .built = true,
                            .capacity = CAPACITY,
                            .error_rate = 0.01,
                            .layer_count = 1};
    nodes_pin(&nodes, &g);
    g.layers[0] = (struct layer){.capacity = CAPACITY, .error_rate = 0.01, .token = 1, .born_epoch = 1};
    must(geometry_plan(&g.layers[0].geometry, CAPACITY, 0.01, 8192, &e), e);
    assert_true(g.layers[0].geometry.shards > 2);
    struct log_view *v = calloc(1, sizeof(*v));
    *v = (struct log_view){.incarnation = names.incarnation,
                           .version = 1,
                           .seed = 9,
                           .last_generation = GENERATION,
                           .lane_count = 1,
                           .lane_number = {1},
                           .eras = {.known = true, .count = 1, .id = {ERA}}};
    v->slot[0].shape = g;
    log_view_format(v, put_field, NULL);
    free(v);
    for (uint32_t s = 0; s < g.layers[0].geometry.shards; s++)
        make_shard(s);
    for (unsigned i = 0; i < MEMBERS; i++)
        begin(&member[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MEMBERS; i++)
        end(&member[i]);
    return 0;
}

static struct key_hash key(uint64_t i)
{
    return hash_key(9, &i, sizeof(i));
}

/* Entries of the keys [first, last), both multiples of ENTRY_KEYS. */
static void apply(struct member *p, uint64_t first, uint64_t last)
{
    struct error e = {""};
    struct key_hash keys[ENTRY_KEYS];
    uint8_t added[ENTRY_KEYS];
    for (uint64_t at = first; at < last; at += ENTRY_KEYS) {
        for (unsigned i = 0; i < ENTRY_KEYS; i++)
            keys[i] = key(at + i);
        must(resident_apply(p->resident, 0, (struct log_id){at + ENTRY_KEYS, 0}, keys, ENTRY_KEYS, added, &e),
             e);
    }
}

static enum err fold_to(struct member *p, uint64_t position, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct folder_lane *lane = calloc(1, sizeof(*lane));
    lane->number = 1;
    lane->era = ERA;
    log_position_set(&lane->position, (struct log_id){position, 0}, bytes,
                     log_entry_encode(bytes, writer, position, NULL, 0));
    enum err code = folder_fold(&p->folder, lane, 1, e);
    if (code == ERR_OK)
        assert_true(lane->some && lane->trim.ms >= position);
    free(lane);
    return code;
}

static void folds(struct member *p, uint64_t position)
{
    struct error e = {""};
    must(fold_to(p, position, &e), e);
}

/* One that was not there loads what Redis has. */
static uint64_t missing(uint64_t first, uint64_t last)
{
    struct member late;
    uint64_t n = 0;
    begin(&late);
    load(&late);
    for (uint64_t i = first; i < last; i++) {
        struct key_hash h = key(i);
        uint8_t answer;
        resident_look(late.resident, &h, 1, &answer);
        n += answer != RESIDENT_PRESENT;
    }
    end(&late);
    return n;
}

static uint64_t folded(void)
{
    struct key_name name;
    names_filter_key(&names, "view", &name);
    const char *text = servers_text(&servers, 0, "HGET %b folded0.0", name.text, name.length);
    const char *blank = strchr(text, ' ');
    return blank == NULL ? 0 : strtoull(blank, NULL, 10);
}

static uint64_t writes(void)
{
    const char *text = servers_text(&servers, 0, "INFO commandstats");
    const char *at = strstr(text, "cmdstat_setrange:calls=");
    return at == NULL ? 0 : strtoull(at + strlen("cmdstat_setrange:calls="), NULL, 10);
}

static void test_fold__brings_what_was_applied_to_redis(void **state)
{
    (void)state;
    load(&member[0]);
    apply(&member[0], 0, 5000);
    assert_true(missing(0, 5000) > 4500);
    folds(&member[0], 5000);
    assert_int_equal(missing(0, 5000), 0);
    assert_int_equal(folded(), 5000);
    uint64_t before = writes();
    folds(&member[0], 5000);
    assert_int_equal(writes(), before); /* there is nothing left to write */
    apply(&member[0], 5000, 5100);
    folds(&member[0], 5100);
    assert_true(writes() - before <= ENTRY_KEYS);
    assert_int_equal(missing(0, 5100), 0);
}

/* Its memory lacks what the one before has written. */
static void test_take_over__by_one_that_lags_loses_nothing(void **state)
{
    (void)state;
    load(&member[0]);
    load(&member[1]);
    apply(&member[0], 0, 3000);
    folds(&member[0], 3000);
    apply(&member[1], 0, 1000);
    folds(&member[1], 1000);
    assert_int_equal(missing(0, 3000), 0);
    assert_int_equal(folded(), 3000);
}

static void test_fold__of_one_that_was_taken_over_is_refused_and_kept(void **state)
{
    (void)state;
    struct error e = {""};
    load(&member[0]);
    load(&member[1]);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[1], 0, 1000);
    folds(&member[1], 1000);
    apply(&member[0], 1000, 2000);
    gives(ERR_FENCED, fold_to(&member[0], 2000, &e), e);
    assert_int_equal(folded(), 1000);
    assert_true(missing(1000, 2000) > 900);
    folds(&member[0], 2000); /* it takes over */
    assert_int_equal(missing(0, 2000), 0);
    gives(ERR_FENCED, fold_to(&member[1], 2000, &e), e);
}

/* A batch that was sent, and never came: its marks are gone. */
static void test_take_over__writes_what_redis_lacks_whatever_the_marks_say(void **state)
{
    (void)state;
    struct dirty_batch *batch = malloc(sizeof(*batch));
    load(&member[0]);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[0], 1000, 2000);
    for (uint32_t s = 0; s < g.layers[0].geometry.shards; s++)
        while (dirty_take(member[0].resident->layer[0], s, batch))
            ;
    free(batch);
    member[0].folder.took_over = false;
    folds(&member[0], 2000);
    assert_int_equal(missing(0, 2000), 0);
}

/* What was sent before the connection broke may be executed later: under the old token it is refused. */
static void test_fold__draws_a_new_token_after_a_broken_connection(void **state)
{
    (void)state;
    struct error e = {""};
    load(&member[0]);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    uint64_t token = member[0].folder.fold.token.number;
    apply(&member[0], 1000, 2000);
    proxy_set(proxy, route, &(struct proxy_fault){.resets = 1});
    gives(ERR_UNREACHABLE, fold_to(&member[0], 2000, &e), e);
    proxy_lift(proxy);
    assert_int_equal(folded(), 1000);
    folds(&member[0], 2000);
    assert_true(member[0].folder.fold.token.number > token);
    assert_int_equal(missing(0, 2000), 0);
}

static void test_take_over__draws_above_what_headers_have(void **state)
{
    (void)state;
    struct key_name token;
    load(&member[0]);
    load(&member[1]);
    apply(&member[0], 0, 1000);
    for (unsigned i = 0; i < 5; i++) {
        member[0].folder.took_over = false;
        folds(&member[0], 1000);
    }
    names_filter_key(&names, "token", &token); /* home went back */
    assert_string_equal(servers_text(&servers, 0, "SET %b 1", token.text, token.length), "OK");
    apply(&member[1], 0, 1000);
    folds(&member[1], 1000);
    assert_true(member[1].folder.fold.token.number > member[0].folder.fold.token.number);
}

static void test_fold__needs_every_shard_in_memory(void **state)
{
    (void)state;
    struct error e = {""};
    gives(ERR_CONFLICT, fold_to(&member[0], 100, &e), e);
    assert_non_null(strstr(e.text, "not whole in memory"));
    assert_int_equal(folded(), 0);
}

/* Its marks went with it, written or not. */
static void test_fold__stores_nothing_past_a_shard_that_left_memory(void **state)
{
    (void)state;
    struct error e = {""};
    load(&member[0]);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[0], 1000, 2000);
    bitmap_change(member[0].resident->layer[0], 1, BITMAP_ABSENT);
    gives(ERR_CONFLICT, fold_to(&member[0], 2000, &e), e);
    assert_int_equal(folded(), 1000);
}

static void test_fold__says_that_a_shard_is_lost(void **state)
{
    (void)state;
    struct error e = {""};
    struct key_name name;
    load(&member[0]);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[0], 1000, 2000);
    names_log_shard(&names, (struct shard_id){GENERATION, 0, 1}, &name);
    assert_int_equal(servers_integer(&servers, 0, "DEL %b", name.text, name.length), 1);
    gives(ERR_FENCED, fold_to(&member[0], 2000, &e), e);
    gives(ERR_LOST, fold_to(&member[0], 2000, &e), e);
    assert_non_null(strstr(e.text, "does not exist"));
    assert_int_equal(servers_integer(&servers, 0, "EXISTS %b", name.text, name.length), 0);
    assert_int_equal(folded(), 1000);
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLDER_TEST(test_fold__brings_what_was_applied_to_redis),
        FOLDER_TEST(test_take_over__by_one_that_lags_loses_nothing),
        FOLDER_TEST(test_fold__of_one_that_was_taken_over_is_refused_and_kept),
        FOLDER_TEST(test_take_over__writes_what_redis_lacks_whatever_the_marks_say),
        FOLDER_TEST(test_fold__draws_a_new_token_after_a_broken_connection),
        FOLDER_TEST(test_take_over__draws_above_what_headers_have),
        FOLDER_TEST(test_fold__needs_every_shard_in_memory),
        FOLDER_TEST(test_fold__stores_nothing_past_a_shard_that_left_memory),
        FOLDER_TEST(test_fold__says_that_a_shard_is_lost),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
