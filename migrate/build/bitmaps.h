/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_BITMAPS_H
#define MIGRATE_BUILD_BITMAPS_H
/* Bitmaps of a run of shards of one layer in memory, tags zero, which several threads set bits in while
 * another copies them. A shard that has a new bit is known by its count. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

enum { BITMAPS_AHEAD = 16 };

struct bitmaps;

/* Keys of one thread on their way into bitmaps: enough of them to hide the latency of memory. */
struct bitmaps_writer {
    struct bitmaps *bitmaps;
    uint64_t *added; /* by shard held: keys of this writer (or of all) that had a bit unset */
    unsigned waiting;
    struct key_place place[BITMAPS_AHEAD];
};

/* Room for @held shards of @g; the first @held of them are held. @writers: threads that put keys at the same
 * time. ERR_NOMEM. */
MUST_CHECK enum err bitmaps_new(struct bitmaps **out, const struct geometry *g, uint32_t held,
                                unsigned writers, struct error *e);
void bitmaps_free(struct bitmaps *b);
/* Writer @index, below the number that was given. */
void bitmaps_writer_init(struct bitmaps_writer *w, struct bitmaps *b, unsigned index);

/* Empty them, and hold the shards from @first on, as many as there is room for. No writer may be at work, or
 * have keys that wait. */
void bitmaps_hold(struct bitmaps *b, uint32_t first);

/* Put a key whose shard is held. It may wait, until bitmaps_apply(), for others. */
void bitmaps_put(struct bitmaps_writer *w, struct key_hash h);
void bitmaps_apply(struct bitmaps_writer *w);

/* Keys that were new to a shard since it is held: those that had a bit unset. Never falls. Bits that were set
 * for the keys that are counted are seen by a bitmaps_copy() that follows. */
uint64_t bitmaps_added(const struct bitmaps *b, uint32_t shard);

/* Copy the bits of a shard to @out, geometry_shard_bytes() long. */
void bitmaps_copy(const struct bitmaps *b, uint32_t shard, uint64_t *out);

/* --- where no writer is at work --- */

/* The bytes of a shard, as Redis has them; shards lie one after the other. */
uint8_t *bitmaps_bytes(struct bitmaps *b, uint32_t shard);
void bitmaps_prefetch(const struct bitmaps *b, const struct key_place *place);
/* True where all bits of a key are set. */
bool bitmaps_test(const struct bitmaps *b, const struct key_place *place);
#endif
