/* SPDX-License-Identifier: MIT */
#include "shard/filter/hash.h"

#include <endian.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(GEOMETRY_HASHES_MAX % 2 == 0, "positions are written in pairs");

struct key_hash hash_key(uint64_t seed, const void *key, size_t length)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(key, length, seed);
    return (struct key_hash){.high = h.high64, .low = h.low64};
}

/* Two rounds of a Feistel network: each half is changed by a function of the other, so each round can be
 * undone. */
struct key_hash hash_mix(struct key_hash h, uint64_t mix)
{
    if (mix == 0)
        return h;
    h.low ^= h.high;
    h.high ^= hash_scramble(h.low ^ mix);
    uint64_t z = h.high * UINT64_C(0x9e3779b97f4a7c15);
    h.low ^= z ^ z >> 32;
    return h;
}

void hash_place(const struct geometry *g, struct key_hash h, struct key_place *place)
{
    uint64_t state = h.low, range = g->block_bits - BLOCK_TAG_BITS;
    hash_block(g, h, place);
    for (unsigned i = 0; i < g->hashes; i += 2) {
        unsigned a, b;
        hash_two_bits(&state, range, &a, &b);
        place->bits[i] = (uint16_t)a;
        place->bits[i + 1] = (uint16_t)b;
    }
}

uint16_t hash_tag(uint64_t incarnation, const char *filter, size_t filter_length, uint64_t generation)
{
    uint64_t name = XXH3_64bits_withSeed(filter, filter_length, incarnation);
    uint64_t number = htole64(generation);
    uint16_t tag = (uint16_t)(XXH3_64bits_withSeed(&number, sizeof(number), name) >> 48);
    return tag == 0 ? 1 : tag;
}

int key_hash_compare(const void *a, const void *b)
{
    const struct key_hash *x = a, *y = b;
    if (x->high != y->high)
        return x->high < y->high ? -1 : 1;
    return (x->low > y->low) - (x->low < y->low);
}
