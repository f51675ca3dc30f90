/* SPDX-License-Identifier: MIT */
#ifndef SHARD_RESIDENT_RESIDENT_H
#define SHARD_RESIDENT_RESIDENT_H
/* One generation in the memory of a process: the bitmaps of its layers, and the overlay for shards that are
 * not in memory. Entries of the log are applied in the order of their lane, by one thread at a time for each
 * lane. Any thread looks keys up meanwhile, without a lock.
 *
 * Only a key's place in its lane decides in which layer it is set: the newest layer that has begun there. It
 * is set there even if an older layer has all of its bits: those bits may come from entries of other lanes,
 * or may be missing in another process, whose shards came and went in another order (placed.pml in
 * tests/model/log).
 *
 * A look-up that begins after resident_apply() returned finds its keys, if a lock, a task or another release
 * connects the two; nothing more is needed. */
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
    RESIDENT_ABSENT,  /* the key was in no entry that was applied before the look-up began */
    RESIDENT_PRESENT, /* all bits of the key are set in some layer */
    RESIDENT_UNKNOWN  /* in no layer in memory; blocks of the other shards must be pinned and read */
};

/* Exact, and the same in all processes, if before the entry was sent either the key's shards were loaded, and
 * a tail read that began after that was applied; or the key's blocks were pinned and read. Otherwise a shard
 * may have had the entry itself. Not exact for an entry that was sent before resident_rebase(). */
enum resident_added {
    RESIDENT_OLD,    /* all bits of the key were set before */
    RESIDENT_NEW,    /* some bit was not set, in log order */
    RESIDENT_UNSURE, /* unknown: a shard of the key is not in memory, and its block is not pinned */
    RESIDENT_REFUSED /* the key is absent, and not added: the generation is full. Set by the caller */
};

/* What a pin needs. */
enum resident_pin {
    PIN_NEEDLESS, /* nothing: the shard is whole in memory, and the block is not pinned */
    PIN_WHOLE,    /* nothing: the block was read before */
    PIN_ASK       /* a GETRANGE must be sent, and its reply taken */
};

struct resident {
    uint64_t mix;
    struct budget *budget; /* of the process; borrowed */
    struct overlay *overlay;
    struct blocks *blocks;
    _Atomic uint32_t view;    /* raised by resident_discard() and resident_rebase(); from 1 */
    _Atomic uint32_t base;    /* raised by resident_rebase() only: pinned blocks must be read again */
    _Atomic uint64_t changes; /* resident_changes() */
    /* states change under the write lock; entries are applied under the read lock */
    pthread_rwlock_t changing;
    unsigned lanes;
    /* Of each lane, and belonging to its applier: */
    struct log_id applied[LOG_LANES_MAX];        /* the last entry */
    struct log_id counted[LOG_LANES_MAX];        /* others count the keys up to this entry */
    _Atomic unsigned begun[LOG_LANES_MAX];       /* number of layers that have begun */
    _Atomic uint64_t keys[LOG_LANES_MAX];        /* keys that set a bit of a whole shard */
    _Atomic uint64_t pinned_keys[LOG_LANES_MAX]; /* keys that set a bit of a pinned block only; the folder
                                                  * counts them, too */
    _Atomic uint64_t folded_keys; /* keys that set a bit in Redis, of a shard that is not whole; belongs to
                                   * the folder */
    _Atomic unsigned layer_count;
    struct bitmap *layer[GENERATION_LAYERS_MAX];
};

/* What is in memory, for people. */
struct resident_status {
    uint64_t shards, resident, loading, dirty; /* numbers of shards */
    uint64_t shard_bytes;                      /* of all shards */
    uint64_t resident_bytes, loading_bytes, dirty_bytes;
    uint64_t overhead_bytes; /* beside bitmaps and overlay */
    uint64_t overlay_keys, overlay_bytes;
    uint64_t pinned_blocks, pinned_bytes;
};

/* A generation without layers, of a filter with @lanes lanes; @mix is its secret. ERR_NOMEM. */
MUST_CHECK enum err resident_new(struct resident **out, uint64_t mix, unsigned lanes, struct budget *budget,
                                 struct error *e);
/* No thread may use @r any more, and no block may be pinned. @r may be NULL. */
void resident_free(struct resident *r);

/* Add the next layer, with no shard in memory. It takes no entries before it begins. ERR_NOMEM; ERR_RANGE:
 * too many layers. */
MUST_CHECK enum err resident_add_layer(struct resident *r, const struct geometry *g, uint16_t tag,
                                       struct error *e);

/* Give an enum resident_answer for each of @count keys, by their hashes under the filter's seed. */
void resident_look(const struct resident *r, const struct key_hash *hashes, size_t count, uint8_t *answers);

/* A number that changes with each applied entry, each added layer, and with resident_rebase(). Take the
 * number, then look: a key that was absent stays absent for as long as the number is the same. */
uint64_t resident_changes(const struct resident *r);
/* Shards have all entries of @lane up to @id, where @layers layers had begun; entries behind @id are applied
 * next. No thread may apply entries meanwhile. Without this call, or with 0 layers, one has begun. Counting
 * of keys starts at 0 again. */
void resident_begin(struct resident *r, unsigned lane, struct log_id id, unsigned layers);
/* Do not count keys of @lane up to the entry @id. Call it after resident_begin(). */
void resident_count_from(struct resident *r, unsigned lane, struct log_id id);
/* Layer @layer, from 1, begins with the entry @id of @lane, which counts as applied; later entries go into
 * the layer. If the layer has already begun, only the position moves. ERR_FENCED: the layer is unknown yet,
 * and nothing was applied. */
