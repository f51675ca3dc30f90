/* SPDX-License-Identifier: MIT */
/* Folding on a real Redis: processes that apply the same entries fold one after the other, wake late, or lose
 * a connection, and what Redis has afterwards is loaded by one that was not there. */
#include "tests/integration/filters.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/block.h"
#include "shard/log/lane_sync.h"
#include "shard/resident/dirty.h"
#include "shard/resident/load.h"
#include "shard/view/folder.h"
#include "shard/view/log_view.h"
#include "shard/view/retain.h"
#include "base/clock.h"
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
    if (servers_start(&servers, 1) != 0)
        return -1;
    if (getenv("TWINBLOOM_TEST_CLUSTER") != NULL) {
        nodes = servers.nodes;
        return 0;
    }
    if (proxy_start(&proxy, &e) != ERR_OK ||
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

static struct key_name shard_name(unsigned layer, uint32_t shard)
{
    struct key_name key;
    names_log_shard(&names, (struct shard_id){GENERATION, layer, shard}, &key);
    return key;
}

static void make_shard(unsigned layer, uint32_t shard)
{
    const struct geometry *shape = &g.layers[layer].geometry;
    uint32_t first = header_bytes(shape), length = header_shard_bytes(shape);
    uint8_t *bytes = calloc(1, length);
    const struct key_name key = shard_name(layer, shard);
    const struct header h = {.tag = hash_tag(names.incarnation, "f", 1, GENERATION),
                             .incarnation = names.incarnation,
                             .generation = GENERATION,
                             .layer = layer,
                             .shard = shard,
                             .blocks = shape->blocks,
                             .block_bits = (uint16_t)shape->block_bits,
                             .hashes = (uint16_t)shape->hashes};
    header_encode(&h, bytes);
    block_fill(shape, h.tag, bytes + first);
    assert_string_equal(servers_text(&servers, 0, "SET %b %b", key.text, key.length, bytes, (size_t)length),
                        "OK");
    free(bytes);
}

static const struct trusted any_era;

/* @count shards from @first on begin to load; all of them were read when this returns. */
static void load_some(struct member *p, struct load *l, unsigned layer, uint32_t first, uint32_t count)
{
    struct error e = {""};
    *l = (struct load){.resident = p->resident,
                       .names = &names,
                       .placement = &p->folder.placement,
                       .generation = GENERATION,
                       .layer = layer,
                       .writer = {.number = UINT64_MAX},
                       .eras = &any_era,
                       .piece_bytes = LOAD_PIECE,
                       .first = first,
                       .count = count};
    must(load_begin(l, &e), e);
    load_by_link(l, p->link);
}

/* All shards into memory, from Redis. */
static void load(struct member *p)
{
    struct load l;
    for (unsigned layer = 0; layer < g.layer_count; layer++) {
        load_some(p, &l, layer, 0, g.layers[layer].geometry.shards);
        assert_int_equal(load_end(&l), g.layers[layer].geometry.shards);
    }
}

static void begin_named(struct member *p, const char *name, unsigned timeout_ms)
{
    struct error e = {""};
    *p = (struct member){0};
    p->link = link_new(&nodes, timeout_ms, name);
    assert_non_null(p->link);
    budget_init(&p->budget, UINT64_MAX);
    must(resident_new(&p->resident, g.seed, 1, &p->budget, &e), e);
    for (unsigned layer = 0; layer < g.layer_count; layer++)
        must(resident_add_layer(p->resident, &g.layers[layer].geometry,
                                hash_tag(names.incarnation, "f", 1, GENERATION), &e),
             e);
    must(folder_init(&p->folder, p->link, &names, &g, p->resident, &e), e);
}

static void begin(struct member *p)
{
    begin_named(p, NULL, LINK_MS);
}

static void end(struct member *p)
{
    folder_fini(&p->folder);
    resident_free(p->resident);
    link_free(p->link);
}

static int setup_layers(unsigned layers)
{
    struct error e = {""};
    if (proxy != NULL)
        proxy_lift(proxy);
    servers_flush(&servers);
    must(names_init(&names, PREFIX, "f", 1, &e), e);
    names.incarnation = 0xabcdef;
    g = (struct generation){.number = GENERATION,
                            .seed = 77,
                            .built = true,
                            .capacity = CAPACITY,
                            .error_rate = 0.01,
                            .layer_count = layers};
    nodes_pin(&nodes, &g);
    for (unsigned layer = 0; layer < layers; layer++) {
        uint64_t capacity = CAPACITY * (layer + 1);
        g.layers[layer] = (struct layer){.capacity = capacity, .error_rate = 0.01, .born_epoch = 1};
        must(geometry_plan(&g.layers[layer].geometry, capacity, 0.01, 8192, &e), e);
    }
    assert_true(g.layers[0].geometry.shards > 2);
    struct log_view *v = calloc(1, sizeof(*v));
    *v = (struct log_view){.incarnation = names.incarnation,
                           .version = 1,
                           .seed = 9,
                           .last_generation = GENERATION,
                           .lane_count = 1,
                           .lane = {{1, ERA}},
                           .eras = {.known = true, .count = 1, .id = {ERA}}};
    v->slot[0].shape = g;
    log_view_format(v, put_field, NULL);
    free(v);
    for (unsigned layer = 0; layer < layers; layer++)
        for (uint32_t s = 0; s < g.layers[layer].geometry.shards; s++)
            make_shard(layer, s);
    for (unsigned i = 0; i < MEMBERS; i++)
        begin(&member[i]);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_layers(1);
}

static int setup_two_layers(void **state)
{
    (void)state;
    return setup_layers(2);
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
        assert_true(lane->needed.some && lane->needed.id.ms >= position);
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

static uint64_t calls(const char *command)
{
    char field[64];
    redisReply *r = servers_command(&servers, 0, "INFO commandstats");
    (void)snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, field);
    uint64_t n = at == NULL ? 0 : strtoull(at + strlen(field), NULL, 10);
    freeReplyObject(r);
    return n;
}

static uint64_t writes(void)
{
    return calls("setrange");
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

/* --- shards that are not whole in memory --- */

static void test_fold__writes_what_the_overlay_has_of_shards_that_are_not_there(void **state)
{
    (void)state;
    apply(&member[0], 0, 5000);
    assert_true(missing(0, 5000) > 4500);
    folds(&member[0], 3000);
    assert_int_equal(missing(0, 3000), 0);
    assert_true(missing(3000, 5000) > 1500); /* only up to the position */
    assert_int_equal(folded(), 3000);
    uint64_t written = writes(), read = calls("getrange");
    folds(&member[0], 3000);
    assert_int_equal(writes(), written);
    assert_int_equal(calls("getrange"), read); /* what was folded is not looked at again */
    folds(&member[0], 5000);
    assert_int_equal(missing(0, 5000), 0);
    written = writes();
    apply(&member[1], 0, 5000);
    folds(&member[1], 5000);
    assert_true(writes() - written <= g.layers[0].geometry.shards); /* headers: Redis had all these bits */
}

/* Of a hundred keys in one block that all come in one batch, or in several, none overwrites another. */
static void test_fold__writes_many_keys_of_one_block(void **state)
{
    (void)state;
    apply(&member[0], 0, 20000); /* more than one batch, some fifty in each block */
    folds(&member[0], 20000);
    assert_int_equal(missing(0, 20000), 0);
}

/* Some are there, some are not, one is loading; entries come before and in between. */
static void test_fold__writes_each_shard_in_its_way(void **state)
{
    (void)state;
    struct load l;
    apply(&member[0], 0, 1000);
    load_some(&member[0], &l, 0, 0, 1);
    assert_int_equal(load_end(&l), 1);
    apply(&member[0], 1000, 2000);
    load_some(&member[0], &l, 0, 1, 1);
    apply(&member[0], 2000, 3000);
    folds(&member[0], 3000);
    assert_int_equal(missing(0, 3000), 0);
    apply(&member[0], 3000, 4000);
    assert_int_equal(load_end(&l), 1);
    apply(&member[0], 4000, 5000);
    folds(&member[0], 5000);
    assert_int_equal(missing(0, 5000), 0);
    assert_int_equal(folded(), 5000);
}

static void test_fold__writes_into_all_layers(void **state)
{
    (void)state;
    struct load l;
    load_some(&member[0], &l, 1, 1, 1);
    assert_int_equal(load_end(&l), 1);
    apply(&member[0], 0, 5000);
    folds(&member[0], 5000);
    assert_int_equal(missing(0, 5000), 0);
}

/* What goes into a layer that the folder's view has not is not in Redis, until the view has it. */
static void test_fold__needs_the_layers_that_memory_has(void **state)
{
    (void)state;
    struct error e = {""};
    g.layer_count = 1; /* there are shards of two */
    struct member p;
    begin(&p);
    apply(&p, 0, 1000);
    folds(&p, 1000);
    uint16_t tag = hash_tag(names.incarnation, "f", 1, GENERATION);
    must(resident_add_layer(p.resident, &g.layers[1].geometry, tag, &e), e);
    apply(&p, 1000, 2000);
    gives(ERR_CONFLICT, fold_to(&p, 2000, &e), e);
    assert_non_null(strstr(e.text, "load the view again"));
    assert_int_equal(folded(), 1000);
    g.layer_count = 2;
    folds(&p, 2000);
    assert_int_equal(missing(0, 2000), 0);
    end(&p);
}

/* It was read before another one wrote into it. Its pages are joined before the first of them is written. */
static void test_take_over__while_a_shard_loads_reads_it_when_it_is_whole(void **state)
{
    (void)state;
    struct load l;
    uint32_t shards = g.layers[0].geometry.shards;
    load_some(&member[0], &l, 0, 0, shards); /* all was read, and nothing was there */
    apply(&member[1], 0, 3000);
    folds(&member[1], 3000);
    apply(&member[0], 0, 100);
    folds(&member[0], 100);
    assert_int_equal(load_end(&l), shards);
    apply(&member[0], 100, 200);
    folds(&member[0], 200);
    assert_int_equal(missing(0, 3000), 0);
    assert_int_equal(folded(), 3000);
}

/* One has all shards in memory, the other has none; either lags behind at times. */
static void test_take_over__by_turns_loses_nothing(void **state)
{
    (void)state;
    static const unsigned reach[][2] = {{300, 100},   {400, 900},   {1200, 1100}, {1300, 2500},
                                        {2600, 2600}, {3000, 2700}, {3100, 4000}, {4100, 4100}};
    uint64_t most = 0, at[2] = {0};
    load(&member[0]);
    for (unsigned i = 0; i < sizeof(reach) / sizeof(reach[0]); i++)
        for (unsigned who = 0; who < 2; who++) {
            uint64_t to = reach[i][who];
            apply(&member[who], at[who], to);
            at[who] = to;
            member[who].folder.took_over = false;
            folds(&member[who], to);
            most = to > most ? to : most;
            assert_int_equal(folded(), most);
            assert_int_equal(missing(0, most), 0);
        }
}

static void test_fold__by_keys_of_one_that_was_taken_over_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[1], 0, 1000);
    folds(&member[1], 1000);
    apply(&member[0], 1000, 2000);
    uint64_t before = writes();
    gives(ERR_FENCED, fold_to(&member[0], 2000, &e), e);
    assert_int_equal(writes(), before);
    assert_int_equal(folded(), 1000);
    folds(&member[0], 2000); /* it takes over */
    assert_int_equal(missing(0, 2000), 0);
}

