/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_LOAD_H
#define SHARD_RESIDENT_LOAD_H
/* Load shards of one layer from Redis into memory, in pieces, while entries are applied.
 *
 * The happy path is: load_begin(); pieces are asked for and taken by a job (load_and_wait()); the
 * tail of the lanes is applied past the `folded` that was known at the beginning; load_end(). Behind some
 * pieces the node tells its role and its replication id, on the same connection: they count only if it is a
 * master of an era that the view accepts.
 *
 * Possible failure modes are: a shard is missing, is another one, or has a block without its tag; its node
 * does not answer, or is not the one that the view means. Such a shard leaves memory again and is reported;
 * the others go on. A shard is never taken for zeros. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/header.h"
#include "shard/resident/resident.h"

enum {
    LOAD_PIECE = 32 << 10, /* bytes of a piece; a larger one delays requests to Redis by more than ten of them
                            * would */
};

/* Called for a @shard that could not be loaded; @why names its key. ERR_LOST, ERR_FORMAT, ERR_WRONG_TYPE.
 * ERR_FENCED: its writer is later than the view's, or its node is no master of an era that the view accepts.
 * ERR_UNREACHABLE: it may be loaded again. */
typedef void load_failed_fn(void *arg, uint32_t shard, enum err code, const char *why);

/* The fields up to @arg belong to the caller, and are borrowed until the load has ended. */
struct load {
    struct resident *resident;
    unsigned layer;
    const struct names *names;
    const struct placement *placement;
    uint64_t generation;
    struct writer_token writer; /* the view's */
    uint64_t made;              /* the token of the layer */
    const struct trusted *eras; /* the replication ids that the view accepts */
    uint32_t first, count;      /* shards [first, first + count) */
    load_failed_fn *failed;     /* may be NULL */
    void *arg;

    /* The state of the load: */
    uint32_t next, offset; /* shard and byte of the next piece */
    uint32_t failures;
    bool redirected; /* some shard was not where the map of the cluster says */
};

/* Begin to load the shards that the caller's part of @l names. Errors: those of resident_load_begin(). */
MUST_CHECK enum err load_begin(struct load *l, struct error *e);
/* Let shards that were loaded whole count from now on. Returns their number. */
uint32_t load_end(struct load *l);
/* Shards whose load was not ended leave memory. */
void load_cancel(struct load *l);

/* Ask for all pieces, at most at the rate of @l->resident's budget, and wait for them. For many pieces a
 * thread that yields to others does this, while it makes progress. */
void load_and_wait(struct load *l, struct sync_client *redis);
#endif
