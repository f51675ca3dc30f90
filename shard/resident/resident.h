/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_RESIDENT_H
#define SHARD_RESIDENT_RESIDENT_H
/* One generation in the memory of a process: the bitmaps of its layers, and the overlay for shards that are
 * not in memory. Entries of the log are applied in the order of their lane, by one thread at a time for each
 * lane; any thread looks keys up meanwhile, without a lock.
 *
 * Which layer a key is set in is decided by its place in its lane alone: the newest that has begun there. It
 * is set there also where an older layer has all of its bits: those may be of entries of other lanes, or be
 * lacking in another process, whose shards came and went in another order (placed.pml in tests/model/log).
 *
 * A look-up that begins after resident_apply() returned finds its keys, if whoever tells of it does so by a
 * lock, a task or another release: nothing more is needed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/log/entry.h"
#include "shard/log/position.h"
#include "shard/resident/bitmap.h"
#include "shard/resident/blocks.h"
#include "shard/resident/budget.h"
#include "shard/resident/overlay.h"

enum resident_answer {
    RESIDENT_ABSENT,  /* of what was applied before the look-up began, this key was not */
    RESIDENT_PRESENT, /* in some layer all of its bits are set */
    RESIDENT_UNKNOWN  /* in no layer that is in memory; the blocks of others must be pinned and read */
};

/* Exact, and the same for all processes, where the shards that the key may be in were loaded, and a tail read
 * that was begun after that was applied, or their blocks were pinned and read, before the entry was sent;
 * else a shard may have had the entry itself. Not exact of an entry that was sent before resident_rebase().
 */
enum resident_added {
    RESIDENT_OLD,    /* all of its bits were set before */
    RESIDENT_NEW,    /* some bit was not set, in log order */
    RESIDENT_UNSURE, /* a shard that it may be in is not in memory, nor is its block */
    RESIDENT_REFUSED /* it is not there, and not added: the generation is full. Of whoever knows that */
};

/* What a pin needs. */
enum resident_pin {
    PIN_NEEDLESS, /* nothing: the shard is whole in memory, and the block is not pinned */
    PIN_WHOLE,    /* nothing: it was read before */
    PIN_ASK       /* GETRANGE is to be sent, and its answer taken */
};

struct resident {
    uint64_t mix;
    struct budget *budget; /* of the process; borrowed */
    struct overlay *overlay;
    struct blocks *blocks;
    _Atomic uint32_t view;    /* raised by resident_discard() and resident_rebase(); from 1 */
    _Atomic uint32_t base;    /* raised by resident_rebase() alone: pinned blocks are to be read again */
    _Atomic uint64_t changes; /* resident_changes() */
    pthread_rwlock_t
        changing; /* states change under the write lock; entries are applied under the read lock */
    unsigned lanes;
    struct log_id *applied;  /* of each lane: the last entry; of its applier */
    struct log_id *counted;  /* of each lane: up to there its keys are counted by others */
    _Atomic unsigned *begun; /* of each lane: layers that have begun there; of its applier */
    _Atomic uint64_t *keys;  /* of each lane: keys that set a bit of a shard that is whole; of its applier */
    _Atomic uint64_t *pinned_keys; /* of each lane: keys that set a bit of a pinned block alone; whoever folds
                                    * counts them, too */
    _Atomic uint64_t folded_keys;  /* keys that set a bit of another shard, in Redis; of whoever folds */
    struct log_id *left;           /* of each lane: where it was when a shard last began to leave */
    _Atomic unsigned layer_count;
    struct bitmap *layer[GENERATION_LAYERS_MAX];
};

/* What is in memory, for people. */
struct resident_status {
    uint64_t shards, resident, loading, dirty; /* shards; those that leave count as resident */
    uint64_t shard_bytes;                      /* of all shards */
    uint64_t resident_bytes, loading_bytes, dirty_bytes;
    uint64_t overhead_bytes; /* beside bitmaps and overlay */
    uint64_t overlay_keys, overlay_bytes;
    uint64_t pinned_blocks, pinned_bytes;
};

