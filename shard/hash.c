/* SPDX-License-Identifier: MIT */
#include "shard/hash.h"

#include <endian.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(GEOMETRY_HASHES_MAX % 2 == 0, "positions are written in pairs");

struct key_hash hash_key(uint64_t seed, const void *key, size_t length)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(key, length, seed);
    return (struct key_hash){.high = h.high64, .low = h.low64};
}

/* The last part of splitmix64: a bijection in which each bit of the input changes half of the output. */
static inline uint64_t scramble(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* splitmix64: one step of a full-period stream; its output has no visible relation to the seed. */
static inline uint64_t next(uint64_t *state)
{
    return scramble(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Two rounds of a Feistel network: each half is changed by a function of the other, so all can be undone. */
struct key_hash hash_mix(struct key_hash h, uint64_t mix)
{
    if (mix == 0)
        return h;
    h.low ^= h.high;
    h.high ^= scramble(h.low ^ mix);
    uint64_t z = h.high * UINT64_C(0x9e3779b97f4a7c15);
    h.low ^= z ^ z >> 32;
    return h;
}

__extension__ typedef unsigned __int128 wide;

void hash_place(const struct geometry *g, struct key_hash h, struct key_place *place)
{
    /* The low half of the first product is what the choice of the shard left unused, still spread evenly. */
    wide product = (wide)h.high * g->shards;
    place->shard = (uint32_t)(product >> 64);
    place->block = (uint32_t)(((wide)(uint64_t)product * g->blocks) >> 64);

    uint64_t state = h.low;
    uint64_t range = g->block_bits - BLOCK_TAG_BITS;
    for (unsigned i = 0; i < g->hashes; i += 2) {
        uint64_t z = next(&state);
        place->bits[i] = (uint16_t)(BLOCK_TAG_BITS + ((z >> 32) * range >> 32));
        place->bits[i + 1] = (uint16_t)(BLOCK_TAG_BITS + ((z & UINT32_MAX) * range >> 32));
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
