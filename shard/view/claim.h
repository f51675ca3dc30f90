/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_CLAIM_H
#define SHARD_VIEW_CLAIM_H
/* Which nodes belong together, and which of them is home: `P:nodes` on every node of a list, "home, node,
 * ...". A coordinator with another home would take the filters for lost, sweep their shards and make them
 * again at its own; one whose list lacks a node would do so beside shards that it cannot see. So it does not
 * start.
 *
 * The happy path is: nothing is there, or the same list. Possible failure modes are: another home, or a node
 * of another installation (refused), a node less (fine where no view names it), one more (it joins), a node
 * that does not answer (the others tell; nothing is claimed before it has been asked), installations of an
 * older version, which have no such key (home is where the names of filters lie), two that start at the same
 * time (they claim nodes in one order, whatever their lists say, and none writes over a list that it has not
 * judged). In a cluster slots decide, and nothing is claimed. */
#include <stdbool.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"

/* Whether a coordinator with @nodes may work beside those who wrote @recorded. ERR_CONFIG: it may not; both
 * lists are in the text. *@lacks: @recorded has a node that is not in @nodes. Pure. */
MUST_CHECK enum err claim_judge(const struct nodes *nodes, const char *recorded, bool *lacks,
                                struct error *e);

/* Look at all nodes that answer; claim them if all do. *@whole: they are claimed. ERR_CONFIG: see
 * claim_judge(); or a filter has shards on a node that is not configured. ERR_NOMEM. Nothing else is an
 * error: who does not answer is asked again by whoever calls this again. */
MUST_CHECK enum err claim_nodes(struct sync_client *l, const char *prefix, bool *whole, struct error *e);
#endif