/* Nothing of it changes a block: who is taken over stores no position all the same. */
static void test_fold__of_nothing_new_by_one_that_was_taken_over_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[1], 0, 2000);
    folds(&member[1], 1500);
    gives(ERR_FENCED, fold_to(&member[0], 1600, &e), e);
    assert_int_equal(folded(), 1500);
}

/* How many blocks the keys lie in: what is read before anything is written. */
static unsigned blocks_of(uint64_t first, uint64_t last)
{
    static bool seen[64][4096];
    unsigned n = 0;
    memset(seen, 0, sizeof(seen));
    for (uint64_t i = first; i < last; i++) {
        struct key_place p;
        hash_place(&g.layers[0].geometry, hash_mix(key(i), g.seed), &p);
        n += !seen[p.shard][p.block];
        seen[p.shard][p.block] = true;
    }
    return n;
}

/* Blocks that were read before another one wrote into them are on their way, and come behind that. */
static void test_fold__by_keys_that_is_executed_late_is_refused(void **state)
{
    (void)state;
    struct error e = {""};
    struct member held;
    proxy_count_as_job(proxy, "held");
    begin_named(&held, "held", 500);
    apply(&held, 0, 1000);
    folds(&held, 1000);
    apply(&held, 1000, 1100);
    proxy_count(proxy, "", blocks_of(1000, 1100) + 1, PROXY_BEFORE);
    uint64_t before = writes();
    gives(ERR_TIMEOUT, fold_to(&held, 1100, &e), e);
    assert_true(proxy_is_held(proxy));
    assert_int_equal(writes(), before);
    apply(&member[1], 0, 2000);
    folds(&member[1], 2000);
    uint64_t scripts = calls("eval");
    proxy_release(proxy, true);
    for (unsigned i = 0; i < 200 && calls("eval") == scripts; i++)
        clock_sleep_us(10 * 1000);
    assert_true(calls("eval") > scripts); /* it came */
    clock_sleep_us(100 * 1000);
    assert_int_equal(missing(0, 2000), 0);
    apply(&held, 1100, 2100); /* it goes on by a new token */
    folds(&held, 2100);
    assert_int_equal(missing(0, 2100), 0);
    end(&held);
}

