/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_BLOCK_READ_INTERNAL_H
#define SHARD_RESIDENT_BLOCK_READ_INTERNAL_H
/* What block_read.c (pins, deadline, the end) and block_batch.c (one write to one node, and its replies)
 * share. */
#include "shard/resident/block_read.h"

enum want_state {
    WANT_ASK,
    WANT_HELD_BACK, /* its node cannot be sent to now */
    WANT_SENT,
    WANT_HAVE
};

/* A block that is pinned. */
struct want {
    struct block_at at;
    unsigned where;
    uint8_t state;
    uint8_t redirections;
    struct slot_redirect redirect; /* where it is to be asked for; port 0: by the map */
    struct overlay_read read;      /* until WANT_HAVE */
    uint8_t *bytes;                /* the answer, until it counts */
};

struct batch;
LIST_HEAD(batches, batch);

struct block_read {
    struct block_source source;
    struct async_client *async;
    struct event *timer;
    uint64_t deadline;
    block_read_done_fn *done;
    void *arg;
    unsigned count, missing; /* of @want, and those that are not WANT_HAVE */
    struct want *want;       /* by address, layer, shard and block */
    uint8_t *answers;
    struct batches under_way;
    struct error passing; /* what a node said that will pass */
};

/* --- block_batch.c --- */
/* Ask for the wants from @first on that are WANT_ASK and go where that one goes. False: they cannot be sent
 * now, and are WANT_HELD_BACK. */
bool batch_send(struct block_read *r, unsigned first);
/* Its replies are dropped. */
void batch_abandon(struct batch *b);

/* --- block_read.c --- */
/* Send what is WANT_ASK, or tell that nothing is missing; @r may be gone behind this. */
void block_read_go_on(struct block_read *r);
/* The same after a pause, or the deadline. */
void block_read_go_on_later(struct block_read *r);
/* Tell it; @r may be gone behind this. */
void block_read_finish(struct block_read *r, const struct block_result *result);
#endif
