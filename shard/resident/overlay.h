/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_OVERLAY_H
#define SHARD_RESIDENT_OVERLAY_H
/* The entries of a log that Redis' shards may not have yet, for shards that are not in memory: a block is
 * what GETRANGE gives OR what the overlay has of it. An entry goes when `folded` has passed it and no
 * GETRANGE that was sent before that was known is under way: its answer may lack the entry.
 *
 * All functions may be called by any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include "base/error.h"
#include "shard/filter/hash.h"
#include "shard/log/position.h"
#include "shard/resident/bitmap.h"

struct overlay;

/* A key of an entry, and where it lies. */
struct overlay_key {
    struct key_hash hash; /* mixed: what hash_place() takes */
    uint32_t shard, block;
};

/* A GETRANGE under way; of the caller, and left alone until its end. */
struct overlay_read {
    uint64_t ticket;
    bool counts; /* false: overlay_discard() came between */
    TAILQ_ENTRY(overlay_read) next;
};

/* A walk through the keys; of the caller, and left alone until its end. */
struct overlay_walk {
    unsigned lane;
    void *at; /* the entry that comes next, NULL: behind the last one of the lane */
    LIST_ENTRY(overlay_walk) next;
};

/* A key that a walk has met. */
struct overlay_met {
    struct overlay_key key;
    uint32_t layer;
};

/* Of a filter with @lanes lanes. NULL: no memory. */
struct overlay *overlay_new(unsigned lanes);
void overlay_free(struct overlay *o);

/* Add @count keys of the entry @id of @lane, all in @layer. Entries of a lane come in order. ERR_NOMEM:
 * nothing was added.
 */
MUST_CHECK enum err overlay_add(struct overlay *o, unsigned lane, struct log_id id, unsigned layer,
                                const struct overlay_key *keys, unsigned count, struct error *e);

/* Set in @b the bits of all keys of @layer in shards that are loading. Entries may come meanwhile, and shards
 * that load do so until the end. */
void overlay_or(struct overlay *o, unsigned layer, struct bitmap *b);

/* A GETRANGE of a block is sent. */
void overlay_read_begin(struct overlay *o, struct overlay_read *read);
/* It was answered: set in @bytes, one block under @g, the bits of the keys that lie there. False: there was a
 * new view meanwhile, and the answer is none. */
bool overlay_read_end(struct overlay *o, struct overlay_read *read, unsigned layer, const struct geometry *g,
                      uint32_t shard, uint32_t block, uint8_t *bytes);
/* It never will be answered. */
void overlay_read_cancel(struct overlay *o, struct overlay_read *read);
/* There is a new view: no answer of what is under way counts. */
void overlay_discard(struct overlay *o);

/* Forget all: lanes are read again from where `folded` of another view begins. */
void overlay_reset(struct overlay *o);

/* `folded` of each lane, as read in one command with the layers of the view in use; never goes back. */
void overlay_folded(struct overlay *o, const struct log_id *folded);
/* `folded` is known to have passed @id. */
bool overlay_is_folded(struct overlay *o, unsigned lane, struct log_id id);

/* Walk through the keys of entries, lane by lane, oldest first. The lock is held for one overlay_walk_next()
 * at a time; entries that go meanwhile are left out. */
void overlay_walk_begin(struct overlay *o, struct overlay_walk *w);
/* The next keys of entries behind @from and up to @to (of each lane; NULL: all): at most @room, which is
 * LOG_KEYS_MAX or more, maybe none. False: the walk has met all. */
bool overlay_walk_next(struct overlay *o, struct overlay_walk *w, const struct log_id *from,
                       const struct log_id *to, struct overlay_met *met, unsigned room, unsigned *count);
void overlay_walk_end(struct overlay *o, struct overlay_walk *w);

/* Keys held, and the bytes that they take. */
void overlay_size(struct overlay *o, uint64_t *keys, uint64_t *bytes);
#endif
