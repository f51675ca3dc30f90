/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CLIENT_REPLICATIONS_H
#define SHARD_REDIS_SYNC_CLIENT_REPLICATIONS_H
/* Which replication ids the masters of a sync client have (replication.h). */
#include "base/error.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"

/* Ask all masters of @l now: all nodes of the list; in a cluster also masters without slots. Fills *@out
 * anew. A master that cannot be asked gets the id 0; one that has become a replica also gets the id 0, with
 * its run_id. ERR_UNREACHABLE, ERR_TIMEOUT: no node says which masters there are. ERR_REFUSED: the user may
 * not call INFO. ERR_RANGE: too many masters. ERR_PARSE, ERR_NOMEM. */
MUST_CHECK enum err sync_client_replications(struct sync_client *l, struct replications *out,
                                             struct error *e);
#endif
