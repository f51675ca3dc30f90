/* SPDX-License-Identifier: MIT */
#include "shard/request/held.h"

#include <stdlib.h>

enum err held_add_layers(struct held *h, const struct generation *shape, const struct names *names,
                         struct error *e)
{
    uint16_t tag = hash_tag(names->incarnation, names->filter, names->filter_length, shape->number);
    enum err code = ERR_OK;
    h->shape.capacity = shape->capacity;
    for (unsigned l = h->resident->layer_count; l < shape->layer_count && code == ERR_OK; l++) {
        code = resident_add_layer(h->resident, &shape->layers[l].geometry, tag, e);
        if (code == ERR_OK) {
            h->shape.layers[l] = shape->layers[l];
            h->shape.layer_count = l + 1;
        }
    }
    return code;
}

enum err held_new(struct held **out, const struct log_view *view, unsigned slot, const struct names *names,
                  const struct nodes *nodes, struct budget *budget, struct error *e)
{
    const struct generation *shape = &view->slot[slot].shape;
    struct held *h = calloc(1, sizeof(*h));
    if (h == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    atomic_init(&h->references, 1);
    h->shape = *shape;
    h->shape.layer_count = 0;
    enum err code = placement_resolve(&h->placement, names, shape, nodes, e);
    if (code == ERR_OK)
        code = resident_new(&h->resident, shape->seed, view->lane_count, budget, e);
    if (code == ERR_OK)
        code = held_add_layers(h, shape, names, e);
    if (code == ERR_OK) {
        held_take_view(h, view, slot);
        held_begin(h, view, slot);
    }
    if (code != ERR_OK) {
        held_drop(h);
        return code;
    }
    *out = h;
    return ERR_OK;
}

void held_take_view(struct held *h, const struct log_view *view, unsigned slot)
{
    h->writer = view->slot[slot].writer;
    h->eras = view->eras;
    h->view = resident_view(h->resident);
}

void held_begin(struct held *h, const struct log_view *view, unsigned slot)
{
    const struct log_generation *g = &view->slot[slot];
    h->keys = g->keys;
    for (unsigned i = 0; i < view->lane_count; i++)
        if (log_view_is_folded(view, g, i))
            resident_begin(h->resident, i, g->folded[i].position.id, g->folded[i].layers);
}

void held_keep(struct held *h)
{
    atomic_fetch_add_explicit(&h->references, 1, memory_order_relaxed);
}

void held_drop(struct held *h)
{
    if (h == NULL || atomic_fetch_sub_explicit(&h->references, 1, memory_order_acq_rel) > 1)
        return;
    resident_free(h->resident);
    free(h);
}

enum err held_apply(struct held *h, const struct held_entry *entry, uint8_t *added, bool *was,
                    struct error *e)
{
    *was = log_id_compare(entry->id, h->resident->applied[entry->lane]) <= 0;
    if (*was)
        return ERR_OK;
    if (entry->begins == h->shape.number)
        return resident_begin_layer(h->resident, entry->lane, entry->id, entry->layer, e);
    return resident_apply(h->resident, entry->lane, entry->id, entry->keys, entry->count, added, e);
}
