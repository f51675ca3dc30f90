/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_PARTITIONS_H
#define MIGRATE_BUILD_PARTITIONS_H
/* Divides the work by hashes, for when the bitmaps of all shards do not fit into memory. A partition is an
 * interval of hashes, and so a run of consecutive shards in every layer: the high half of the hash selects
 * the shard (hash.h). Pure; no I/O.
 *
 * A partition consists of whole shards of one layer, the one with the most shards. In the other layers a
 * shard at the border of two partitions belongs to both. */
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

enum { PARTITIONS_MAX = 1024 };

struct partitions {
    uint32_t count;
    uint32_t shards; /* number of shards of the divided layer */
    uint32_t each;   /* shards per partition; the last one may have fewer */
};

/* Plan the fewest partitions whose bitmaps, of all @count layers @g together, take at most @memory bytes. A
 * shard of the divided layer is never split, even if it is larger than @memory. ERR_CONFIG: @memory would
 * need more than PARTITIONS_MAX; the text says how much is needed, and calls it @setting. ERR_RANGE: no
 * layers. */
MUST_CHECK enum err partitions_plan(struct partitions *out, const struct geometry *g, unsigned count,
                                    uint64_t memory, const char *setting, struct error *e);

/* The partition of a hash, 0 .. count - 1. */
static inline uint32_t partitions_of(const struct partitions *p, struct key_hash h)
{
    __extension__ typedef unsigned __int128 wide;
    return (uint32_t)(((wide)h.high * p->shards) >> 64) / p->each;
}

/* The shards of a layer that may hold hashes of @partition. */
void partitions_shards(const struct partitions *p, uint32_t partition, const struct geometry *g,
                       uint32_t *first, uint32_t *count);

/* An upper bound, by at most one, of the shards of a layer that partitions_shards() gives for any
 * partition. */
uint32_t partitions_shards_max(const struct partitions *p, const struct geometry *g);
#endif
