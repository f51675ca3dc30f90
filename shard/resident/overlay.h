/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_OVERLAY_H
#define SHARD_RESIDENT_OVERLAY_H
/* The entries of a log that the shards in Redis may lack, for shards that are not in memory: a block is the
 * reply to GETRANGE, ORed with what the overlay has of it. An entry is dropped once `folded` has passed it,
 * and no GETRANGE is under way that was sent before that was known: its reply may lack the entry.
 *
 * Any thread may call all functions. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include "base/error.h"
#include "shard/filter/hash.h"
#include "shard/log/position.h"
#include "shard/resident/bitmap.h"

struct overlay;

/* A key of an entry, and its place. */
struct overlay_key {
    struct key_hash hash; /* mixed: the argument of hash_place() */
    uint32_t shard, block;
};

/* A GETRANGE under way. It belongs to the caller, who must not touch it until it ends. */
struct overlay_read {
    uint64_t ticket;
    bool counts; /* false: overlay_discard() was called meanwhile */
    TAILQ_ENTRY(overlay_read) next;
};

/* A walk through the keys. It belongs to the caller, who must not touch it until it ends. */
struct overlay_walk {
    unsigned lane;
    void *at; /* the next entry; NULL: the end of the lane */
    LIST_ENTRY(overlay_walk) next;
};

/* A key that a walk has met. */
struct overlay_met {
    struct overlay_key key;
    uint32_t layer;
};

/* For a filter with @lanes lanes. NULL: no memory. */
struct overlay *overlay_new(unsigned lanes);
void overlay_free(struct overlay *o);

/* Add @count keys of the entry @id of @lane, all in @layer. Entries of a lane come in order. ERR_NOMEM:
 * nothing was added. */
MUST_CHECK enum err overlay_add(struct overlay *o, unsigned lane, struct log_id id, unsigned layer,
                                const struct overlay_key *keys, unsigned count, struct error *e);

/* Set in @b the bits of all keys of @layer in shards that are loading. Other threads may add entries
 * meanwhile. Shards that are loading must do so until the end. */
void overlay_or(struct overlay *o, unsigned layer, struct bitmap *b);

/* A GETRANGE of a block is about to be sent. */
void overlay_read_begin(struct overlay *o, struct overlay_read *read);
/* The GETRANGE was answered: set in @bytes, one block with geometry @g, the bits of the keys that lie there.
 * False: there was a new view meanwhile, and the reply does not count. */
bool overlay_read_end(struct overlay *o, struct overlay_read *read, unsigned layer, const struct geometry *g,
                      uint32_t shard, uint32_t block, uint8_t *bytes);
/* No reply to the GETRANGE will come. */
void overlay_read_cancel(struct overlay *o, struct overlay_read *read);
/* There is a new view: no reply to a GETRANGE under way counts. */
void overlay_discard(struct overlay *o);

/* Forget all entries: the lanes are read again, from `folded` of another view. */
void overlay_reset(struct overlay *o);

/* Set `folded` of each lane, read in one command with the layers of the view in use. It never goes back. */
void overlay_folded(struct overlay *o, const struct log_id *folded);

/* Walk through the keys of the entries, lane by lane, oldest first. Each overlay_walk_next() takes the lock;
 * entries that are dropped between two calls are left out. */
void overlay_walk_begin(struct overlay *o, struct overlay_walk *w);
/* The next keys of entries behind @from and up to @to (one id for each lane; NULL: all): at most @room keys,
 * perhaps none. @room is LOG_KEYS_MAX or more. False: the walk has ended. */
bool overlay_walk_next(struct overlay *o, struct overlay_walk *w, const struct log_id *from,
                       const struct log_id *to, struct overlay_met *met, unsigned room, unsigned *count);
void overlay_walk_end(struct overlay *o, struct overlay_walk *w);

/* The number of keys, and the bytes that they take. */
void overlay_size(struct overlay *o, uint64_t *keys, uint64_t *bytes);
#endif
