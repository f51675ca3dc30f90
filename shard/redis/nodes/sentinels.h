/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_SENTINELS_H
#define SHARD_REDIS_NODES_SENTINELS_H
/* Masters that Redis Sentinel watches: nodes that the list names by the sentinels' name, and whose address
 * the sentinels tell. This holds what they told. One thread of the process asks the sentinels
 * (sentinel_watch.h); any thread may read here. Such a node is always called "sentinel:<master>", whichever
 * server it is at a time. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct sentinels;

/* @urls: the sentinels, in the form of nodes_parse(), hosts only. @names: names of masters, separated by
 * commas; with redis://user:password@NAME/db (or rediss://) for a login at the master. ERR_PARSE. */
MUST_CHECK enum err sentinels_parse(struct nodes *masters, struct nodes *asked, const char *urls,
                                    const char *names, struct error *e);

/* Begin with no addresses for @masters. ERR_NOMEM. */
MUST_CHECK enum err sentinels_new(struct sentinels **out, const struct nodes *masters, struct error *e);
/* No other thread may use @s any more. @s may be NULL. */
void sentinels_free(struct sentinels *s);

/* The last known address of the master @n. Also notes that it was wanted, as a caller that needs the address
 * has no connection: if it stays the same, another sentinel is asked. @version: for sentinels_moved(). False:
 * no sentinel has told the address yet. */
bool sentinels_address(struct sentinels *s, const struct node *n, char host[NODE_NAME_MAX], uint16_t *port,
                       unsigned *version);
/* True if the master's address has changed since @version. */
bool sentinels_moved(struct sentinels *s, const struct node *n, unsigned version);
#endif