/* A generation with the secret @mix, without layers, of a filter with @lanes lanes. ERR_NOMEM. */
MUST_CHECK enum err resident_new(struct resident **out, uint64_t mix, unsigned lanes, struct budget *budget,
                                 struct error *e);
/* Nobody may be inside, and no block be pinned. NULL is fine. */
void resident_free(struct resident *r);

/* The next layer, with no shard in memory; it takes no entries before it begins. ERR_NOMEM; ERR_RANGE: too
 * many layers. */
MUST_CHECK enum err resident_add_layer(struct resident *r, const struct geometry *g, uint16_t tag,
                                       struct error *e);

/* enum resident_answer for each of @count keys, by their hashes under the filter's seed. */
void resident_look(const struct resident *r, const struct key_hash *hashes, size_t count, uint8_t *answers);

/* Another number after each entry that was applied, after a layer that was added and after resident_rebase().
 * A key that is absent by a look which began after this was asked for is absent for as long as the number
 * stays the same. */
uint64_t resident_changes(const struct resident *r);
/* Shards have all entries of @lane up to @id, where @layers had begun: the next one is the first that is
 * applied. Nobody applies entries meanwhile. Without this, or with 0 layers, one has begun. The keys are
 * counted from 0 again. */
void resident_begin(struct resident *r, unsigned lane, struct log_id id, unsigned layers);
/* No keys of @lane are counted up to the entry @id. Behind resident_begin(). */
void resident_count_from(struct resident *r, unsigned lane, struct log_id id);
/* Layer @layer, from 1, begins with the entry @id of @lane, which is applied by that; later entries go into
 * it. Nothing but that where it has begun. ERR_FENCED: there is no such layer yet, and nothing was applied.
 */
MUST_CHECK enum err resident_begin_layer(struct resident *r, unsigned lane, struct log_id id, unsigned layer,
                                         struct error *e);

/* Apply the entry @id of @lane, of at most LOG_KEYS_MAX keys; @added gets an enum resident_added for each.
 * ERR_NOMEM: nothing was applied, and the lane stays where it was. */
MUST_CHECK enum err resident_apply(struct resident *r, unsigned lane, struct log_id id,
                                   const struct key_hash *hashes, unsigned count, uint8_t *added,
                                   struct error *e);

/* How many keys set a bit in their layer: those that were applied where a shard was whole, and those that
 * were folded where it was not. Of entries that are applied while a shard loads some are not counted. */
uint64_t resident_keys(const struct resident *r);
/* How many keys set a bit of a pinned block, and of no shard that was whole. */
uint64_t resident_pinned_keys(const struct resident *r);

/* Wait until no entry is half applied: one lane's applier may have set a bit and not marked it yet, and
 * another lane's, which found the bit set, have nothing to mark. For whoever folds, between the positions and
 * the marks (NO_BARRIER in tests/model/log/lanes.pml). */
void resident_barrier(struct resident *r);

/* --- shards come and go ---
 * Load: note the view; begin; OR all pieces (load.h), while entries are applied; when the entries after the
 * `folded` of that view were applied too, end. */

/* @count shards from @first, not in memory or to be loaded again, begin to load. ERR_NOMEM: `resident_memory`
 * has no room for them; ERR_CONFLICT. On error nothing changes. */
MUST_CHECK enum err resident_load_begin(struct resident *r, unsigned layer, uint32_t first, uint32_t count,
                                        struct error *e);
/* Have shards of a layer whole in memory without reading them: the layer began behind `folded` of the view
 * from which on this process reads the lanes, so Redis has nothing of it that the lanes have not
 * (EMPTY_WHEN_BEGUN of layers.pml). False: there is no room, or no memory, and nothing has changed; or a
 * shard is in memory. */
