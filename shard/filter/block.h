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
    BLOCK_ABSENT,  /* the tag is right, and at least one bit of the key is unset */
    BLOCK_PRESENT, /* the tag is right, and all bits of the key are set */
    BLOCK_BAD      /* the length or the tag is wrong: this says nothing about the key */
};

/* True if all bits of @place are set in its block. */
bool block_has(const struct geometry *g, const struct key_place *place, const uint8_t *block);
/* Look up @place in its block: the @length bytes that GETRANGE returned. */
enum block_answer block_test(const struct geometry *g, uint16_t tag, const struct key_place *place,
                             const void *bytes, size_t length);

/* Set @place's bits in @shard, a local bitmap of geometry_shard_bytes(). True if any bit was new. */
bool block_set(const struct geometry *g, const struct key_place *place, uint8_t *shard);

/* Write an empty shard (tags only) of geometry_shard_bytes() to @out. */
void block_fill(const struct geometry *g, uint16_t tag, uint8_t *out);
#endif