/* After a broken connection at each of the last requests, which write blocks and store the position; what was
 * withheld is executed late, or never. */
static void test_fold__by_keys_goes_on_after_a_broken_connection(void **state)
{
    (void)state;
    struct error e = {""};
    struct member broken;
    unsigned failures = 0, scripts = g.layers[0].geometry.shards + 1;
    proxy_count_as_job(proxy, "broken");
    begin_named(&broken, "broken", 300);
    uint64_t at = 0;
    folds(&broken, 0);
    for (unsigned n = 0; n <= scripts; n++)
        for (unsigned way = 0; way < 3; way++, at += 100) {
            apply(&broken, at, at + 100);
            proxy_count(proxy, "", blocks_of(at, at + 100) + n, way == 0 ? PROXY_AFTER : PROXY_BEFORE);
            enum err code = fold_to(&broken, at + 100, &e);
            proxy_release(proxy, way == 1);
            assert_true(code == ERR_OK || code == ERR_TIMEOUT || code == ERR_UNREACHABLE);
            failures += code != ERR_OK;
            folds(&broken, at + 100);
            assert_int_equal(missing(0, at + 100), 0);
        }
    assert_true(failures >= scripts);
    end(&broken);
}

/* --- shards leave --- */

/* What only its memory had is folded before it has left, what came later is in the overlay. */
static void test_fold__of_a_shard_that_leaves(void **state)
{
    (void)state;
    struct resident *r = member[0].resident;
    load(&member[0]);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[0], 1000, 2000);
    resident_leave_begin(r, 0, 1);
    apply(&member[0], 2000, 3000);
    assert_false(resident_leave_end(r, 0, 1));
    folds(&member[0], 3000);
    assert_int_equal(missing(0, 3000), 0);
    overlay_folded(r->overlay, &(struct log_id){3000, 0});
    apply(&member[0], 3000, 4000);
    assert_true(resident_leave_end(r, 0, 1));
    apply(&member[0], 4000, 5000);
    folds(&member[0], 5000);
    assert_int_equal(missing(0, 5000), 0);
    assert_int_equal(folded(), 5000);
}

