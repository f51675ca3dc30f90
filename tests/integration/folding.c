/* SPDX-License-Identifier: MIT */
#include "tests/integration/folding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/filter/block.h"
#include "shard/view/shards.h"

struct servers folding_servers;
struct proxy *folding_proxy;
unsigned folding_route;
struct nodes folding_nodes;
struct names folding_names;
struct generation folding_g;
struct folding_member folding_member[MEMBERS];

int folding_start(void **state)
{
    (void)state;
    char text[48];
    uint16_t port;
    struct error e = {""};
    if (servers_start(&folding_servers, 1) != 0)
        return -1;
    if (getenv("TWINBLOOM_TEST_CLUSTER") != NULL) {
        folding_nodes = folding_servers.nodes;
        return 0;
    }
    if (proxy_start(&folding_proxy, &e) != ERR_OK ||
        proxy_add(folding_proxy, WIRE_REDIS, folding_servers.redis[0].port, &folding_route, &port, &e) !=
            ERR_OK)
        return -1;
    (void)snprintf(text, sizeof(text), "redis://127.0.0.1:%u", port);
    return nodes_parse(&folding_nodes, text, &e) == ERR_OK ? 0 : -1;
}

int folding_stop(void **state)
{
    (void)state;
    proxy_stop(folding_proxy);
    return servers_stop(&folding_servers);
}

void folding_put_field(void *arg, const char *name, const char *value)
{
    (void)arg;
    struct key_name key;
    names_filter_key(&folding_names, "view", &key);
    (void)servers_integer(&folding_servers, 0, "HSET %b %s %s", key.text, key.length, name, value);
}

struct key_name folding_shard_name(unsigned layer, uint32_t shard)
{
    struct key_name key;
    names_log_shard(&folding_names, (struct shard_id){GENERATION, layer, shard}, &key);
    return key;
}

void folding_make_shard(unsigned layer, uint32_t shard)
{
    const struct geometry *shape = &folding_g.layers[layer].geometry;
    uint32_t first = header_bytes(shape), length = header_shard_bytes(shape);
    uint8_t *bytes = calloc(1, length);
    const struct key_name key = folding_shard_name(layer, shard);
    const struct header h = {.tag = hash_tag(folding_names.incarnation, "f", 1, GENERATION),
                             .incarnation = folding_names.incarnation,
                             .generation = GENERATION,
                             .layer = layer,
                             .shard = shard,
                             .blocks = shape->blocks,
                             .block_bits = (uint16_t)shape->block_bits,
                             .hashes = (uint16_t)shape->hashes};
    header_encode(&h, bytes);
    block_fill(shape, h.tag, bytes + first);
    assert_string_equal(
        servers_text(&folding_servers, 0, "SET %b %b", key.text, key.length, bytes, (size_t)length), "OK");
    free(bytes);
}

/* Begin to load @count shards from @first on. All of them have been read when this returns. */
void folding_load_some(struct folding_member *p, struct load *l, unsigned layer, uint32_t first,
                       uint32_t count)
{
    struct error e = {""};
    static struct trusted eras;
    must(shards_eras(p->link, &folding_names, &folding_g, &eras, &e), e);
    *l = (struct load){.resident = p->resident,
                       .names = &folding_names,
                       .placement = &p->folder.fold.placement,
                       .generation = GENERATION,
                       .layer = layer,
                       .writer = {.number = UINT64_MAX},
                       .eras = &eras,
                       .first = first,
                       .count = count};
    must(load_begin(l, &e), e);
    load_and_wait(l, p->link);
}

/* Load all shards from Redis. */
void folding_load(struct folding_member *p)
{
    struct load l;
    for (unsigned layer = 0; layer < folding_g.layer_count; layer++) {
        folding_load_some(p, &l, layer, 0, folding_g.layers[layer].geometry.shards);
        assert_int_equal(load_end(&l), folding_g.layers[layer].geometry.shards);
    }
}

void folding_begin_named(struct folding_member *p, const char *name, unsigned timeout_ms)
{
    struct error e = {""};
    *p = (struct folding_member){0};
    p->link = sync_client_new(&folding_nodes, timeout_ms, name);
    assert_non_null(p->link);
    budget_init(&p->budget, UINT64_MAX);
    must(resident_new(&p->resident, folding_g.seed, 1, &p->budget, &e), e);
    for (unsigned layer = 0; layer < folding_g.layer_count; layer++)
        must(resident_add_layer(p->resident, &folding_g.layers[layer].geometry,
                                hash_tag(folding_names.incarnation, "f", 1, GENERATION), &e),
             e);
    resident_begin(p->resident, 0, (struct log_id){0}, folding_g.layer_count);
    must(folder_init(&p->folder, p->link, &folding_names, &folding_g, p->resident, &e), e);
}

void folding_begin(struct folding_member *p)
{
    folding_begin_named(p, NULL, SYNC_CLIENT_MS);
}

void folding_end(struct folding_member *p)
{
    folder_fini(&p->folder);
    resident_free(p->resident);
    sync_client_free(p->link);
}

