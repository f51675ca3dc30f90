/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_LOAD_H
#define SHARD_RESIDENT_LOAD_H
/* Shards of one layer from Redis into memory, in pieces, while entries are applied.
 *
 * The happy path is: load_begin(); batches of pieces are asked for and taken, by a job (load_and_wait());
 * the tail of the lanes was applied past the `folded` that was known
 * at the beginning: load_end(). Behind each batch the node tells its role and its replication id, on the same
 * connection: what it said before counts only if it is a master of an era that the view accepts.
 *
 * Possible failure modes are: a shard is missing, is another one, or has a block without its tag; its node
 * does not answer, or is not the one that the view means. That shard leaves memory again and is told of, the
 * others go on; never is one taken for zeros. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/header.h"
#include "shard/resident/resident.h"
#include "shard/filter/slots.h"

enum {
    LOAD_PIECE = 32 << 10, /* bytes of a piece: a larger one holds up Redis for longer than ten requests */
    LOAD_BATCH = 4         /* pieces of one node that one look at its era covers */
};

/* @shard could not be loaded; @why names its key. ERR_LOST, ERR_FORMAT, ERR_WRONG_TYPE. ERR_FENCED: its
 * writer is later than the view's, or its node is no master of an era that the view accepts. ERR_UNREACHABLE:
 * it may be loaded again. */
typedef void load_failed_fn(void *arg, uint32_t shard, enum err code, const char *why);

/* All is of the caller, and borrowed until the load has ended. */
struct load {
    struct resident *resident;
    unsigned layer;
    const struct names *names;
    const struct placement *placement;
    uint64_t generation;
    struct writer_token writer; /* the view's */
    uint64_t made;              /* the token of the layer */
    const struct trusted *eras; /* the replication ids that the view accepts */
    uint32_t piece_bytes;       /* a power of two, 4 KiB or more */
    uint32_t first, count;      /* shards */
    load_failed_fn *failed;     /* may be NULL */
    void *arg;

    /* Where it is: */
    uint32_t next, offset; /* of the next piece */
    uint32_t failures;
};

/* A GETRANGE: @length bytes of blocks, @offset behind the header; the first piece of a shard has the header
 * before it. */
struct load_piece {
    uint32_t shard, offset, length;
    bool redirected; /* another node has it */
    enum err code;   /* what its reply was, and if that is an error, why */
    struct error why;
};

/* Pieces of one node, and the INFO that tells whether they count. The commands go over one connection
 * together (sync_client_append_together()). Zero-initialised it is empty. */
struct load_batch {
    unsigned where;
    struct slot_redirect redirect;
    struct buffer commands;
    unsigned count; /* of the commands, and where each ends */
    size_t end[2 * LOAD_BATCH + 1];

    /* Of the loader: */
    unsigned pieces, taken, redirections;
    bool asking; /* a node of a cluster said ASK: it precedes each GETRANGE */
    struct load_piece piece[LOAD_BATCH];
};
void load_batch_fini(struct load_batch *b);

/* Begin to load the shards that the caller's part of @l names. As resident_load_begin(). */
MUST_CHECK enum err load_begin(struct load *l, struct error *e);
/* The next batch to ask for, of @most pieces or fewer. False: there is none. */
bool load_next(struct load *l, unsigned most, struct load_batch *b);
/* The next of the @b->count replies, in their order; NULL: there was none. */
void load_take(struct load *l, struct load_batch *b, const redisReply *reply);
/* All replies were taken. True: some pieces were redirected, and @b is to be asked for again, behind what is
 * under way. */
bool load_again(struct load *l, struct load_batch *b);
/* What was loaded whole counts from now on; the number of these shards. */
uint32_t load_end(struct load *l);
/* What was not ended leaves memory. */
void load_cancel(struct load *l);

/* Ask for all pieces, no faster than the budget of @l->resident has it, and wait for them. Many of them are
 * asked for by a thread that gives way to others, while that gets on. */
void load_and_wait(struct load *l, struct sync_client *redis);
#endif
