/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_LOAD_H
#define SHARD_RESIDENT_LOAD_H
/* Shards of one layer from Redis into memory, in pieces, while entries are applied.
 *
 * The happy path is: load_begin(); pieces are asked for and taken, by a job (load_by_link()) or beside
 * requests (load_stream_start()); the tail of the lanes was applied past the `folded` that was known at the
 * beginning, and the era of the nodes is still the view's: load_end(). Possible failure modes are: a shard is
 * missing, is another one, or has a block without its tag; its node does not answer. That shard leaves memory
 * again and is told of, the others go on; never is one taken for zeros. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/link.h"
#include "shard/names.h"
#include "shard/nodes.h"
#include "shard/resident/header.h"
#include "shard/resident/resident.h"
#include "shard/store.h"

enum {
    LOAD_PIECE_JOB = 256 << 10, /* bytes of a piece, for jobs, and beside requests */
    LOAD_PIECE_REQUESTS = 64 << 10,
    LOAD_WINDOW = 8 /* pieces under way */
};

/* @shard could not be loaded: ERR_LOST, ERR_FORMAT, ERR_FENCED, ERR_WRONG_TYPE: @why names its key;
 * ERR_UNREACHABLE. */
typedef void load_failed_fn(void *arg, uint32_t shard, enum err code, const char *why);

/* All is of the caller, and borrowed until the load has ended. */
struct load {
    struct resident *resident;
    unsigned layer;
    const struct names *names;
    const struct placement *placement;
    uint64_t generation;
    struct writer_token writer; /* the view's */
    uint32_t piece_bytes;       /* a power of two, 4 KiB or more */
    uint32_t first, count;      /* shards */
    load_failed_fn *failed;     /* may be NULL */
    void *arg;

    /* Where it is: */
    uint32_t next, offset; /* of the next piece */
    uint32_t failures;
};

/* A GETRANGE: @length bytes of blocks, @offset behind the header; the first piece of a shard has the header
 * before it.
 */
struct load_piece {
    uint32_t shard, offset, length;
    unsigned where;
};

/* Begin to load the shards that the caller's part of @l names. As resident_load_begin(). */
MUST_CHECK enum err load_begin(struct load *l, struct error *e);
/* The next piece to ask for, its command appended to @command. False: there is none. */
bool load_next(struct load *l, struct load_piece *piece, struct buffer *command);
/* Its reply; NULL: there was none. */
void load_take(struct load *l, const struct load_piece *piece, const redisReply *reply);
/* What was loaded whole counts from now on; the number of these shards. */
uint32_t load_end(struct load *l);
/* What was not ended leaves memory. */
void load_cancel(struct load *l);

/* Ask for all pieces and wait for them. */
void load_by_link(struct load *l, struct link *link);

/* Ask for all pieces on an event loop, @window at a time. @done is told when all were taken, maybe before
 * this returns; the stream is gone by then. False: no memory; nothing was asked for. */
struct load_stream;
typedef void load_done_fn(void *arg);
bool load_stream_start(struct load_stream **out, struct load *l, struct store *store, unsigned window,
                       load_done_fn *done, void *arg);
/* Ask for nothing more, tell nobody. Replies under way are dropped; @l may go at once. */
void load_stream_cancel(struct load_stream *s);
#endif
