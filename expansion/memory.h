/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_MEMORY_H
#define EXPANSION_MEMORY_H
/* Memory: what a filter occupies and what its nodes have. */
#include "base/error.h"
#include "expansion/plan.h"
#include "shard/link.h"
#include "shard/view.h"

/* Bytes that Redis allocates for a generation (0 for NULL) and for all generations of a view. */
uint64_t memory_of_generation(const struct generation *g);
uint64_t memory_of_view(const struct view *v);

/* INFO memory of every node; @out has room for GENERATION_NODES_MAX. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED. */
MUST_CHECK enum err memory_of_nodes(struct link *l, struct plan_node *out, struct error *e);
#endif
