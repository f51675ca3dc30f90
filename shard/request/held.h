/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_HELD_H
#define SHARD_REQUEST_HELD_H
/* A generation as this process holds it: its shape, where its shards are, what of them is in memory. Requests
 * keep the one that they began with until they have their answer. */
#include <stdatomic.h>
#include "shard/log/tail.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/resident.h"
#include "shard/fold/full.h"
#include "shard/view/log_view.h"

enum { HELD_COUNTS = 512 };

/* Keys of a lane that were counted up to an entry: the last HELD_COUNTS that were applied, in a ring, which
 * grows until it has room for as many. */
struct held_count {
    struct log_id id;
    uint64_t keys, pinned; /* as resident->keys, and its pinned_keys */
};
struct held_counts {
    unsigned next, count, room;
    struct held_count at[];
};

struct held {
    _Atomic unsigned references;
    struct generation shape;
    struct placement placement;
    struct resident *resident;
    _Atomic uint64_t keys; /* of the generation, where entries began to be applied; what was counted wrong is
                            * put right here, so that it may be below 0 (modulo 2^64) */
    struct held_counts *counted[LOG_LANES_MAX]; /* of the lane's applier; NULL: no memory */
    struct log_id begin[LOG_LANES_MAX];         /* where nothing was counted yet */
    struct log_id from[LOG_LANES_MAX];   /* of the control: the view's positions that are counted from */
    struct log_id loaded[LOG_LANES_MAX]; /* of the control: up to there some came while shards were loaded */
    _Atomic uint64_t told; /* of the generation, by the latest view: another process may have counted more */
    _Atomic uint64_t others;   /* of what a view has told those that this process has not counted; it may be
                                * below   0, too */
    uint64_t others_of;        /* of the control: the number of keys that was told */
    _Atomic uint64_t capacity; /* of the layers that have begun in all lanes */
    _Atomic uint64_t
        reserved;        /* keys that requests have sent, or are about to, and that are not applied yet */
    _Atomic bool wanted; /* somebody has found no room since some was given back */
    _Atomic bool
        unbounded; /* it takes more keys than it has room for: it has as many layers as there can be */
    _Atomic unsigned refusals; /* how often a layer could not be added: who waited for it goes on without */
    _Atomic bool counts;       /* its shards are whole, and held_own_keys() has all keys */
    bool fixed;                /* it does not grow (full.h) */
    struct log_full full[LOG_LANES_MAX]; /* of the lane's applier */
    unsigned layers_folded;              /* Redis may have entries of so many layers; of the control */
    _Atomic unsigned full_lanes;         /* that are marked */
    /* Of the view that the control has seen last, under the filter's lock: what blocks are read by. */
    uint32_t view; /* resident_view() */
    unsigned layers;
    struct writer_token writer;
    struct trusted eras;
};

/* @view says something else of the generation in @slot than what blocks are read by now: another writer,
 * other layers, or nodes with other replication ids. Positions, other writers' registrations, and what else a
 * view has, is nothing to them. */
bool held_reads_otherwise(const struct held *h, const struct log_view *view, unsigned slot);
/* What @view says of the generation in @slot, for reads of blocks that begin from now on. */
void held_take_view(struct held *h, const struct log_view *view, unsigned slot);
/* Entries are applied from `folded` of @view on, into the layers that had begun there. Nobody applies
 * meanwhile. */
void held_begin(struct held *h, const struct log_view *view, unsigned slot);
/* Entries up to `folded` of @view need not be kept for shards that are not in memory. */
void held_tell_folded(struct held *h, const struct log_view *view, unsigned slot);
/* Have shards that nothing was folded into whole in memory, without reading them. False: they are to be read,
 * or there is no room. */
bool held_load_empty(struct held *h, unsigned layer, uint32_t first, uint32_t count);

/* The generation in @slot of @view, with nothing in memory and one reference. ERR_CONFIG: it lies on nodes
 * that are not configured; ERR_NOMEM. */
MUST_CHECK enum err held_new(struct held **out, const struct log_view *view, unsigned slot,
                             const struct names *names, const struct nodes *nodes, struct budget *budget,
                             struct error *e);
void held_keep(struct held *h);
/* The last one frees it. NULL is fine. */
void held_drop(struct held *h);

/* The layers that @shape has more. ERR_NOMEM. */
MUST_CHECK enum err held_add_layers(struct held *h, const struct generation *shape, const struct names *names,
                                    struct error *e);

/* Keys that the generation has had so far, or fewer, as this process knows. */
uint64_t held_keys(const struct held *h);
/* The same, without what others have told: to be kept where lanes are read again from an earlier position, as
 * what is set already counts as old then. */
uint64_t held_own_keys(const struct held *h);
void held_keep_keys(struct held *h, uint64_t own);
/* The view has told @keys up to where this process had counted @counted or fewer, pinned ones too, in all
 * lanes. */
void held_tell_others(struct held *h, uint64_t keys, uint64_t counted);
/* The keys of @lane that were counted where @id was the last entry. False: that is long ago, or to come, and
 * *@out is what was counted by now. The lane is held (lane_reader_hold()). */
bool held_counted(const struct held *h, unsigned lane, struct log_id id, struct held_count *out);
/* The view has @keys where @counted were counted, in all lanes: from there on all processes count alike. */
void held_count_from(struct held *h, uint64_t keys, uint64_t counted);

/* Reserve room for up to @wanted keys, which are then sent; returns for how many. 0: there is none now.
 * @beyond: for all of them, whether there is room or not. */
unsigned held_reserve(struct held *h, unsigned wanted, bool beyond);
/* They were applied, or will not be. True: somebody has found no room. */
MUST_CHECK bool held_give_back(struct held *h, unsigned keys);
/* Its capacity is reached in all lanes, and no key is added any more. */
bool held_is_full(const struct held *h);

struct held_entry {
    unsigned lane, count;
    const struct log_entry *entry;
    struct log_id id;
    struct key_hash keys[LOG_KEYS_MAX];
};
/* What @record of @lane is as an entry; it borrows the record. */
void held_entry(struct held_entry *out, unsigned lane, const struct tail_record *record);
/* Apply an entry of @lane, unless it *@was. @added, of LOG_KEYS_MAX: enum resident_added of each key.
 * ERR_FENCED: a layer of the generation begins that it has not yet; ERR_NOMEM. */
MUST_CHECK enum err held_apply(struct held *h, const struct held_entry *entry, uint8_t *added, bool *was,
                               struct error *e);
#endif
