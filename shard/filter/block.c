/* SPDX-License-Identifier: MIT */
#include "shard/filter/block.h"

#include <string.h>

_Static_assert(BLOCK_TAG_BITS == 16, "the tag is read and written as two bytes");

bool block_has(const struct geometry *g, const struct key_place *place, const uint8_t *block)
{
    bool all = true;
    for (unsigned i = 0; i < g->hashes && all; i++)
        all = (block[place->bits[i] / 8] & 0x80u >> place->bits[i] % 8) != 0;
    return all;
}

enum block_answer block_test(const struct geometry *g, uint16_t tag, const struct key_place *place,
                             const void *bytes, size_t length)
{
    const uint8_t *block = bytes;
    if (length != g->block_bits / 8 || (block[0] << 8 | block[1]) != tag)
        return BLOCK_BAD;
    return block_has(g, place, block) ? BLOCK_PRESENT : BLOCK_ABSENT;
}

bool block_set(const struct geometry *g, const struct key_place *place, uint8_t *shard)
{
    uint8_t *block = shard + (size_t)place->block * (g->block_bits / 8);
    bool changed = false;
    for (unsigned i = 0; i < g->hashes; i++) {
        unsigned p = place->bits[i];
        uint8_t bit = (uint8_t)(0x80u >> p % 8);
        changed |= (block[p / 8] & bit) == 0;
        block[p / 8] |= bit;
    }
    return changed;
}

void block_fill(const struct geometry *g, uint16_t tag, uint8_t *out)
{
    size_t block_bytes = g->block_bits / 8;
    memset(out, 0, geometry_shard_bytes(g));
    for (uint32_t i = 0; i < g->blocks; i++) {
        out[i * block_bytes] = (uint8_t)(tag >> 8);
        out[i * block_bytes + 1] = (uint8_t)(tag & 0xff);
    }
}
