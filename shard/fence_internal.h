/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FENCE_INTERNAL_H
#define SHARD_FENCE_INTERNAL_H
/* What fence.c, fence_drop.c and fence_bits.c share. */
#include "shard/fence.h"

/* Put a key of the filter, or the channel of events and the filter's name, into f->call. */
void fence_put_key(struct fence *f, const char *what);
void fence_put_event(struct fence *f);

/* Turn the shards of one layer under @epoch's names into tombstones. */
MUST_CHECK enum err fence_put_tombstones(struct fence *f, const struct generation *g, unsigned layer,
                                         uint64_t epoch, struct error *e);
#endif
