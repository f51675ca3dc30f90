/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CLIENT_REPLICATIONS_H
#define SHARD_REDIS_SYNC_CLIENT_REPLICATIONS_H
/* Which histories of writes the masters of a link are in (replication.h). */
#include "base/error.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"

/* Ask all masters of @l at this moment: all nodes of the list; of a cluster those without slots, too. One
 * that cannot be asked has the id 0; so has one that is a replica by now, with its run_id. What is in *@out
 * is forgotten first. ERR_UNREACHABLE, ERR_TIMEOUT: nobody tells who the masters are. ERR_REFUSED: the user
 * may not call INFO. ERR_RANGE: too many. ERR_PARSE, ERR_NOMEM. */
MUST_CHECK enum err sync_client_replications(struct sync_client *l, struct replications *out,
                                             struct error *e);
#endif
