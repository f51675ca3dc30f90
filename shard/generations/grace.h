/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_GRACE_H
#define SHARD_GENERATIONS_GRACE_H
/* The generation that was current before a cutover: for its time of grace its shards are still folded, and it
 * may become current again. Then the view drops it, and then its shards are deleted. Blocking.
 *
 * @mutex is the value of the mutex of the filter's job, which the caller has; "": nobody may have it. It is
 * compared when the view is changed, so a caller that slept changes nothing of a later job. ERR_MUTEX_LOST.
 *
 * P:{F}:forgotten is a hash of what is still to be deleted: "<incarnation> <number>", and the text of the
 * generation. A number is never used twice, so a shard that is deleted late belongs to no other
 * generation. */
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/view/log_view.h"

/* Make @g, the other generation of the view, the current one. @version is that of the view that the caller
 * goes by. ERR_TIMEOUT: the view has changed since. ERR_CONFLICT: the generation is still being built, lacks
 * keys that were acknowledged, or was not folded in one of the lanes. ERR_NOT_FOUND. */
MUST_CHECK enum err grace_switch(struct sync_client *l, const struct names *names, const char *mutex,
                                 uint64_t version, const struct generation *g, struct error *e);

/* Let the view never go back to the generation in @slot of @v, which it does not read: @lane was trimmed past
 * that generation's position, as the view went back. Without effect if the view has changed. */
MUST_CHECK enum err grace_end(struct sync_client *l, const struct names *names, const struct log_view *v,
                              unsigned slot, unsigned lane, struct error *e);

/* Drop generation @number, which is not current, from the view: its grace is over, or an operator ends its
 * build. ERR_OK also if the view does not have it. ERR_CONFLICT: it is the current one. */
MUST_CHECK enum err grace_forget(struct sync_client *l, const struct names *names, const char *mutex,
                                 uint64_t number, struct error *e);

/* Delete the shards of all dropped generations; after an error call again. ERR_CONFIG: one lies on a node
 * that is not configured. */
MUST_CHECK enum err grace_delete(struct sync_client *l, const struct names *names, struct error *e);
#endif
