/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_HASH_H
#define SHARD_FILTER_HASH_H
/* Where a key lies. A key has one XXH3-128 hash under the filter's secret seed. Shard and block come from the
 * high half, bit positions from the low half. Multiply-shift maps a half to a range. */
#include <stddef.h>
#include <stdint.h>
#include "shard/filter/geometry.h"

struct key_hash {
    uint64_t high;
    uint64_t low;
};

/* A key's place in one layer. bits[] are positions inside the block, each in [BLOCK_TAG_BITS, block_bits);
 * the same position may occur twice. */
struct key_place {
    uint32_t shard;
    uint32_t block;
    uint16_t bits[GEOMETRY_HASHES_MAX];
};

/* The last part of splitmix64: a bijection. Each bit of the input changes half of the output bits. */
static inline uint64_t hash_scramble(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The next two positions of a key in a block. @state: the low half of the key's hash at first; @range: the
 * number of positions. This is a step of splitmix64, whose output has no visible relation to the seed. */
static inline void hash_two_bits(uint64_t *state, uint64_t range, unsigned *a, unsigned *b)
{
    uint64_t z = hash_scramble(*state += UINT64_C(0x9e3779b97f4a7c15));
    *a = (unsigned)(BLOCK_TAG_BITS + ((z >> 32) * range >> 32));
    *b = (unsigned)(BLOCK_TAG_BITS + ((z & UINT32_MAX) * range >> 32));
}

/* Set shard and block of @place. */
static inline void hash_block(const struct geometry *g, struct key_hash h, struct key_place *place)
{
    __extension__ typedef unsigned __int128 wide;
    /* The low half of the first product is what the choice of the shard left over. It is still spread
     * evenly. */
    wide product = (wide)h.high * g->shards;
    place->shard = (uint32_t)(product >> 64);
    place->block = (uint32_t)(((wide)(uint64_t)product * g->blocks) >> 64);
}

struct key_hash hash_key(uint64_t seed, const void *key, size_t length);

/* Mix a key's hash under the filter's seed with a generation's secret @mix, before hash_place(). It is a
 * bijection for each @mix; 0 leaves the hash as it is. Places under two mixes are independent, so a false
 * positive of one generation is not one of the next. */
struct key_hash hash_mix(struct key_hash h, uint64_t mix);

/* Fill @place: shard, block and g->hashes bits. */
void hash_place(const struct geometry *g, struct key_hash h, struct key_place *place);

/* The tag of a generation's blocks, never 0. It is derived from the incarnation, the filter's escaped name
 * (`struct names`) and the generation's number. */
uint16_t hash_tag(uint64_t incarnation, const char *filter, size_t filter_length, uint64_t generation);
/* Compare by the high half, then by the low one. For qsort() and bsearch(). */
int key_hash_compare(const void *a, const void *b);
#endif
