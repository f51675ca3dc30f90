/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_ARENA_H
#define SHARD_REDIS_WIRE_ARENA_H
/* Memory of one reply after another: taken in pieces, given back all at once. A reply to a BITFIELD has a
 * dozen parts, each an allocation where hiredis makes them. */
#include <stddef.h>
#include <hiredis/hiredis.h>

struct arena;

/* NULL: no memory. */
struct arena *arena_new(void);
void arena_free(struct arena *a);
/* What was taken is gone. */
void arena_reset(struct arena *a);
/* @size bytes for any type. NULL: no memory. */
void *arena_take(struct arena *a, size_t size);

/* For a redisReader whose privdata is the arena: replies lie in it. */
redisReplyObjectFunctions *arena_functions(void);
#endif