bool resident_load_empty(struct resident *r, unsigned layer, uint32_t first, uint32_t count);
/* The shard is whole since resident_load_empty(): Redis has no entry of it that was not applied here. */
bool resident_is_from_empty(const struct resident *r, unsigned layer, uint32_t shard);
/* OR a piece, as bitmap_or(). Nobody waits meanwhile. */
MUST_CHECK enum err resident_load_piece(struct resident *r, unsigned layer, uint32_t shard, uint32_t offset,
                                        const void *bytes, uint32_t length, struct error *e);
/* ERR_CONFLICT: not all of it was ORed. */
MUST_CHECK enum err resident_load_end(struct resident *r, unsigned layer, uint32_t shard, struct error *e);
/* It is not loaded after all: its memory is given back. */
void resident_load_cancel(struct resident *r, unsigned layer, uint32_t shard);

/* The lanes are read again, from `folded` of another view: what is in memory counts no longer as whole, and
 * is to be loaded again. What is set stays set. Nobody applies entries meanwhile. */
void resident_rebase(struct resident *r);
/* What Redis has of a shard that is whole, as bitmap_join(): of its folder. ERR_CONFLICT: it is not whole. */
MUST_CHECK enum err resident_join_piece(struct resident *r, unsigned layer, uint32_t shard, uint32_t offset,
                                        const void *bytes, uint32_t length, struct error *e);

/* A shard that is in memory begins to leave: entries go to the overlay as well. */
void resident_leave_begin(struct resident *r, unsigned layer, uint32_t shard);
/* Give its memory back. False: the overlay's `folded` has not passed all entries that were applied before it
 * began to leave; they would be lost. */
MUST_CHECK bool resident_leave_end(struct resident *r, unsigned layer, uint32_t shard);

/* --- blocks of shards that are not whole in memory ---
 * Pin; send GETRANGE; take its answer; look the key up, or send its entry and have it applied; unpin. Any
 * thread. The shard may load and leave meanwhile: a pinned block takes all entries in any case, so it stays
 * whole. */

/* The number of the view; another one after each resident_discard() and resident_rebase(). */
uint32_t resident_view(const struct resident *r);
/* The view says something else of what blocks are read by: what Redis answers to GETRANGEs under way is no
 * answer. Pinned blocks that are whole stay so. */
void resident_discard(struct resident *r);

/* Pin a block, to be unpinned if *@out is not PIN_NEEDLESS. PIN_ASK: the GETRANGE is sent from now on; @read
 * is of the caller, until it is ended by resident_take_block() or resident_drop_read(). A block may be asked
 * for by several at once; the first answer counts. ERR_NOMEM: as blocks_pin(). ERR_FENCED: @view, by which
 * the caller reads, is not the latest. */
MUST_CHECK enum err resident_pin(struct resident *r, uint32_t view, const struct block_at *at,
                                 struct overlay_read *read, enum resident_pin *out, struct error *e);
/* The answer: a block with its tag, from a server that counts. @bytes are changed. False: there is a new
 * view, and it is none. */
MUST_CHECK bool resident_take_block(struct resident *r, const struct block_at *at, struct overlay_read *read,
                                    uint8_t *bytes);
/* There will be no answer. */
void resident_drop_read(struct resident *r, struct overlay_read *read);
void resident_unpin(struct resident *r, const struct block_at *at);

void resident_status(const struct resident *r, struct resident_status *out);

/* One shard. */
struct resident_shard {
    unsigned layer;
    uint32_t shard;
    enum bitmap_state state;
    uint64_t bytes, dirty_bytes; /* of the shard; that differ from Redis */
};
typedef void resident_shard_fn(void *arg, const struct resident_shard *shard);
/* Call @fn for each shard of each layer, in order. */
void resident_shards(const struct resident *r, resident_shard_fn *fn, void *arg);
#endif
