/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_MEMORY_H
#define EXPANSION_JOB_MEMORY_H
/* Memory of a filter and of its nodes. */
#include "base/error.h"
#include "expansion/decide/plan.h"
#include "shard/view/handle.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/view.h"

/* Bytes that Redis allocates for a generation (NULL: 0), and for all generations of a view. */
uint64_t memory_of_generation(const struct generation *g);
uint64_t memory_of_view(const struct view *v);

/* INFO memory of a node of the list or of a master, by its number in @l; fills all but name, share and
 * shards. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED: the node does not report its memory. */
MUST_CHECK enum err memory_of_node(struct sync_client *l, unsigned where, struct plan_node *out,
                                   struct error *e);

/* INFO memory of the nodes @on, in that order; in a cluster of all masters, in the order of
 * sync_client_masters(). Sets `before`: what the generations of @v, the view of @f's filter, occupy on each
 * node; in a cluster by the slot of each shard. Nodes that hold shards and are not @on follow, as `leaving`;
 * if they do not reply, their memory is unknown, as is that of a cluster's master without slots. @v NULL:
 * `before` stays 0, and only the nodes @on are asked. The caller frees *@out, which is NULL on error, with
 * *@count 0. ERR_CONFIG: a generation names a node that is not configured. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED, ERR_NOMEM. */
MUST_CHECK enum err memory_of_filter(const struct handle *f, const struct view *v, const struct placement *on,
                                     struct plan_node **out, unsigned *count, struct error *e);

/* plan_fits() with what memory_of_filter() finds. The caller frees *@nodes, which is complete if the code is
 * ERR_OK or ERR_REFUSED by plan_fits(), else NULL. @nodes and @count may be NULL. */
MUST_CHECK enum err memory_fits(const struct handle *f, const struct view *v, const struct placement *on,
                                const struct plan *p, struct plan_node **nodes, unsigned *count,
                                char warning[256], struct error *e);
#endif
