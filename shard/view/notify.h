/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_NOTIFY_H
#define SHARD_VIEW_NOTIFY_H
/* Who changes a view, and would have others know it before they read it again by themselves. */
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"

/* Append a notice to each lane of the view: whoever reads the lane's tail reads the view. A hint: nothing
 * relies on it, and errors are of no account. Blocking; behind the change. */
void log_view_notify(struct sync_client *l, const struct names *names);
#endif
