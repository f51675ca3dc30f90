/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_LOG_FILTER_H
#define SHARD_REQUEST_LOG_FILTER_H
/* One incarnation of a filter, as the workers of a process share it: its lanes, and the generations to which
 * the lanes' entries are applied. A control (control.h) opens it, keeps it in step with the view in Redis,
 * and closes it. */
#include "shard/filter/generation.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/budget.h"

struct log_filter;

/* Called when the control is needed, from any thread. */
typedef void log_filter_wake_fn(void *arg);

/* Nothing is known of the filter yet: requests wait. @names is copied, its incarnation is ignored; @nodes and
 * @budget are borrowed. NULL: no memory. */
struct log_filter *log_filter_new(const struct names *names, const struct nodes *nodes, struct budget *budget,
                                  log_filter_wake_fn *wake, void *arg);
/* Let the control load the view, soon. Any thread. */
void log_filter_look(struct log_filter *f);
/* True if it was closed for good: requests get the reason. Any thread. */
bool log_filter_is_closed(struct log_filter *f);
/* For callers that it has answered. Any thread. */
uint64_t log_filter_incarnation(struct log_filter *f);
/* The node that has all shards of the generation that answers. False: there are several, or none is held. Any
 * thread. */
MUST_CHECK bool log_filter_node(struct log_filter *f, char out[NODE_NAME_MAX]);
/* No request may be under way, and the control must have been freed. False: a lane is being read; call again.
 * @f may be NULL. */
MUST_CHECK bool log_filter_free(struct log_filter *f);
#endif
