/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_DIRTY_H
#define SHARD_RESIDENT_DIRTY_H
/* The parts of a layer's shards that differ from Redis, taken in batches, each of which one script writes.
 * Marks are cleared before their bytes are copied: bits that are set meanwhile are in the copy, or marked
 * again, or both.
 *
 * A folder keeps this order: note the positions of the lanes, and the stamps of the shards (bitmap_stamp());
 * take and write batches until there are none; only then store the positions. If a batch was not written, put
 * it back, or let the folder take over, which finds it again (bitmap_join()). Marks tell all about a shard
 * only if it was in memory from the positions on (bitmap_stayed()). If it was not, the overlay has what Redis
 * may lack. */
#include <stdbool.h>
#include <stdint.h>
#include "shard/resident/bitmap.h"

enum {
    DIRTY_BATCH_BYTES = 64 << 10,
    DIRTY_PAGE_AT = 9, /* a page with so many marked units is written whole */
    DIRTY_PIECES_MAX = DIRTY_BATCH_BYTES / BITMAP_UNIT
};

struct dirty_piece {
    uint32_t offset; /* bytes behind the header of the shard */
    uint32_t length; /* bytes, a multiple of BITMAP_UNIT */
};

struct dirty_batch {
    uint32_t shard;
    unsigned count;  /* number of pieces; they are in order, and do not touch */
    uint32_t length; /* number of bytes */
    struct dirty_piece piece[DIRTY_PIECES_MAX];
    uint8_t bytes[DIRTY_BATCH_BYTES]; /* of all pieces, one after the other */
};

/* Find the next shard at or after *@shard that is whole in memory and may have marks. False: there is
 * none. */
bool dirty_next(const struct bitmap *b, uint32_t *shard);

/* Take marks of @shard from page *@page on, and copy their bytes, as many as a batch holds; *@page moves
 * behind the pages that were looked at. Called from page 0 until it returns false, it takes each page once,
 * however many bits are set meanwhile. One thread at a time for each shard. */
bool dirty_take_from(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out);

/* Copy pages of @shard from *@page on, marked or not, whole in memory or not; *@page moves behind them.
 * False: there are no more. What Redis has was read under a token that the shard has. No other thread may
 * change the shard's state meanwhile. */
bool dirty_copy(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out);

/* Set the marks of @batch again: it was not written. */
void dirty_put_back(struct bitmap *b, const struct dirty_batch *batch);

/* Mark all of @shard: Redis lost it. */
void dirty_mark_all(struct bitmap *b, uint32_t shard);

/* The number of marked bytes of @shard. */
uint64_t dirty_bytes(const struct bitmap *b, uint32_t shard);
#endif