struct folding {
    struct member *p;
    uint64_t position;
    enum err code;
    struct error e;
};

static void *fold_beside(void *arg)
{
    struct folding *f = arg;
    f->code = fold_to(f->p, f->position, &f->e);
    return NULL;
}

/* The fold has begun, and waits for replies; it has not come to the shard yet. */
static void test_fold__of_a_shard_that_has_left_when_its_turn_comes(void **state)
{
    (void)state;
    unsigned layer = g.layer_count - 1;
    uint32_t last = g.layers[layer].geometry.shards - 1;
    struct member p;
    pthread_t thread;
    assert_true(g.layers[0].geometry.shards + last > 8); /* scripts under way before its own */
    proxy_count_as_job(proxy, "folds");
    begin_named(&p, "folds", 20 * 1000);
    struct folding f = {.p = &p, .position = 3000};
    load(&p);
    apply(&p, 0, 2000);
    resident_leave_begin(p.resident, layer, last);
    folds(&p, 2000);
    apply(&p, 2000, 3000);
    for (unsigned l = 0; l <= layer; l++)
        for (uint32_t s = 0; s < g.layers[l].geometry.shards; s++)
            dirty_mark_all(p.resident->layer[l], s);
    proxy_count(proxy, "", 1, PROXY_BEFORE);
    assert_int_equal(pthread_create(&thread, NULL, fold_beside, &f), 0);
    for (unsigned i = 0; i < 1000 && !proxy_is_held(proxy); i++)
        clock_sleep_us(10 * 1000);
    assert_true(proxy_is_held(proxy));
    clock_sleep_us(50 * 1000);
    overlay_folded(p.resident->overlay, &(struct log_id){2000, 0});
    assert_true(resident_leave_end(p.resident, layer, last));
    proxy_release(proxy, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    must(f.code, f.e);
    assert_int_equal(missing(0, 3000), 0);
    assert_int_equal(folded(), 3000);
    end(&p);
}

/* Shards come and go all the time, and entries are applied: no fold fails for that. */
static struct {
    struct member *p;
    struct link *link;
    _Atomic uint64_t applied;
    _Atomic bool ended;
    _Atomic unsigned moved, failed;
} busy;

static void *move_shards(void *arg)
{
    (void)arg;
    struct load l;
    struct member reader = *busy.p;
    reader.link = busy.link;
    for (uint32_t s = 0; !busy.ended; s = (s + 1) % g.layers[0].geometry.shards) {
        resident_leave_begin(reader.resident, 0, s);
        while (!resident_leave_end(reader.resident, 0, s) && !busy.ended)
            clock_sleep_us(100);
        if (busy.ended)
            break;
        l = (struct load){.resident = reader.resident,
                          .names = &names,
                          .placement = &busy.p->folder.placement,
                          .generation = GENERATION,
                          .writer = {.number = UINT64_MAX},
                          .eras = &any_era,
                          .piece_bytes = 4096,
                          .first = s,
                          .count = 1};
        if (load_begin(&l, NULL) != ERR_OK)
            busy.failed++;
        load_by_link(&l, reader.link);
        busy.failed += load_end(&l) != 1;
        busy.moved++;
    }
    return NULL;
}

/* Slowly, and no more keys than leave most bits unset. */
static void *apply_keys(void *arg)
{
    enum { AT_ONCE = 5 };
    (void)arg;
    struct key_hash keys[AT_ONCE];
    uint8_t added[AT_ONCE];
    for (uint64_t at = 0; !busy.ended; at += AT_ONCE) {
        for (unsigned i = 0; i < AT_ONCE; i++)
            keys[i] = key(at + i);
        if (resident_apply(busy.p->resident, 0, (struct log_id){at + AT_ONCE, 0}, keys, AT_ONCE, added,
                           NULL) != ERR_OK)
            busy.failed++;
        busy.applied = at + AT_ONCE;
        clock_sleep_us(at < CAPACITY ? 500 : 20 * 1000);
    }
    return NULL;
}

static void test_fold__goes_on_while_shards_come_and_go(void **state)
{
    (void)state;
    struct error e = {""};
    pthread_t mover, applier;
    memset(&busy, 0, sizeof(busy));
    busy.p = &member[0];
    busy.link = link_new(&nodes, LINK_MS, NULL);
    load(&member[0]);
    assert_int_equal(pthread_create(&mover, NULL, move_shards, NULL), 0);
    assert_int_equal(pthread_create(&applier, NULL, apply_keys, NULL), 0);
    unsigned folds_made = 0, taken_over = 0;
    enum err code = ERR_OK;
    uint64_t deadline = clock_mono_us() + UINT64_C(60) * 1000 * 1000;
    while (code == ERR_OK && (folds_made < 200 || busy.moved < 20) && clock_mono_us() < deadline) {
        uint64_t to = busy.applied;
        if (to == 0)
            continue;
        if (++folds_made % 16 == 7) {
            member[0].folder.took_over = false;
            taken_over++;
        }
        code = fold_to(&member[0], to, &e);
        if (code == ERR_OK)
            overlay_folded(member[0].resident->overlay, &(struct log_id){to, 0});
    }
    busy.ended = true;
    assert_int_equal(pthread_join(mover, NULL), 0);
    assert_int_equal(pthread_join(applier, NULL), 0);
    must(code, e);
    folds(&member[0], busy.applied);
    print_message("folds %u, take-overs %u, shards moved %u, keys %llu\n", folds_made, taken_over, busy.moved,
                  (unsigned long long)busy.applied);
    assert_int_equal(busy.failed, 0);
    assert_true(busy.moved >= 20);
    assert_int_equal(missing(0, busy.applied), 0);
    link_free(busy.link);
}

/* --- shards that are lost --- */

static void says_that_shard_1_is_lost(struct member *p, uint64_t position)
{
    struct error e = {""};
    char text[KEY_NAME_MAX + 1];
    struct key_name name = shard_name(0, 1);
    (void)snprintf(text, sizeof(text), "%.*s", (int)name.length, name.text);
    gives(ERR_LOST, fold_to(p, position, &e), e);
    assert_non_null(strstr(e.text, text));
    assert_int_equal(servers_integer(&servers, 0, "EXISTS %b", name.text, name.length), 0);
}

/* Keys below @last that are missing, but for those that lie in shard 1. */
static uint64_t missing_elsewhere(uint64_t last)
{
    uint64_t n = 0;
    struct member late;
    struct load l;
    uint32_t shards = g.layers[0].geometry.shards;
    begin(&late);
    load_some(&late, &l, 0, 0, shards);
    assert_int_equal(load_end(&l), shards - 1);
    for (uint64_t i = 0; i < last; i++) {
        struct key_hash h = key(i);
        struct key_place p;
        uint8_t answer;
        hash_place(&g.layers[0].geometry, hash_mix(h, g.seed), &p);
        resident_look(late.resident, &h, 1, &answer);
        n += p.shard != 1 && answer != RESIDENT_PRESENT;
    }
    end(&late);
    return n;
}

static void lose_a_shard(struct member *p, bool takes_over)
{
    struct key_name name = shard_name(0, 1);
    apply(p, 0, 1000);
    folds(p, 1000);
    apply(p, 1000, 2000);
    assert_int_equal(servers_integer(&servers, 0, "DEL %b", name.text, name.length), 1);
    says_that_shard_1_is_lost(p, 2000);
    assert_int_equal(missing_elsewhere(2000), 0); /* the others are folded */
    assert_int_equal(folded(), 1000);
    apply(p, 2000, 3000);
    says_that_shard_1_is_lost(p, 3000); /* again and again */
    p->folder.took_over = !takes_over;
    says_that_shard_1_is_lost(p, 3000);
    assert_int_equal(missing_elsewhere(3000), 0);
    make_shard(0, 1); /* somebody has made it anew */
    folds(p, 3000);
    assert_int_equal(missing(0, 3000), 0);
    assert_int_equal(folded(), 3000);
}

static void test_fold__says_that_a_shard_is_lost_and_folds_the_others(void **state)
{
    (void)state;
    load(&member[0]);
    lose_a_shard(&member[0], true);
}

static void test_fold__by_keys_says_that_a_shard_is_lost_and_folds_the_others(void **state)
{
    (void)state;
    lose_a_shard(&member[0], false);
}

/* --- no memory in Redis --- */

static void test_fold__goes_on_at_maxmemory(void **state)
{
    (void)state;
    struct error e = {""};
    struct load l;
    load_some(&member[0], &l, 0, 0, 1); /* one in each way */
    assert_int_equal(load_end(&l), 1);
    apply(&member[0], 0, 1000);
    folds(&member[0], 1000);
    apply(&member[0], 1000, 2000);
    apply(&member[1], 0, 3000);
    assert_string_equal(servers_text(&servers, 0, "CONFIG SET maxmemory 1"), "OK");
    redisReply *refused = servers_command(&servers, 0, "SET x y");
    assert_int_equal(refused->type, REDIS_REPLY_ERROR);
    freeReplyObject(refused);
    enum err code = fold_to(&member[0], 2000, &e);
    if (code == ERR_OK)
        code = fold_to(&member[1], 3000, &e);
    assert_string_equal(servers_text(&servers, 0, "CONFIG SET maxmemory 0"), "OK");
    must(code, e);
    assert_int_equal(missing(0, 3000), 0);
}

/* --- with a lane: fold, then trim --- */

static enum err apply_record(void *arg, const struct tail_record *record, struct error *e)
{
    struct member *p = arg;
    struct key_hash keys[LOG_KEYS_MAX];
    uint8_t added[LOG_KEYS_MAX];
    for (unsigned i = 0; i < record->entry.count; i++)
        keys[i] = log_entry_hash(&record->entry, i);
    return resident_apply(p->resident, 0, record->id, keys, record->entry.count, added, e);
}

/* A lane that the view names. */
static void make_lane(struct lane *lane, struct log_position *anchor)
{
    struct error e = {""};
    char text[40];
    uint8_t writer[LOG_WRITER_BYTES] = {7};
    *lane = (struct lane){0};
    lane_key(&lane->key, &names, 0, 1);
    lane->where = link_home(member[0].link, &names);
    must(lane_make(member[0].link, lane, writer, 1, anchor, &e), e);
    (void)snprintf(text, sizeof(text), "1:%016" PRIx64, lane->era);
    put_field(NULL, "lanes", text);
}

/* Entries of the keys [first, last) into the lane, and all that is there into memory. */
static void add(struct member *p, const struct lane *lane, struct log_position *at, uint64_t first,
                uint64_t last)
{
    struct error e = {""};
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct key_hash keys[ENTRY_KEYS];
    enum tail_state state = TAIL_MORE;
    for (uint64_t i = first; i < last; i += ENTRY_KEYS) {
        for (unsigned k = 0; k < ENTRY_KEYS; k++)
            keys[k] = key(i + k);
        size_t length = log_entry_encode(bytes, writer, 2 + i, keys, ENTRY_KEYS);
        must(lane_append(p->link, lane, at, bytes, length, LINK_MS, apply_record, p, &state, &e), e);
        assert_true(state == TAIL_COMPLETE);
    }
}

static void fold_lane(struct member *p, const struct lane *lane, const struct log_position *at,
                      struct fold_bound *needed)
{
    struct error e = {""};
    struct folder_lane *l = calloc(1, sizeof(*l));
    l->number = 1;
    l->era = lane->era;
    l->position = *at;
    enum err code = folder_fold(&p->folder, l, 1, &e);
    *needed = l->needed;
    free(l);
    must(code, e);
}

static enum tail_state read_from(struct member *p, const struct lane *lane, struct log_position at)
{
    struct error e = {""};
    enum tail_state state = TAIL_MORE;
    while (state == TAIL_MORE)
        must(lane_read(p->link, lane, &at, apply_record, p, &state, &e), e);
    return state;
}

/* Fold by fold, each a second behind the one before: what is older than ten seconds goes. Whoever loads the
 * shards finds in the lane what they have not, and whoever lags by less finds its place. */
static void test_trim__follows_what_is_folded(void **state)
{
    (void)state;
    enum { ROUNDS = 40, KEPT_S = 10, ROUND_KEYS = 600 };
    struct error e = {""};
    struct lane lane;
    static struct log_position at, anchor, of_round[ROUNDS];
    struct retain r;
    struct fold_bound needed;
    struct lane_trimmed trimmed = {0};
    uint64_t bytes = 0, removed = 0;
    make_lane(&lane, &anchor);
    at = anchor;
    retain_init(&r, UINT64_C(1000) * 1000 * KEPT_S, 1 << 20, 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t now = UINT64_C(1000) * 1000 * (100 + i);
        add(&member[0], &lane, &at, (uint64_t)i * ROUND_KEYS, (uint64_t)(i + 1) * ROUND_KEYS);
        bytes += ROUND_KEYS * LOG_HASH_BYTES;
        fold_lane(&member[0], &lane, &at, &needed);
        assert_true(needed.some && log_id_compare(needed.id, at.id) == 0);
        of_round[i] = at;
        retain_note(&r, now, bytes, &at);
        const struct log_mark *keep = retain_bound(&r, now, bytes, &needed);
        assert_true((keep != NULL) == (i >= KEPT_S));
        if (keep == NULL)
            continue;
        assert_int_equal(log_id_compare(keep->id, of_round[i - KEPT_S].id), 0);
        must(lane_trim(member[0].link, &lane, keep, &trimmed, &e), e);
        assert_true(trimmed.met);
        retain_trimmed(&r, keep);
        removed += trimmed.removed;
    }
    assert_true(removed > 0 && trimmed.bytes > 0);
    assert_int_equal(read_from(&member[1], &lane, anchor), TAIL_GAP);
    assert_int_equal(read_from(&member[1], &lane, of_round[ROUNDS - 1 - KEPT_S]), TAIL_COMPLETE);
    add(&member[0], &lane, &at, ROUNDS * ROUND_KEYS, (ROUNDS + 1) * ROUND_KEYS); /* not folded */
    load(&member[2]);
    assert_int_equal(read_from(&member[2], &lane, of_round[ROUNDS - 1]), TAIL_COMPLETE);
    for (uint64_t i = 0; i < (ROUNDS + 1) * ROUND_KEYS; i++) {
        struct key_hash h = key(i);
        uint8_t answer;
        resident_look(member[2].resident, &h, 1, &answer);
        assert_int_equal(answer, RESIDENT_PRESENT);
    }
}

#define FOLDER_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest all[] = {
        FOLDER_TEST(test_take_over__by_one_that_lags_loses_nothing),
        FOLDER_TEST(test_fold__of_one_that_was_taken_over_is_refused_and_kept),
        FOLDER_TEST(test_take_over__writes_what_redis_lacks_whatever_the_marks_say),
        FOLDER_TEST(test_take_over__draws_above_what_headers_have),
        FOLDER_TEST(test_fold__writes_many_keys_of_one_block),
        FOLDER_TEST(test_fold__writes_each_shard_in_its_way),
        cmocka_unit_test_setup_teardown(test_fold__writes_into_all_layers, setup_two_layers, teardown),
        cmocka_unit_test_setup_teardown(test_fold__needs_the_layers_that_memory_has, setup_two_layers,
                                        teardown),
        FOLDER_TEST(test_take_over__while_a_shard_loads_reads_it_when_it_is_whole),
        FOLDER_TEST(test_take_over__by_turns_loses_nothing),
        FOLDER_TEST(test_fold__of_nothing_new_by_one_that_was_taken_over_is_refused),
        FOLDER_TEST(test_fold__of_a_shard_that_leaves),
        FOLDER_TEST(test_fold__goes_on_while_shards_come_and_go),
        FOLDER_TEST(test_fold__says_that_a_shard_is_lost_and_folds_the_others),
        FOLDER_TEST(test_fold__by_keys_says_that_a_shard_is_lost_and_folds_the_others),
        FOLDER_TEST(test_trim__follows_what_is_folded),
    };
    const struct CMUnitTest single[] = {
        FOLDER_TEST(test_fold__brings_what_was_applied_to_redis),
        FOLDER_TEST(test_fold__draws_a_new_token_after_a_broken_connection),
        FOLDER_TEST(test_fold__writes_what_the_overlay_has_of_shards_that_are_not_there),
        FOLDER_TEST(test_fold__by_keys_of_one_that_was_taken_over_is_refused),
        FOLDER_TEST(test_fold__by_keys_that_is_executed_late_is_refused),
        FOLDER_TEST(test_fold__by_keys_goes_on_after_a_broken_connection),
        cmocka_unit_test_setup_teardown(test_fold__of_a_shard_that_has_left_when_its_turn_comes,
                                        setup_two_layers, teardown),
        FOLDER_TEST(test_fold__goes_on_at_maxmemory),
    };
    int failed = cmocka_run_group_tests_name("folder", all, start, stop);
    if (getenv("TWINBLOOM_TEST_CLUSTER") == NULL) /* one server, behind a proxy */
        failed += cmocka_run_group_tests_name("folder, one server", single, start, stop);
    return failed;
}
