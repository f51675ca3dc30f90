/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BLOCK_READ_INTERNAL_H
#define SHARD_RESIDENT_BLOCK_READ_INTERNAL_H
/* What block_read.c (pins, end) and block_batch.c (one write to one node, and its replies)
 * share. */
#include "shard/resident/block_read.h"

enum want_state {
    WANT_ASK,
    WANT_HELD_BACK, /* nothing can be sent to its node now */
    WANT_SENT,
    WANT_HAVE
};

/* A pinned block. */
struct want {
    struct block_at at;
    unsigned where;
    uint8_t state;
    uint8_t redirections;
    bool is_copied;                /* @bytes are of a node that ASK named: they count if it is named again */
    struct slot_redirect redirect; /* the node to ask; port 0: the one of the map */
    struct overlay_read read;      /* registered until WANT_HAVE */
    uint8_t *bytes;                /* the reply, until it counts */
};

struct batch;
LIST_HEAD(batches, batch);

struct block_read {
    struct block_source source;
    struct async_client *async;
    struct event *timer;
    block_read_done_fn *done;
    void *arg;
    unsigned count, missing; /* number of wants; of those that are not WANT_HAVE */
    struct want *want;       /* in order of address, layer, shard and block */
    uint8_t *answers;
    struct batches under_way;
};

/* --- block_batch.c --- */
/* Ask for the wants from @first on that are WANT_ASK and go to the same node as @first. False: they cannot be
 * sent now, and are WANT_HELD_BACK. */
bool batch_send(struct block_read *r, unsigned first);
/* Drop the replies that are still to come. */
void batch_abandon(struct batch *b);

/* --- block_read.c --- */
/* Send what is WANT_ASK; if nothing is missing, finish. @r may be freed after this call. */
void block_read_go_on(struct block_read *r);
/* block_read_go_on() after a pause. */
void block_read_go_on_later(struct block_read *r);
/* Report @result. @r may be freed after this call. */
void block_read_finish(struct block_read *r, const struct block_result *result);
#endif
