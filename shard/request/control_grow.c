/* SPDX-License-Identifier: MIT */
/* A generation that is full gets a layer: its shards are made, the view has it, and then an entry in each lane says where
 * it begins. Whoever folds does what is next, whatever the one before has left undone. Two who do it at once do no harm:
 * log_grow() lets one of them through, and of two marks of a layer the second changes nothing. */
#include "shard/request/control_internal.h"

#include "shard/log/lane_sync.h"

static bool is_known(const struct control *c, uint64_t generation, unsigned layer)
{
    const struct held *h = c->filter->slot[generation % 2];
    return h == NULL || h->shape.number != generation || h->shape.layer_count > layer;
}

enum err control_resume_lanes(struct control *c, struct error *e)
{
    for (unsigned i = 0; i < c->filter->lanes; i++) {
        struct filter_lane *lane = &c->filter->lane[i];
        if (atomic_load(&lane->stalled) != TAIL_LAYER)
            continue;
        unsigned layer = atomic_load(&lane->awaited);
        if (!is_known(c, atomic_load(&lane->awaited_of), layer))
            return error_set(e, ERR_BUSY, "lane %u: layer %u begins, and the view does not have it", i, layer);
        atomic_store(&lane->stalled, TAIL_COMPLETE);
        lane_reader_position(lane->reader, &c->position[i]);
        lane_reader_go_back(lane->reader, &c->stream[i], &c->position[i]);
    }
    return ERR_OK;
}

/* *@all: the newest layer has begun in all lanes. */
static enum err begin_newest(struct control *c, const struct held *h, bool *all, struct error *e)
{
    unsigned newest = h->shape.layer_count - 1;
    enum err code = ERR_OK;
    *all = true;
    for (unsigned i = 0; i < c->filter->lanes && code == ERR_OK; i++) {
        if (h->resident->begun[i] > newest)
            continue;
        *all = false;
        code = lane_mark_layer(c->link, &c->stream[i], h->shape.number, newest, e);
    }
    return code;
}

static enum err add_layer(struct control *c, const struct held *h, struct error *e)
{
    const struct grow_options o = {.generation = h->shape.number,
                                   .layers = h->shape.layer_count,
                                   .shard_bytes = c->shard_bytes,
                                   .growth = c->growth};
    enum err code = log_grow(c->link, &c->filter->names, &o, c->view, NULL, e);
    control_stop_folding(c); /* the grower was the writer in between */
    return code;
}

enum err control_grow(struct control *c, bool *soon, struct error *e)
{
    const struct held *h = control_held_of(c, c->view->current);
    bool all;
    if (h == NULL || h != c->filter->slot[c->filter->current])
        return ERR_OK;
    enum err code = begin_newest(c, h, &all, e);
    if (code != ERR_OK || !all) {
        *soon = code == ERR_OK;
        return code;
    }
    uint64_t keys = h->keys + resident_keys(h->resident);
    bool fixed = c->view->expansion == 0 && !c->view->sourced;
    if (grow_decide(keys, h->shape.capacity, h->shape.layer_count, fixed) != GROW_LAYER)
        return ERR_OK;
    *soon = true;
    return add_layer(c, h, e);
}
