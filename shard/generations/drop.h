/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_DROP_H
#define SHARD_GENERATIONS_DROP_H
/* Delete a filter. Blocking.
 *
 * The happy path is: the view says `deleting`; the filter's lanes are closed, so nobody adds any more:
 * whoever tries meets a missing lane, and loads the view; the view becomes the record of what is left over
 * (leftover.h); lanes and shards are removed, then the record. Possible failure modes are: the deleter is
 * killed at any point (whoever deletes or makes the filter next goes on); a node does not answer (if the view
 * is still there, the filter is unusable and stays `deleting`; later, the record stays); a second deleter, or
 * a maker, at the same time (the names of all that is removed have the incarnation). */
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/view/shards.h"

/* Delete the filter @names of @incarnation, or go on with its deletion. The caller has decided on that one:
 * whoever has slept since deletes no later filter. @incarnation 0: no view was there, remove what is left
 * over. @due_ms: delete only a filter that expires at that time, or whose deletion was begun; 0: any.
 * ERR_NOT_FOUND: there is no filter, and nothing is left over. ERR_CONFLICT: the view is of another
 * incarnation, or expires at another time; nothing was changed. ERR_WRONG_TYPE: a foreign key has the name of
 * the view or of a lane; the text has the name, and nothing was changed. ERR_PARSE, ERR_FORMAT: the view is
 * damaged, or of a later version. ERR_CONFIG: a node is not configured. ERR_CONFLICT, too: another process is
 * making the filter, again and again. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
MUST_CHECK enum err log_drop(struct sync_client *l, const struct names *names, uint64_t incarnation,
                             uint64_t due_ms, const struct work *w, struct error *e);
#endif
