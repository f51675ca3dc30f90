/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_BITMAPS_H
#define MIGRATE_BUILD_BITMAPS_H
/* Bitmaps of consecutive shards of one layer in memory, with zero tags. Several threads set bits while
 * another thread reads shards. A shard's count tells that it has new bits. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

enum { BITMAPS_AHEAD = 16, BITMAPS_UNIT = 64 /* bytes, of which a block has a whole number */ };

struct bitmaps;

/* Keys of one thread that wait for their bits to be set: enough of them to hide the latency of memory. */
struct bitmaps_writer {
    _Alignas(64) struct bitmaps *bitmaps;
    uint64_t *added; /* by shard: keys that had an unset bit, of this writer (or of all) */
    unsigned waiting;
    struct key_place place[BITMAPS_AHEAD];
};

/* Memory for @held shards of @g; it holds the first @held of them. @writers: threads that put keys at the
 * same time. ERR_NOMEM. */
MUST_CHECK enum err bitmaps_new(struct bitmaps **out, const struct geometry *g, uint32_t held,
                                unsigned writers, struct error *e);
void bitmaps_free(struct bitmaps *b);
/* @index is below the number of writers given to bitmaps_new(). */
void bitmaps_writer_init(struct bitmaps_writer *w, struct bitmaps *b, unsigned index);

/* Clear all bits, and hold the shards from @first on, as many as there is room for. No writer may be at work
 * or have keys that wait. */
void bitmaps_hold(struct bitmaps *b, uint32_t first);

/* Put a key whose shard is held. Its bits are set at the latest by bitmaps_apply(). */
void bitmaps_put(struct bitmaps_writer *w, struct key_hash h);
void bitmaps_apply(struct bitmaps_writer *w);

/* How many keys had an unset bit in a shard since it is held. Never falls. A bitmaps_or() behind this call
 * has the bits of all keys that are counted. */
uint64_t bitmaps_added(const struct bitmaps *b, uint32_t shard);

/* OR the unit of a shard that begins @at, a multiple of BITMAPS_UNIT, into @bytes, as Redis stores them.
 * True: these lacked some bit. */
bool bitmaps_or(const struct bitmaps *b, uint32_t shard, uint32_t at, uint8_t *bytes);
#endif
