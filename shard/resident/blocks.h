/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BLOCKS_H
#define SHARD_RESIDENT_BLOCKS_H
/* Pinned blocks: single blocks of shards that are not in memory, kept while requests need them. Several
 * holders share a block; the last one frees it.
 *
 * A block is whole once it was read from Redis. From its pin on it takes the bits of every entry that is
 * applied, whatever the state of its shard. What was applied before is in the reply of Redis, or in the
 * overlay. So a whole block is what the shard would be in memory, no matter who read it, or when: a request
 * may use a block that was read for an earlier one.
 *
 * It stays whole as long as entries are applied one after the other, whatever views come meanwhile. When the
 * lanes are read again (resident_rebase()) the base changes, and the block must be read again.
 *
 * The first reply counts, later ones are ignored: an add is sent once its blocks are whole, so a later reply
 * may hold the add's own bits, and the key would seem not to be new.
 *
 * Any thread may call all functions. A lock guards the bits of a block. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/resident/bitmap.h"
#include "shard/resident/budget.h"

/* The position of a block. */
struct block_at {
    uint32_t layer, shard, block;
};

struct blocks;

/* NULL: no memory. @budget is borrowed. */
struct blocks *blocks_new(struct budget *budget);
/* No block may be pinned, and no thread may use @b any more. @b may be NULL. */
void blocks_free(struct blocks *b);

/* True if a block is pinned. */
bool blocks_any(const struct blocks *b);
/* The number of pinned blocks, and their bytes. */
void blocks_size(struct blocks *b, uint64_t *count, uint64_t *bytes);

/* Pin a block of @length bytes. *@whole: it was already read, for @base. ERR_NOMEM: no memory, or too many
 * blocks are pinned in this process (BUDGET_PINNED_MAX). */
MUST_CHECK enum err blocks_pin(struct blocks *b, const struct block_at *at, uint32_t length, uint32_t base,
                               bool *whole, struct error *e);
void blocks_unpin(struct blocks *b, const struct block_at *at);
/* Take a block's @bytes, which were read for @base (not 0) and completed from the overlay. Ignored if the
 * block is already whole for this base. */
void blocks_fill(struct blocks *b, const struct block_at *at, uint32_t base, const uint8_t *bytes);

/* Look into the pinned block of @place. BITMAP_UNKNOWN: it is not pinned, or a bit is not set and the block
 * is not whole for @base. */
enum bitmap_answer blocks_look(struct blocks *b, unsigned layer, const struct geometry *g, uint32_t base,
                               const struct key_place *place);

/* Set the bits of a place, if its block is pinned. */
enum blocks_set {
    BLOCKS_SILENT /* the block is not pinned, or not whole for @base */,
    BLOCKS_OLD,
    BLOCKS_NEW
};
enum blocks_set blocks_set(struct blocks *b, unsigned layer, const struct geometry *g, uint32_t base,
                           const struct key_place *place);
#endif
