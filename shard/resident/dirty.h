/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_DIRTY_H
#define SHARD_RESIDENT_DIRTY_H
/* What of a layer's shards differs from Redis, taken in batches that one script writes. Marks are taken back
 * before their bytes are copied: bits that are set meanwhile are in the copy, or marked again, or both.
 *
 * The order for whoever folds: note the positions of the lanes, and the stamps of the shards
 * (bitmap_stamp()); take batches until there are none, and write each; only then store the positions. A batch
 * that was not written is put back, or the folder takes over, which finds it (bitmap_join()). Marks say all
 * of a shard only if it was in memory from the positions on (bitmap_stayed()); where it was not, the overlay
 * has what Redis may lack. */
#include <stdbool.h>
#include <stdint.h>
#include "shard/resident/bitmap.h"

enum {
    DIRTY_BATCH_BYTES = 64 << 10,
    DIRTY_PAGE_AT = 9, /* a page with as many marked units is written whole */
    DIRTY_PIECES_MAX = DIRTY_BATCH_BYTES / BITMAP_UNIT
};

struct dirty_piece {
    uint32_t offset; /* bytes behind the header of the shard */
    uint32_t length; /* a multiple of BITMAP_UNIT */
};

struct dirty_batch {
    uint32_t shard;
    unsigned count;  /* of pieces, in order, none next to another within a page */
    uint32_t length; /* of bytes */
    struct dirty_piece piece[DIRTY_PIECES_MAX];
    uint8_t bytes[DIRTY_BATCH_BYTES]; /* of all pieces, one behind the other */
};

/* The next shard at or after *@shard that is wholly in memory and has marks. False: there is none. */
bool dirty_next(const struct bitmap *b, uint32_t *shard);

/* Take marks of @shard and copy what they say, as much as a batch holds. False: there were none. Of one
 * thread at a time for each shard. */
bool dirty_take(struct bitmap *b, uint32_t shard, struct dirty_batch *out);
/* The same from *@page on, which moves behind what was looked at: from page 0 until it gives false, it takes
 * each page once, however many bits are set meanwhile. */
bool dirty_take_from(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out);

/* Copy pages of @shard from *@page on, which moves behind them, marked or not, and whole in memory or not:
 * what Redis has was read under a token that the shard has. False: there are no more. Whoever calls this is
 * the only one to change the shard's state. */
bool dirty_copy(struct bitmap *b, uint32_t shard, uint32_t *page, struct dirty_batch *out);

/* Mark again what @batch took: it was not written. */
void dirty_put_back(struct bitmap *b, const struct dirty_batch *batch);

/* Mark all of @shard: Redis lost it. */
void dirty_mark_all(struct bitmap *b, uint32_t shard);

/* Marked bytes of @shard. */
uint64_t dirty_bytes(const struct bitmap *b, uint32_t shard);
#endif
