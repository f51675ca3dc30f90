/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_NOTIFY_H
#define SHARD_VIEW_NOTIFY_H
/* Telling other processes that a view has changed, before they read it again by themselves. */
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"

/* Append a notice to each lane of the view: a process that reads the lane's tail then reads the view. A hint:
 * nothing relies on it, and errors are ignored. Blocking; call it after the change. */
void log_view_notify(struct sync_client *l, const struct names *names);
#endif
