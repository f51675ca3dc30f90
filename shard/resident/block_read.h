/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BLOCK_READ_H
#define SHARD_RESIDENT_BLOCK_READ_H
/* Read the blocks of keys whose shards are not in memory, on an event loop, and keep them pinned: meanwhile
 * resident_look() and resident_apply() treat these keys as if their shards were in memory.
 *
 * Blocks that no request has read yet are asked for, in one write to each node, with INFO replication behind
 * them: a server's replies count if it is a master of a replication id that the view accepts. In each view
 * the header of a shard is read with its first block. If a connection breaks, or a node is busy, what is
 * missing is asked for again, until the caller ends it.
 *
 * For a check: read; ask for a tail read that begins behind the request; look; end. For an add: read; after
 * ERR_OK send the entry; once it was applied, end. */
#include <event2/event.h>
#include "shard/filter/hash.h"
#include "shard/redis/wire/replication.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/header.h"
#include "shard/resident/resident.h"
#include "shard/redis/async_client.h"

struct block_read;

/* What to read, by which view. All of it is borrowed until block_read_end(). */
struct block_source {
    struct resident *resident;
    uint32_t view; /* resident_view() at the time when the rest was taken from the view */
    const struct names *names;
    const struct placement *placement;
    uint64_t generation;
    struct writer_token writer;
    const struct layer *layers; /* of the generation: the tokens under which their shards were made */
    const struct trusted *eras; /* replication ids of the shards' nodes that the view accepts */
    uint32_t moves; /* of a cluster: cluster_moves() before a look at which the view accepted all masters */
};

/* ERR_OK: every block is pinned and was read, or its shard is whole in memory. If keys are still unknown
 * then, read again: the lanes are being read again, a layer was added, or a shard has to be loaded again.
 * is_other_era (ERR_FENCED): a node is no master of an era that the view accepts, or a slot has moved since
 * all masters were looked at; load the view. ERR_LOST, ERR_FORMAT, ERR_WRONG_TYPE: the text names the shard's
 * key, and @at the block. ERR_FENCED: there is a new view, or a shard has a later writer than the view.
 * ERR_UNREACHABLE: there were too many redirections. ERR_REFUSED: the node's error. */
struct block_result {
    enum err code;
    bool is_other_era;
    uint32_t later; /* a shard has a later writer than the view of this number (resident_view()); 0: none */
    struct block_at at; /* the block that caused the error */
    const char *text;   /* valid during the call */
};
typedef void block_read_done_fn(void *arg, const struct block_result *result);

enum { BLOCK_READ_KEYS_MAX = 4096 };

/* Pin the blocks of @count keys, by their hashes under the filter's seed, in all layers, and ask for them.
 * @done is called once, later, in the thread of @base, @async and this call. ERR_NOMEM: as blocks_pin();
 * ERR_FENCED: @source is not of the resident's latest view. On error nothing is pinned, and @done is not
 * called. */
MUST_CHECK enum err block_read_start(struct block_read **out, const struct block_source *source,
                                     struct event_base *base, struct async_client *async,
                                     const struct key_hash *hashes, unsigned count, block_read_done_fn *done,
                                     void *arg, struct error *e);
/* Unpin the blocks; @done is not called any more. At any time, also within @done, but before the client is
 * freed. @r may be NULL. */
void block_read_end(struct block_read *r);
#endif
