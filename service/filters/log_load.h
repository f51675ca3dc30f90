/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_FILTERS_LOG_LOAD_H
#define SERVICE_FILTERS_LOG_LOAD_H
/* Turns a dump whose chunks have all come into a filter. Blocking.
 *
 * The happy path is: the shards that shard/generations/loading.c has stored, which no view names, are
 * copied into the shards of a new filter (shard/generations/make.h); the script that publishes its view also
 * notes that the load is done; the stored shards are deleted. Possible failure modes are: the process dies
 * before that script (the next one makes another filter from what is stored) or after it (the stored shards
 * expire); a stored shard is gone (ERR_LOST: its chunk must be sent again); another dump is loaded or DEL was
 * sent meanwhile (ERR_FENCED). */
#include "service/filters/filter_make.h"
#include "shard/generations/loading.h"
#include "shard/generations/make.h"

/* Make the filter of @as->handle->names, which gets a new incarnation; @shard_bytes: the most of a shard of
 * layers to come; @out: its view. Errors also as of log_make(). */
MUST_CHECK enum err log_load_publish(struct filter_naming *as, const struct loading *l,
                                     const struct placement *on, uint32_t shard_bytes, struct log_view *out,
                                     const struct work *w, struct error *e);
#endif
