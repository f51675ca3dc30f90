/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILDER_H
#define MIGRATE_BUILDER_H
/* Keys to bitmaps in local memory to live shards. A generation larger than the memory bound is built in
 * several passes over the source, each for a range of shards. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/fence.h"

struct builder;

/* For one layer of @g. @f, @v and @g are borrowed; @v and @g may be changed between two calls, but for that
 * layer. @memory: bytes of bitmaps at the most (at least one shard is held). */
MUST_CHECK enum err builder_new(struct builder **out, struct fence *f, const struct view *v,
                                const struct generation *g, unsigned layer, uint64_t token, uint64_t memory,
                                struct error *e);
void builder_free(struct builder *b);

unsigned builder_passes(const struct builder *b);
/* Begin pass @pass (0 .. passes - 1): keys of other shards are passed over. Bitmaps are empty. */
void builder_begin(struct builder *b, unsigned pass);
void builder_add(struct builder *b, const char *key, size_t length);

/* OR what was gathered into the live shards and wait until all of it is there; then the bitmaps are empty
 * again. On error nothing is forgotten: call again. ERR_LOST, ERR_REFUSED, ERR_UNREACHABLE. */
MUST_CHECK enum err builder_flush(struct builder *b, struct error *e);

/* Keys that were new to a shard's bitmap since the last call, by shard: called for each with n > 0, then
 * forgotten. */
/* Their sum. */
uint64_t builder_pending(const struct builder *b);
typedef void builder_count_fn(void *arg, uint32_t shard, uint64_t n);
void builder_take_counts(struct builder *b, builder_count_fn *fn, void *arg);
#endif
