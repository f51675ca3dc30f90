/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_ADMIN_LOG_LOAD_H
#define SERVICE_ADMIN_LOG_LOAD_H
/* A dump whose chunks have all come becomes a filter that is a log. Blocking.
 *
 * The happy path is: the shards that shard/generations/loading.c has stored, and which no view names, are
 * copied into the shards of a filter that is being made (shard/generations/make.h); the step that publishes
 * its view notes that the load is done; what was stored is deleted. Possible failure modes are: whoever does
 * it dies before that step (the next one makes another filter of what is stored), or behind it (what is
 * stored expires); a stored shard is gone (ERR_LOST: its chunk is to be sent again); another dump is loaded,
 * or DEL was sent, meanwhile (ERR_FENCED). */
#include "service/filters/filter_make.h"
#include "shard/generations/loading.h"
#include "shard/generations/make.h"

/* Make the filter of @as->fence->names, which gets the new incarnation. @out is its view. Errors are those of
 * log_make(), too. */
MUST_CHECK enum err log_load_publish(struct filter_naming *as, const struct loading *l,
                                     const struct placement *on, struct log_view *out, const struct work *w,
                                     struct error *e);
#endif
