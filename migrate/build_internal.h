/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_INTERNAL_H
#define MIGRATE_BUILD_INTERNAL_H
/* What build.c and build_flush.c share. */
#include "migrate/bitmaps.h"
#include "migrate/build.h"
#include "migrate/partitions.h"
#include "migrate/spill.h"

struct build_writer {
    _Alignas(64) struct build *build;
    struct spill_writer *spill; /* NULL: memory */
    uint64_t put;               /* hashes, where they are spilled */
    uint64_t arrived; /* atomic: what this writer adds to build_pending(), as of its last page end */
    struct bitmaps_writer keys; /* memory */
};

/* Bits of shards on their way to Redis. What was taken out of bitmaps stays here until it has arrived: bits
 * cannot be put back beside a writer that does not set them atomically. */
struct build_uploads {
    uint64_t *bits; /* BUILD_OUTPUT_MAX shards */
    uint32_t shard[BUILD_OUTPUT_MAX];
    unsigned first, count; /* a ring */
};

/* All that depends on the layer. */
struct build_layer {
    unsigned number;
    struct geometry geometry;
    struct partitions partitions;
    /* Memory: of all shards, for all writers. Else: of one partition, for the driver. */
    struct bitmaps *bitmaps;
    struct spill *spill;           /* NULL: memory */
    struct build_uploads uploads;  /* memory */
    uint64_t *counted;             /* keys of each shard that build_take_counts() has told of */
    uint64_t *flushed;             /* memory: keys of each shard whose bits are taken. Else: that were new */
    uint64_t told;                 /* sum of counted */
    uint64_t drained, drained_new; /* hashes that were spilled and flushed; those that were new */
};

struct build {
    struct build_options o;
    struct pulse pulse;
    struct build_layer layer;
    struct bitmaps_writer keys; /* of the driver, where hashes are spilled */
    struct build_writer *writers;
};

static inline bool build_spills(const struct build *b)
{
    return b->layer.spill != NULL;
}

/* Keys that were new to a shard, ever. */
static inline uint64_t build_added(const struct build *b, uint32_t shard)
{
    return build_spills(b) ? b->layer.flushed[shard] : bitmaps_added(b->layer.bitmaps, shard);
}

/* True where nothing is left to flush. No writer may be at work. */
bool build_is_flushed(const struct build *b);
#endif
