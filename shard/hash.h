/* SPDX-License-Identifier: MIT */
#ifndef SHARD_HASH_H
#define SHARD_HASH_H
/* Where a key lies. One XXH3-128 with the generation's secret seed; shard and block come from the high half,
 * bit positions from the low half; ranges by multiply-shift. */
#include <stddef.h>
#include <stdint.h>
#include "shard/geometry.h"

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