static int setup_layers(unsigned layers)
{
    struct error e = {""};
    if (folding_proxy != NULL)
        proxy_lift(folding_proxy);
    servers_flush(&folding_servers);
    must(names_init(&folding_names, PREFIX, "f", 1, &e), e);
    folding_names.incarnation = 0xabcdef;
    folding_g = (struct generation){.number = GENERATION,
                                    .seed = 77,
                                    .built = true,
                                    .capacity = CAPACITY,
                                    .error_rate = 0.01,
                                    .layer_count = layers};
    nodes_pin(&folding_nodes, &folding_g);
    for (unsigned layer = 0; layer < layers; layer++) {
        uint64_t capacity = CAPACITY * (layer + 1);
        const struct geometry geometry = {
            .shards = 5, .blocks = 39 * (layer + 1), .block_bits = 1024, .hashes = 7};
        assert_true(geometry_rate(&geometry, capacity) <= 0.01);
        folding_g.layers[layer] =
            (struct layer){.geometry = geometry, .capacity = capacity, .error_rate = 0.01};
    }
    assert_true(folding_g.layers[0].geometry.shards > 2);
    struct log_view *v = calloc(1, sizeof(*v));
    *v = (struct log_view){.incarnation = folding_names.incarnation,
                           .version = 1,
                           .seed = 9,
                           .last_generation = GENERATION,
                           .lane_count = 1,
                           .lane = {{1, ERA}},
                           .eras = {.count = 1, .id = {ERA}}};
    v->slot[0].shape = folding_g;
    log_view_format(v, folding_put_field, NULL);
    free(v);
    for (unsigned layer = 0; layer < layers; layer++)
        for (uint32_t s = 0; s < folding_g.layers[layer].geometry.shards; s++)
            folding_make_shard(layer, s);
    for (unsigned i = 0; i < MEMBERS; i++)
        folding_begin(&folding_member[i]);
    return 0;
}

int folding_setup(void **state)
{
    (void)state;
    return setup_layers(1);
}

int folding_setup_two_layers(void **state)
{
    (void)state;
    return setup_layers(2);
}

int folding_teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < MEMBERS; i++)
        folding_end(&folding_member[i]);
    return 0;
}

struct key_hash folding_key(uint64_t i)
{
    return hash_key(9, &i, sizeof(i));
}

/* Apply entries of the keys [first, last); both numbers are multiples of ENTRY_KEYS. */
void folding_apply(struct folding_member *p, uint64_t first, uint64_t last)
{
    struct error e = {""};
    struct key_hash keys[ENTRY_KEYS];
    uint8_t added[ENTRY_KEYS];
    for (uint64_t at = first; at < last; at += ENTRY_KEYS) {
        for (unsigned i = 0; i < ENTRY_KEYS; i++)
            keys[i] = folding_key(at + i);
        must(resident_apply(p->resident, 0, (struct log_id){at + ENTRY_KEYS, 0}, keys, ENTRY_KEYS, added, &e),
             e);
    }
}

enum err folding_fold_to(struct folding_member *p, uint64_t position, struct error *e)
{
    uint8_t bytes[LOG_ENTRY_BYTES_MAX], writer[LOG_WRITER_BYTES] = {7};
    struct folder_lane *lane = calloc(1, sizeof(*lane));
    lane->number = 1;
    lane->era = ERA;
    lane->layers = p->resident->begun[0];
    log_position_set(&lane->position, (struct log_id){position, 0}, bytes,
                     log_entry_encode(bytes, writer, position, NULL, 0));
    enum err code = folder_fold(&p->folder, lane, 1, e);
    if (code == ERR_OK)
        assert_true(lane->needed.some && lane->needed.id.ms >= position);
    free(lane);
    return code;
}

void folding_folds(struct folding_member *p, uint64_t position)
{
    struct error e = {""};
    must(folding_fold_to(p, position, &e), e);
}

/* A new member loads the shards from Redis. */
uint64_t folding_missing(uint64_t first, uint64_t last)
{
    struct folding_member late;
    uint64_t n = 0;
    folding_begin(&late);
    folding_load(&late);
    for (uint64_t i = first; i < last; i++) {
        struct key_hash h = folding_key(i);
        uint8_t answer;
        resident_look(late.resident, &h, 1, &answer);
        n += answer != RESIDENT_PRESENT;
    }
    folding_end(&late);
    return n;
}

const char *folding_field(const char *name)
{
    struct key_name key;
    names_filter_key(&folding_names, "view", &key);
    return servers_text(&folding_servers, 0, "HGET %b %s", key.text, key.length, name);
}

uint64_t folding_folded(void)
{
    const char *text = folding_field("folded0.0");
    const char *blank = strchr(text, ' ');
    return blank == NULL ? 0 : strtoull(blank, NULL, 10);
}

uint64_t folding_calls(const char *command)
{
    char field[64];
    redisReply *r = servers_command(&folding_servers, 0, "INFO commandstats");
    (void)snprintf(field, sizeof(field), "cmdstat_%s:calls=", command);
    const char *at = strstr(r->str, field);
    uint64_t n = at == NULL ? 0 : strtoull(at + strlen(field), NULL, 10);
    freeReplyObject(r);
    return n;
}

uint64_t folding_writes(void)
{
    return folding_calls("setrange");
}
