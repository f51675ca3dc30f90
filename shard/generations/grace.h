/* SPDX-License-Identifier: MIT */
#ifndef SHARD_GENERATIONS_GRACE_H
#define SHARD_GENERATIONS_GRACE_H
/* The generation that was read before a cutover: for a time of grace its shards are folded on, and it may be
 * read again; then the view forgets it, and then its shards are deleted. Blocking.
 *
 * P:{F}:forgotten is a hash of what is still to be deleted: "<incarnation> <number>", and the text of the
 * generation. A number is never given twice, so a shard that is deleted late is nobody's. */
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/resident/header.h"

/* Make generation @number, the other one of the view, the one that is read. ERR_CONFLICT: it is still being
 * built, lacks keys that were acknowledged, or was not folded in one of the lanes. ERR_NOT_FOUND. */
MUST_CHECK enum err grace_switch(struct sync_client *l, const struct names *names, uint64_t number,
                                 struct error *e);

/* The view forgets generation @number, which is not read: its grace is over, or an operator ends its build.
 * A generation that the view does not have is forgotten. ERR_CONFLICT: it is read. */
MUST_CHECK enum err grace_forget(struct sync_client *l, const struct names *names, uint64_t number,
                                 struct error *e);

/* Delete the shards of all generations that were forgotten; after an error: again. ERR_CONFIG: one lies on
 * nodes that are not configured. */
MUST_CHECK enum err grace_delete(struct sync_client *l, const struct names *names, struct error *e);
#endif
