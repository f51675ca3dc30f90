/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BLOCKS_H
#define SHARD_RESIDENT_BLOCKS_H
/* Pinned blocks: single blocks of shards that are not in memory, kept while requests need them. Several
 * holders share a block; it goes with the last one.
 *
 * A block is whole when it was read from Redis. From its pin on it takes the bits of every entry that is
 * applied, whatever the state of its shard is; what was applied before is in what Redis answers, or in the
 * overlay. So a whole block is what the shard would be in memory, and it does not matter who asked Redis for
 * it, or when: a request may use a block that was read for an earlier one.
 *
 * It stays whole for as long as entries are applied one behind the other, whatever views come meanwhile.
 * Where the lanes are read again (resident_rebase()) there is another base, and it is to be read again.
 *
 * The first answer counts, later ones are ignored: an add is sent when its blocks are whole, so a later
 * answer may have the add's own bits, and nobody would be told that the key was new.
 *
 * All functions may be called by any thread; a block's bits are read and set under a lock. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/resident/bitmap.h"
#include "shard/resident/budget.h"

/* Where a block lies. */
struct block_at {
    uint32_t layer, shard, block;
};

struct blocks;

/* NULL: no memory. @budget is borrowed. */
struct blocks *blocks_new(struct budget *budget);
/* Nothing is pinned any more, and nobody inside. NULL is fine. */
void blocks_free(struct blocks *b);

/* Some block is pinned. */
bool blocks_any(const struct blocks *b);
/* Blocks that are pinned, and the bytes that they take. */
void blocks_size(struct blocks *b, uint64_t *count, uint64_t *bytes);

/* Pin a block of @length bytes. *@whole: it was read already, for @base. ERR_NOMEM: no memory, or too many
 * blocks are pinned in this process (BUDGET_PINNED_MAX). */
MUST_CHECK enum err blocks_pin(struct blocks *b, const struct block_at *at, uint32_t length, uint32_t base,
                               bool *whole, struct error *e);
void blocks_unpin(struct blocks *b, const struct block_at *at);
/* It was read for @base, which is not 0, and its @bytes are OR what the overlay has of it. Ignored where the
 * block is whole for this base. */
void blocks_fill(struct blocks *b, const struct block_at *at, uint32_t base, const uint8_t *bytes);

/* For each place whose answer is BITMAP_UNKNOWN, what the pinned block says: BITMAP_NO only if it is whole
 * for @base. */
void blocks_look(struct blocks *b, unsigned layer, const struct geometry *g, uint32_t base,
                 const struct key_place *places, unsigned count, uint8_t *answers);

/* Set the bits of a place where its block is pinned. */
enum blocks_set { BLOCKS_SILENT /* it is not whole for @base */, BLOCKS_OLD, BLOCKS_NEW };
enum blocks_set blocks_set(struct blocks *b, unsigned layer, const struct geometry *g, uint32_t base,
                           const struct key_place *place);
#endif
