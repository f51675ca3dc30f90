/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FILTER_BLOCK_H
#define SHARD_FILTER_BLOCK_H
/* Bits inside blocks. Bit p of a block is bit 7 - p % 8 of byte p / 8, as Redis numbers them; the tag is the
 * block's first 16 bits, big-endian. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "shard/filter/hash.h"

enum block_answer {
    BLOCK_ABSENT,  /* tag seen, some bit is not set */
    BLOCK_PRESENT, /* tag seen, all bits are set */
    BLOCK_BAD      /* wrong length or no tag: not an answer */
};

/* Look @place up in the @length bytes that GETRANGE gave for its block. */
enum block_answer block_test(const struct geometry *g, uint16_t tag, const struct key_place *place,
                             const void *bytes, size_t length);

/* Set @place's bits in @shard, a local bitmap of geometry_shard_bytes(). True if any bit was new. */
bool block_set(const struct geometry *g, const struct key_place *place, uint8_t *shard);

/* Write an empty shard (tags only) of geometry_shard_bytes() to @out. */
void block_fill(const struct geometry *g, uint16_t tag, uint8_t *out);
#endif
