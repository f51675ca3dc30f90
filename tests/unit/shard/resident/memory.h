/* SPDX-License-Identifier: MIT */
#ifndef TESTS_UNIT_SHARD_RESIDENT_MEMORY_H
#define TESTS_UNIT_SHARD_RESIDENT_MEMORY_H
/* Helpers for tests of shards in memory: hashes of numbered keys, and shards as Redis has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/block.h"
#include "shard/resident/resident.h"

enum { TAG = 0xbee5, MIX = 77 };

static inline struct key_hash hash_of(uint64_t key)
{
    return hash_key(5, &key, sizeof(key));
}

static inline struct key_place place_of(const struct geometry *g, uint64_t key)
{
    struct key_place p;
    hash_place(g, hash_mix(hash_of(key), MIX), &p);
    return p;
}

/* All shards of a layer as in Redis, but without headers. The caller frees them. */
static inline uint8_t *redis_new(const struct geometry *g)
{
    uint8_t *shards = calloc(g->shards, geometry_shard_bytes(g));
    assert_non_null(shards);
    for (uint32_t s = 0; s < g->shards; s++)
        block_fill(g, TAG, shards + (size_t)s * geometry_shard_bytes(g));
    return shards;
}

static inline bool redis_set(const struct geometry *g, uint8_t *shards, uint64_t key)
{
    struct key_place p = place_of(g, key);
    return block_set(g, &p, shards + (size_t)p.shard * geometry_shard_bytes(g));
}

static inline void load_whole(struct bitmap *b, uint32_t shard, const uint8_t *shards)
{
    struct error e = {""};
    const uint8_t *bytes = shards + (size_t)shard * b->shard_bytes;
    if (bitmap_or(b, shard, 0, bytes, b->shard_bytes, &e) != ERR_OK)
        fail_msg("%s", e.text);
}

/* Load all shards of a layer from @shards. */
static inline void load_layer(struct resident *r, unsigned layer, const uint8_t *shards)
{
    struct bitmap *b = r->layer[layer];
    assert_int_equal(resident_load_begin(r, layer, 0, b->geometry.shards, NULL), ERR_OK);
    for (uint32_t s = 0; s < b->geometry.shards; s++) {
        load_whole(b, s, shards);
        assert_int_equal(resident_load_end(r, layer, s, NULL), ERR_OK);
    }
}

static inline uint8_t apply_one_key(struct resident *r, unsigned lane, uint64_t id, uint64_t key)
{
    struct key_hash h = hash_of(key);
    uint8_t added = 99;
    assert_int_equal(resident_apply(r, lane, (struct log_id){id, 0}, &h, 1, &added, NULL), ERR_OK);
    return added;
}

static inline uint8_t look_one_key(const struct resident *r, uint64_t key)
{
    struct key_hash h = hash_of(key);
    uint8_t answer = 99;
    resident_look(r, &h, 1, &answer);
    return answer;
}
#endif
