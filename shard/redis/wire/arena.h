/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_ARENA_H
#define SHARD_REDIS_WIRE_ARENA_H
/* Memory for one reply after another: taken in pieces, given back all at once. A reply to BITFIELD has a
 * dozen parts; hiredis would allocate each of them. */
#include <stddef.h>
#include <hiredis/hiredis.h>

struct arena;

/* NULL: no memory. */
struct arena *arena_new(void);
void arena_free(struct arena *a);
/* Give back all that was taken. */
void arena_reset(struct arena *a);
/* Functions for a redisReader whose privdata is the arena: its replies lie in the arena. */
redisReplyObjectFunctions *arena_functions(void);
#endif
