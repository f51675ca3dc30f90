/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_CLAIM_H
#define SHARD_VIEW_CLAIM_H
/* Which nodes belong together, and which of them is the metadata node: `P:nodes` on every node of a list,
 * "metadata node, node, ...", each with its database ("/N", behind a path "?db=N") unless that is 0. A
 * coordinator with another metadata node would take all filters for lost, sweep their shards, and make them
 * again on its own node. A coordinator whose list lacks a node, or has another database of it, would do so
 * beside shards that it cannot see. Such a coordinator does not start.
 *
 * The happy path is: the nodes have no list, or the same list. Possible failure modes are: another metadata
 * node, or a node of another installation (refused); a node that is missing here (fine if no view names it);
 * a metadata node that has lost its list (fine if no view names a node that is missing here); an additional
 * node (it joins); a node that does not answer (the others are compared; nothing is claimed before all nodes
 * have been asked); installations of an older version, which wrote no list (the metadata node is the one that
 * has the set of filter names); two coordinators that start at the same time (both claim the nodes in the
 * same order, whatever their lists say, and neither replaces a list that it has not judged). In a cluster
 * slots decide, and nothing is claimed. */
#include <stdbool.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"

/* Whether a coordinator with @nodes may work beside those who wrote @recorded. ERR_CONFIG: it may not; the
 * text has both lists. *@lacks: @recorded has a node that is not in @nodes. Pure. */
MUST_CHECK enum err claim_judge(const struct nodes *nodes, const char *recorded, bool *lacks,
                                struct error *e);

/* Look at all nodes that answer; claim them if all do. *@whole: all nodes are claimed. ERR_CONFIG: see
 * claim_judge(); or a filter has shards on a node that is not configured. ERR_NOMEM. There are no other
 * errors: call again to ask the nodes that did not answer. */
MUST_CHECK enum err claim_nodes(struct sync_client *l, const char *prefix, bool *whole, struct error *e);
#endif
