/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SENTINEL_WATCH_H
#define SHARD_REDIS_SENTINEL_WATCH_H
/* The thread that asks Redis Sentinel where the masters are, and listens to what the sentinels announce. */
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/redis/nodes/sentinels.h"

struct sentinel_watch;

/* Keep @s up to date, which is borrowed. @asked: the sentinels; copied, but for asked->tls, which is
 * borrowed.
 * @timeout_ms bounds connecting to a sentinel, and its answers. Nothing is waited for. ERR_NOMEM. */
MUST_CHECK enum err sentinel_watch_start(struct sentinel_watch **out, struct sentinels *s,
                                         const struct nodes *asked, unsigned timeout_ms, struct error *e);
/* NULL is fine. */
void sentinel_watch_stop(struct sentinel_watch *w);
#endif
