/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SENTINEL_WATCH_H
#define SHARD_REDIS_SENTINEL_WATCH_H
/* The thread that asks Redis Sentinel where the masters are. */
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/nodes/sentinels.h"

struct sentinel_watch;

/* Keep @s, which is borrowed, up to date. @asked: the sentinels; copied, but asked->tls is borrowed.
 * @timeout_ms bounds connecting to a sentinel, and its replies. Does not wait. ERR_NOMEM. */
MUST_CHECK enum err sentinel_watch_start(struct sentinel_watch **out, struct sentinels *s,
                                         const struct nodes *asked, unsigned timeout_ms, struct error *e);
/* @w may be NULL. */
void sentinel_watch_stop(struct sentinel_watch *w);
#endif
