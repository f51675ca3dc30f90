/* SPDX-License-Identifier: MIT */
#ifndef SHARD_SENTINELS_H
#define SHARD_SENTINELS_H
/* Masters that Redis Sentinel watches: nodes of the list that are known by the sentinels' name for them, and
 * whose address is asked for. One thread of the process asks, and listens to what the sentinels announce; any
 * thread may ask this one. A node's own name is "sentinel:<master>", whatever server that is at a time. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/nodes.h"

struct sentinels;

/* @urls: the sentinels, written as nodes_parse() has it, hosts only. @masters: names, comma separated; each
 * may be written redis://user:password@NAME/db, or rediss://, for the login at the master. ERR_PARSE. */
MUST_CHECK enum err sentinels_parse(struct nodes *masters, struct nodes *asked, const char *urls,
                                    const char *names, struct error *e);

/* Begin to ask; both are copied, but for asked->tls, which is borrowed. @timeout_ms bounds connecting to a
 * sentinel, and its answers. Nothing is waited for. ERR_NOMEM. */
MUST_CHECK enum err sentinels_start(struct sentinels **out, const struct nodes *asked,
                                    const struct nodes *masters, unsigned timeout_ms, struct error *e);
/* Nobody asks it any more. NULL is fine. */
void sentinels_stop(struct sentinels *s);

/* Where the master is, as was last told; the sentinels are asked again, soon, as whoever wants to know has no
 * connection. @version: for sentinels_moved(). False: nobody has told yet. */
bool sentinels_address(struct sentinels *s, const struct node *n, char host[NODE_NAME_MAX], uint16_t *port,
                       unsigned *version);
/* True where the master is elsewhere by now. */
bool sentinels_moved(struct sentinels *s, const struct node *n, unsigned version);
#endif
