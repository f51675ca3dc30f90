/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_HELD_H
#define SHARD_REQUEST_HELD_H
/* A generation as this process holds it: its shape, where its shards are, and what of them is in memory. A
 * request keeps the generation that it began with until it is answered. */
#include <stdatomic.h>
#include "shard/log/tail.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/resident.h"
#include "shard/fold/full.h"
#include "shard/view/log_view.h"

enum { HELD_COUNTS = 512 };

/* The keys of a lane that were counted up to each of the last HELD_COUNTS entries: a ring, which grows up to
 * that size. */
struct held_count {
    struct log_id id;
    uint64_t keys, pinned; /* values of resident->keys and resident->pinned_keys */
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
    _Atomic uint64_t keys; /* keys of the generation where entries began to be applied; wrong counts are
                            * corrected here, so it may be below 0 (modulo 2^64) */
    struct held_counts *counted[LOG_LANES_MAX]; /* belongs to the lane's applier; NULL: no memory */
    struct log_id begin[LOG_LANES_MAX];         /* where counting began */
    struct log_id from[LOG_LANES_MAX];          /* of the control: positions from which the view's count is
                                                 * continued */
    struct log_id loaded[LOG_LANES_MAX]; /* of the control: up to there some entries came while shards were
                                          * loading */
    _Atomic uint64_t told;     /* keys of the generation by the latest view: another process may have counted
                                * more */
    _Atomic uint64_t others;   /* the view's keys less those that this process had counted at its positions;
                                * may be below 0, too */
    uint64_t others_of;        /* of the control: the view's keys from which @others was computed */
    _Atomic uint64_t capacity; /* of the layers that have begun in all lanes */
    _Atomic uint64_t reserved; /* keys that requests send, or are about to, and that are not applied yet */
    _Atomic bool wanted;       /* an add found no room since some was given back */
    _Atomic bool unbounded;    /* takes more keys than it has room for, as it has the most layers possible */
    _Atomic unsigned refusals; /* how often a layer could not be added: waiting adds go on without it */
    _Atomic bool counts;       /* its shards are whole, and held_own_keys() has all keys */
    bool fixed;                /* it does not grow (full.h) */
    _Atomic bool replaced; /* the view did not have it, and a layer that is not known was passed over: if it
                            * comes back, it must be held anew */
    _Atomic bool doubtful; /* memory may have keys that nobody else has: it is of before the lanes were read
                            * again, and nobody has asked this process what it had (full.h) */
    struct log_full full[LOG_LANES_MAX]; /* belongs to the lane's applier */
    unsigned layers_folded;              /* Redis may have entries of so many layers; of the control */
    _Atomic unsigned full_lanes;         /* number of lanes that are marked */
    _Atomic bool stale; /* memory may have keys that are in no lane, and in no shard in Redis: it is of before
                         * the lanes were read again */
    /* By the last view that the control has loaded, guarded by the filter's lock: what block reads depend
     * on. */
    uint32_t view; /* resident_view() */
    unsigned layers;
    struct writer_token writer;
    struct trusted *eras; /* NULL: no memory, so that no block is read, and the control takes it again */
};

/* True if @view differs for the generation in @slot in what block reads depend on: its writer, its layers, or
 * the replication ids of nodes. Positions, registrations of writers and all else do not matter to them. */
bool held_reads_otherwise(const struct held *h, const struct log_view *view, unsigned slot);
/* Take from @view what reads of blocks that begin from now on depend on. */
void held_take_view(struct held *h, const struct log_view *view, unsigned slot);
/* Apply entries from `folded` of @view on, into the layers that had begun there. No thread may apply entries
 * meanwhile. */
void held_begin(struct held *h, const struct log_view *view, unsigned slot);
/* Entries up to `folded` of @view need not be kept for shards that are not in memory. */
void held_tell_folded(struct held *h, const struct log_view *view, unsigned slot);
/* Have shards that nothing was folded into whole in memory, without reading them. False: they are to be read,
 * or there is no room. */
bool held_load_empty(struct held *h, unsigned layer, uint32_t first, uint32_t count);

/* The generation in @slot of @view, with nothing in memory, and with one reference. ERR_CONFIG: it lies on
 * nodes that are not configured; ERR_NOMEM. */
MUST_CHECK enum err held_new(struct held **out, const struct log_view *view, unsigned slot,
                             const struct names *names, const struct nodes *nodes, struct budget *budget,
                             struct error *e);
void held_keep(struct held *h);
/* The last reference frees it. @h may be NULL. */
void held_drop(struct held *h);

/* Add the layers that only @view has of the generation in @slot. ERR_NOMEM. */
MUST_CHECK enum err held_add_layers(struct held *h, const struct log_view *view, unsigned slot,
                                    const struct names *names, struct error *e);

/* The number of keys of the generation so far, or less, as far as this process knows. */
uint64_t held_keys(const struct held *h);
/* As above, without what other processes have told. Keep it when lanes are read again from an earlier
 * position, since bits that are already set make keys count as old then. */
uint64_t held_own_keys(const struct held *h);
void held_keep_keys(struct held *h, uint64_t own);
/* The view says that there are @keys keys, at positions where this process had counted @counted or fewer,
 * pinned ones included, in all lanes. */
void held_tell_others(struct held *h, uint64_t keys, uint64_t counted);
/* The keys of @lane that were counted when @id was the last entry. False: that is too long ago, or has yet to
 * come, and *@out is the count by now. The caller holds the lane (lane_reader_hold()). */
bool held_counted(const struct held *h, unsigned lane, struct log_id id, struct held_count *out);
/* The view has @keys where this process had counted @counted, in all lanes: from there on all processes count
 * alike. */
void held_count_from(struct held *h, uint64_t keys, uint64_t counted);

/* Reserve room for up to @wanted keys, which are then sent. Returns the number of keys; 0: there is no room
 * now. @beyond: take room for all of them even if there is none. */
unsigned held_reserve(struct held *h, unsigned wanted, bool beyond);
/* The keys were applied, or will not be. True: an add found no room meanwhile. */
MUST_CHECK bool held_give_back(struct held *h, unsigned keys);
/* True if all lanes are marked as full, and no key is added any more. */
bool held_is_full(const struct held *h);

struct held_entry {
    unsigned lane, count;
    const struct log_entry *entry;
    struct log_id id;
    struct key_hash keys[LOG_KEYS_MAX];
};
/* Make an entry of @record of @lane; it borrows the record. */
void held_entry(struct held_entry *out, unsigned lane, const struct tail_record *record);
/* Apply an entry of @lane, unless it *@was applied before. @added (LOG_KEYS_MAX of them): enum resident_added
 * of each key. ERR_FENCED: a layer begins that the generation does not have yet, unless it was @replaced:
 * then its later keys go into the layers that are known; ERR_NOMEM. */
MUST_CHECK enum err held_apply(struct held *h, const struct held_entry *entry, uint8_t *added, bool *was,
                               struct error *e);
#endif
