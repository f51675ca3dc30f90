/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_HELD_H
#define SHARD_REQUEST_HELD_H
/* A generation as this process holds it: its shape, where its shards are, what of them is in memory. Requests
 * keep the one that they began with until they have their answer. */
#include <stdatomic.h>
#include "shard/log/lane.h"
#include "shard/nodes.h"
#include "shard/resident/resident.h"
#include "shard/view/log_view.h"

struct held {
    _Atomic unsigned references;
    struct generation shape;
    struct placement placement;
    struct resident *resident;
    uint64_t keys; /* of the generation, where entries began to be applied; of the control */
    /* Of the view that the control has seen last, under the filter's lock: what blocks are read by. */
    uint32_t view; /* resident_view() */
    struct writer_token writer;
    struct trusted eras;
};

/* What @view says of the generation in @slot, for reads of blocks that begin from now on. */
void held_take_view(struct held *h, const struct log_view *view, unsigned slot);
/* Entries are applied from `folded` of @view on, into the layers that had begun there. Nobody applies meanwhile. */
void held_begin(struct held *h, const struct log_view *view, unsigned slot);

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

/* Apply an entry of @lane, unless it *@was. @added, of LOG_KEYS_MAX: enum resident_added of each key. ERR_FENCED: a
 * layer of the generation begins that it has not yet; ERR_NOMEM. */
struct held_entry {
    unsigned lane, count;
    uint64_t begins; /* a layer of that generation begins; 0: none does */
    unsigned layer;
    struct log_id id;
    struct key_hash keys[LOG_KEYS_MAX];
};
MUST_CHECK enum err held_apply(struct held *h, const struct held_entry *entry, uint8_t *added, bool *was,
                               struct error *e);
#endif
