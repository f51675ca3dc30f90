/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_MEMORY_H
#define EXPANSION_JOB_MEMORY_H
/* Memory: what a filter occupies and what its nodes have. */
#include "base/error.h"
#include "expansion/decide/plan.h"
#include "shard/view/handle.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/view.h"

/* Bytes that Redis allocates for a generation (0 for NULL) and for all generations of a view. */
uint64_t memory_of_generation(const struct generation *g);
uint64_t memory_of_view(const struct view *v);

/* INFO memory of a node of the list or of a master, by the number that @l has for it: all but its name, share
 * and shards. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED: it says nothing of its memory. */
MUST_CHECK enum err memory_of_node(struct sync_client *l, unsigned where, struct plan_node *out,
                                   struct error *e);

/* INFO memory of the nodes @on, in its order; of a cluster of all masters, in that of sync_client_masters().
 * Nodes of the list that are not @on are not asked. The caller frees *@out, which is NULL on error, with
 * *@count 0. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. */
MUST_CHECK enum err memory_of_nodes(struct sync_client *l, const struct placement *on, struct plan_node **out,
                                    unsigned *count, struct error *e);

/* The same with `before`: what the generations of @v, the view of @f's filter, occupy on each, in a cluster
 * by the slot of each shard. Nodes that they lie on and that are not @on come behind, as `leaving`; their
 * memory is not known where they do not answer. ERR_CONFIG: a generation names a node that is not configured.
 */
MUST_CHECK enum err memory_of_filter(const struct handle *f, const struct view *v, const struct placement *on,
                                     struct plan_node **out, unsigned *count, struct error *e);

/* plan_fits() by what the nodes of @g, a generation of @f's filter, say now. */
MUST_CHECK enum err memory_fits(const struct handle *f, const struct generation *g, const struct plan *p,
                                char warning[256], struct error *e);
#endif
