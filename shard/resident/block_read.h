/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BLOCK_READ_H
#define SHARD_RESIDENT_BLOCK_READ_H
/* Read the blocks of keys that lie in shards which are not in memory, on an event loop, and keep them pinned:
 * meanwhile resident_look() and resident_apply() answer for these keys as if the shards were in memory.
 *
 * Blocks that nobody has read yet are asked for, one write a node, with INFO replication behind them: what a
 * server says counts if it is a master of a replication id that the view has accepted. The header of a shard
 * is read with its first block, once a view. Where a connection breaks, or a node is busy, what is missing is
 * asked for again until the deadline.
 *
 * For a check: read; ask for a tail read that begins behind the request; look; end. For an add: read; when
 * told ERR_OK send the entry; when it was applied, end. */
#include <event2/event.h>
#include "shard/filter/hash.h"
#include "shard/redis/wire/replication.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/header.h"
#include "shard/resident/resident.h"
#include "shard/redis/async_client.h"

struct block_read;

/* What is read, by which view. All is borrowed until block_read_end(). */
struct block_source {
    struct resident *resident;
    uint32_t view; /* resident_view(), as it was when the rest here was taken from the view */
    const struct names *names;
    const struct placement *placement;
    uint64_t generation;
    struct writer_token writer;
    const struct layer *layers; /* of the generation: the tokens under which their shards were made */
    const struct trusted *eras; /* replication ids of shards' nodes that the view accepts */
};

/* ERR_OK: every block is pinned and was read, or its shard is whole in memory. If the keys are unknown still,
 * the lanes are read again, a layer was added, or a shard has left memory meanwhile: read again.
 * is_other_era (ERR_FENCED): a node is not a master of an era that the view accepts; load the view.
 * ERR_LOST, ERR_FORMAT, ERR_WRONG_TYPE: the text names the shard's key, as @at does.
 * ERR_FENCED: there is a new view, or a shard has a later writer than the view.
 * ERR_UNREACHABLE, ERR_TIMEOUT: at the deadline, or too many redirections. ERR_REFUSED: the node's error. */
struct block_result {
    enum err code;
    bool is_other_era;
    bool is_missing;    /* ERR_LOST: the shard's key does not exist, or it is blank there */
    struct block_at at; /* of an error: the block that was asked for */
    const char *text;   /* valid during the call */
};
typedef void block_read_done_fn(void *arg, const struct block_result *result);

enum { BLOCK_READ_KEYS_MAX = 4096 };

/* Pin and ask for the blocks of @count keys, by their hashes under the filter's seed, in all layers. @done is
 * told once, later, in @base's thread, which is that of @store and of this call. ERR_NOMEM: as blocks_pin();
 * ERR_FENCED: @source is not of the resident's latest view. On error nothing is pinned, and nobody is told.
 */
MUST_CHECK enum err block_read_start(struct block_read **out, const struct block_source *source,
                                     struct event_base *base, struct async_client *async, unsigned timeout_ms,
                                     const struct key_hash *hashes, unsigned count, block_read_done_fn *done,
                                     void *arg, struct error *e);
/* Unpin the blocks; nobody is told from now on. At any time, also within @done; before the store is freed.
 * NULL is fine. */
void block_read_end(struct block_read *r);
#endif
