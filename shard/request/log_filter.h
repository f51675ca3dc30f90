/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_LOG_FILTER_H
#define SHARD_REQUEST_LOG_FILTER_H
/* One incarnation of a filter, as the workers of a process share it: its lanes, and the generations that the
 * lanes' entries are applied to. A control (control.h) opens it, keeps it to the view in Redis, and closes
 * it. */
#include "shard/filter/generation.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/budget.h"

struct log_filter;

/* What the control is wanted for is told by this, from any thread. */
typedef void log_filter_wake_fn(void *arg);

/* Nothing is known of it yet: requests wait. @names is copied, its incarnation is not looked at; @nodes and
 * @budget are borrowed. NULL: no memory. */
struct log_filter *log_filter_new(const struct names *names, const struct nodes *nodes, struct budget *budget,
                                  log_filter_wake_fn *wake, void *arg);
/* Have the control read the view, soon. Any thread. */
void log_filter_look(struct log_filter *f);
/* It was closed for good: requests are told why. Any thread. */
bool log_filter_is_closed(struct log_filter *f);
/* For whoever was answered by it. Any thread. */
uint64_t log_filter_incarnation(struct log_filter *f);
/* The node that has all shards of the generation that answers. False: there is none, or none is held. Any
 * thread. */
MUST_CHECK bool log_filter_node(struct log_filter *f, char out[NODE_NAME_MAX]);
/* No request may be under way, and the control must have been freed. False: a lane is being read; call again.
 * NULL is fine. */
MUST_CHECK bool log_filter_free(struct log_filter *f);
#endif