MUST_CHECK enum err resident_begin_layer(struct resident *r, unsigned lane, struct log_id id, unsigned layer,
                                         struct error *e);

/* Apply the entry @id of @lane, of at most LOG_KEYS_MAX keys; @added gets an enum resident_added for each
 * key. ERR_NOMEM: nothing was applied, and the lane stays where it was. */
MUST_CHECK enum err resident_apply(struct resident *r, unsigned lane, struct log_id id,
                                   const struct key_hash *hashes, unsigned count, uint8_t *added,
                                   struct error *e);

/* The number of keys that set a bit in their layer: keys that were applied to a whole shard, and keys that
 * were folded into one that was not. Some keys that are applied while a shard loads are not counted. */
uint64_t resident_keys(const struct resident *r);
/* The number of keys that set a bit of a pinned block, and of no whole shard. */
uint64_t resident_pinned_keys(const struct resident *r);

/* Wait until no entry is half applied. The applier of one lane may have set a bit and not marked it yet;
 * another lane's applier, which found the bit set, has nothing to mark. A folder calls this between noting
 * the positions and taking the marks (NO_BARRIER in tests/model/log/lanes.pml). */
void resident_barrier(struct resident *r);

/* --- shards come and go ---
 * To load: note the view; begin; OR all pieces (load.h), while entries are applied; end, once the entries
 * after the `folded` of that view were applied, too. */

/* Begin to load @count shards from @first, which are not in memory, or must be loaded again. ERR_NOMEM:
 * `resident_memory` has no room for them; ERR_CONFLICT. On error nothing changes. */
MUST_CHECK enum err resident_load_begin(struct resident *r, unsigned layer, uint32_t first, uint32_t count,
                                        struct error *e);
/* Have shards of a layer whole in memory without reading them: the layer began behind `folded` of the view
 * from which on this process reads the lanes, so Redis has nothing of it that the lanes have not
 * (EMPTY_WHEN_BEGUN of layers.pml). False: there is no room, or no memory, and nothing has changed; or a
 * shard is in memory. */
bool resident_load_empty(struct resident *r, unsigned layer, uint32_t first, uint32_t count);
/* OR a piece, as bitmap_or(). No other thread waits meanwhile. */
MUST_CHECK enum err resident_load_piece(struct resident *r, unsigned layer, uint32_t shard, uint32_t offset,
                                        const void *bytes, uint32_t length, struct error *e);
/* ERR_CONFLICT: not all of the shard was ORed. */
MUST_CHECK enum err resident_load_end(struct resident *r, unsigned layer, uint32_t shard, struct error *e);
/* Do not load the shard after all: give its memory back. */
void resident_load_cancel(struct resident *r, unsigned layer, uint32_t shard);

/* The lanes are read again, from `folded` of another view: no shard in memory counts as whole, until it is
 * loaded again. Set bits stay set. No thread may apply entries meanwhile. */
void resident_rebase(struct resident *r);
/* Join what Redis has of a whole shard, as bitmap_join(); for its folder. ERR_CONFLICT: the shard is not
 * whole. */
MUST_CHECK enum err resident_join_piece(struct resident *r, unsigned layer, uint32_t shard, uint32_t offset,
                                        const void *bytes, uint32_t length, struct error *e);

/* --- blocks of shards that are not whole in memory ---
 * Pin; send GETRANGE; take its reply; look the key up, or send its entry and let it be applied; unpin. Any
 * thread. The shard may load meanwhile: a pinned block takes all entries in any case, so it stays
 * whole. */

/* The number of the view; it changes with each resident_discard() and resident_rebase(). */
uint32_t resident_view(const struct resident *r);
/* The view has changed in what block reads depend on: replies to GETRANGEs under way do not count. Pinned
 * blocks that are whole stay whole. */
void resident_discard(struct resident *r);

/* Pin a block; unpin it unless *@out is PIN_NEEDLESS. PIN_ASK: send a GETRANGE after this call. @read belongs
 * to the caller, until resident_take_block() or resident_drop_read() ends it. Several callers may ask for one
 * block; the first reply counts. ERR_NOMEM: as blocks_pin(). ERR_FENCED: @view, by which the caller reads, is
 * not the latest. */
MUST_CHECK enum err resident_pin(struct resident *r, uint32_t view, const struct block_at *at,
                                 struct overlay_read *read, enum resident_pin *out, struct error *e);
/* Take the reply: a block with its tag, from a server that counts. @bytes are changed. False: there is a new
 * view, and the reply does not count. */
MUST_CHECK bool resident_take_block(struct resident *r, const struct block_at *at, struct overlay_read *read,
                                    uint8_t *bytes);
/* No reply to @read will come. */
void resident_drop_read(struct resident *r, struct overlay_read *read);
void resident_unpin(struct resident *r, const struct block_at *at);

void resident_status(const struct resident *r, struct resident_status *out);

struct resident_shard {
    unsigned layer;
    uint32_t shard;
    enum bitmap_state state;
    uint64_t bytes, dirty_bytes; /* size of the shard; bytes that differ from Redis */
};
typedef void resident_shard_fn(void *arg, const struct resident_shard *shard);
/* Call @fn for each shard of each layer, in order. */
void resident_shards(const struct resident *r, resident_shard_fn *fn, void *arg);
#endif
