/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_HASH_H
#define SHARD_FILTER_HASH_H
/* Where a key lies. One XXH3-128 with the generation's secret seed; shard and block come from the high half,
 * bit positions from the low half; ranges by multiply-shift. */
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

/* The last part of splitmix64: a bijection in which each bit of the input changes half of the output. */
static inline uint64_t hash_scramble(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* The next two positions in a block, for a key whose low half @state was at first; @range: of positions. A
 * step of splitmix64, whose output has no visible relation to the seed. */
static inline void hash_two_bits(uint64_t *state, uint64_t range, unsigned *a, unsigned *b)
{
    uint64_t z = hash_scramble(*state += UINT64_C(0x9e3779b97f4a7c15));
    *a = (unsigned)(BLOCK_TAG_BITS + ((z >> 32) * range >> 32));
    *b = (unsigned)(BLOCK_TAG_BITS + ((z & UINT32_MAX) * range >> 32));
}

/* Shard and block of @place. */
static inline void hash_block(const struct geometry *g, struct key_hash h, struct key_place *place)
{
    __extension__ typedef unsigned __int128 wide;
    /* The low half of the first product is what the choice of the shard left unused, still spread evenly. */
    wide product = (wide)h.high * g->shards;
    place->shard = (uint32_t)(product >> 64);
    place->block = (uint32_t)(((wide)(uint64_t)product * g->blocks) >> 64);
}

struct key_hash hash_key(uint64_t seed, const void *key, size_t length);

/* What a generation with the secret @mix makes of a key's hash under the filter's seed, before hash_place():
 * a bijection for each @mix; 0 leaves the hash as it is. Places under two mixes tell nothing of each other,
 * so a false positive of one generation is none of the next. */
struct key_hash hash_mix(struct key_hash h, uint64_t mix);

/* Fill @place: shard, block and the first g->hashes bits. */
void hash_place(const struct geometry *g, struct key_hash h, struct key_place *place);

/* The tag of a generation's blocks, never 0: derived from the incarnation, the filter's name (as in
 * `struct names`, escaped) and the number. */
uint16_t hash_tag(uint64_t incarnation, const char *filter, size_t filter_length, uint64_t generation);
/* Below, equal to or above 0: by the high half, then by the low one. For qsort() and bsearch(). */
int key_hash_compare(const void *a, const void *b);
#endif
