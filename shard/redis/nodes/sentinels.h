/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_SENTINELS_H
#define SHARD_REDIS_NODES_SENTINELS_H
/* Masters that Redis Sentinel watches: nodes of the list that are known by the sentinels' name for them, and
 * whose address they tell. Here is what they told; one thread of the process asks them (sentinel_watch.h),
 * any thread may ask here. A node's own name is "sentinel:<master>", whatever server that is at a time. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct sentinels;

/* @urls: the sentinels, written as nodes_parse() has it, hosts only. @masters: names, comma separated; each
 * may be written redis://user:password@NAME/db, or rediss://, for the login at the master. ERR_PARSE. */
MUST_CHECK enum err sentinels_parse(struct nodes *masters, struct nodes *asked, const char *urls,
                                    const char *names, struct error *e);

/* The addresses of @masters, none of which is known yet. ERR_NOMEM. */
MUST_CHECK enum err sentinels_new(struct sentinels **out, const struct nodes *masters, struct error *e);
/* Nobody asks it any more. NULL is fine. */
void sentinels_free(struct sentinels *s);

/* Where the master is, as was last told; the sentinels are asked again, soon, as whoever wants to know has no
 * connection. @version: for sentinels_moved(). False: nobody has told yet. */
bool sentinels_address(struct sentinels *s, const struct node *n, char host[NODE_NAME_MAX], uint16_t *port,
                       unsigned *version);
/* True where the master is elsewhere by now. */
bool sentinels_moved(struct sentinels *s, const struct node *n, unsigned version);

/* For the one thread that asks the sentinels (sentinel_watch.h). */
unsigned sentinels_count(const struct sentinels *s);
const char *sentinels_master(const struct sentinels *s, unsigned i); /* the sentinels' name of it */
/* True where that is news. */
bool sentinels_learn(struct sentinels *s, unsigned i, const char *host, uint16_t port);
/* Whether anybody wanted an address since the last call. */
bool sentinels_take_wanted(struct sentinels *s);
/* An eventfd that is readable when somebody wants an address, or called sentinels_wake(). */
int sentinels_wake_fd(const struct sentinels *s);
void sentinels_wake(struct sentinels *s);
#endif
