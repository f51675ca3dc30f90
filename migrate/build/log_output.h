/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_LOG_OUTPUT_H
#define MIGRATE_BUILD_LOG_OUTPUT_H
/* ORs a build's bits into the shards of a generation: reads each shard, and writes the bits that it lacks
 * under the builder's token. No other process writes these shards under that token, so a shard does not
 * change between read and write.
 *
 * Possible failure modes are: a shard is missing, truncated or something else (fold_is_lost(): the build
 * begins `anew`); another builder took over (ERR_FENCED); a connection breaks. After each of these the
 * builder has to take over before the next write. */
#include "migrate/build/bitmaps.h"
#include "shard/generations/build.h"
#include "shard/view/shards.h"

enum { LOG_OUTPUT_MAX = 4 /* shards under way */ };

struct log_output {
    struct builder *builder;       /* borrowed, as the bitmaps */
    const struct bitmaps *bitmaps; /* set by the caller before the first shard */
    unsigned layer;                /* the last one of its shape: the others get no bits */
    uint64_t *written;             /* by shard: keys of the bitmaps that are in Redis */
    uint64_t fresh;                /* new keys that were written; the caller takes them */
    uint8_t *had;                  /* buffer for the bytes of a shard */
    unsigned count;                /* shards under way: their bytes were requested */
    struct {
        uint32_t shard;
        uint64_t added;   /* keys that are written at least */
        unsigned scripts; /* scripts sent for this shard */
    } slot[LOG_OUTPUT_MAX];
};

MUST_CHECK enum err log_output_init(struct log_output *o, struct builder *builder, struct error *e);
void log_output_fini(struct log_output *o);

/* OR the bits of a shard into that shard in Redis. The call may wait for shards that are under way. Bits that
 * are set meanwhile may be written, too. */
MUST_CHECK enum err log_output_put(struct log_output *o, uint32_t shard, struct error *e);
/* Wait until all shards have arrived. After an error of this call or of log_output_put() no shard is under
 * way any more, and it is unknown which of them have arrived. */
MUST_CHECK enum err log_output_wait(struct log_output *o, struct error *e);

/* --- long work of one thread that is asked about every 50 ms whether to go on --- */

struct periodic {
    struct log_output *output; /* NULL: none */
    struct work work;
    uint64_t due_us;
};

/* work_ask() if it is due, after waiting for the shards that are under way. */
MUST_CHECK enum err periodic_call(struct periodic *p, struct error *e);
#endif
