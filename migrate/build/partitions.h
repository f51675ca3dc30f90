/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_PARTITIONS_H
#define MIGRATE_BUILD_PARTITIONS_H
/* Which part of the work a hash belongs to, where the bitmaps of all shards do not fit into memory. A
 * partition is an interval of hashes, and so a run of shards in every layer: shards are drawn by the high
 * half of the hash (hash.h). Pure; no I/O.
 *
 * Partitions are whole shards of one layer, the one with the most shards; in the others a shard at the border
 * of two partitions belongs to both. */
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

enum { PARTITIONS_MAX = 1024 };

struct partitions {
    uint32_t count;
    uint32_t shards; /* of the layer that is divided */
    uint32_t each;   /* of them in a partition; the last one may have fewer */
};

/* The fewest partitions whose bitmaps, of all @count layers @g together, have @memory bytes or less. A single
 * shard of the layer with the most of them is never divided, even where it is more. ERR_CONFIG: @memory would
 * need more than PARTITIONS_MAX; the text says how much is needed, calling it @setting. ERR_RANGE: no layers.
 */
MUST_CHECK enum err partitions_plan(struct partitions *out, const struct geometry *g, unsigned count,
                                    uint64_t memory, const char *setting, struct error *e);

/* The partition of a hash, 0 .. count - 1. */
static inline uint32_t partitions_of(const struct partitions *p, struct key_hash h)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint32_t)(((wide)h.high * p->shards) >> 64) / p->each;
}

/* The shards of a layer that hashes of @partition may lie in. */
void partitions_shards(const struct partitions *p, uint32_t partition, const struct geometry *g,
                       uint32_t *first, uint32_t *count);

/* The most shards of a layer that partitions_shards() gives for any partition (or one more). */
uint32_t partitions_shards_max(const struct partitions *p, const struct geometry *g);
#endif
