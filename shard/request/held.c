/* SPDX-License-Identifier: MIT */
#include "shard/request/held.h"

#include <stdlib.h>
#include <string.h>

enum { COUNTS_FIRST = 16 /* a power of two, like HELD_COUNTS */ };

/* Set the capacity of the layers that have begun in all lanes. */
static void note_capacity(struct held *h)
{
    const struct resident *r = h->resident;
    unsigned begun = GENERATION_LAYERS_MAX;
    uint64_t capacity = 0;
    for (unsigned i = 0; i < r->lanes; i++)
        begun = r->begun[i] < begun ? r->begun[i] : begun;
    for (unsigned l = 0; l < begun; l++)
        capacity += h->shape.layers[l].capacity;
    h->capacity = capacity;
}

/* Add layers, with nothing in memory. */
static enum err add_layers(struct held *h, const struct generation *shape, uint16_t tag, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned l = h->shape.layer_count; l < shape->layer_count && code == ERR_OK; l++) {
        h->shape.layers[l] = shape->layers[l]; /* before entries can go into it */
        code = resident_add_layer(h->resident, &shape->layers[l].geometry, tag, e);
        if (code == ERR_OK)
            h->shape.layer_count = l + 1;
    }
    h->shape.capacity = shape->capacity;
    return code;
}

/* Layers that may have entries up to `folded`, or entries that no lane has. */
static unsigned layers_folded(const struct log_view *view, unsigned slot)
{
    const struct log_generation *g = &view->slot[slot];
    unsigned layers = g->filled < GENERATION_LAYERS_MAX ? (unsigned)g->filled : GENERATION_LAYERS_MAX;
    for (unsigned i = 0; i < view->lane_count; i++) {
        unsigned some = log_view_is_folded(view, g, i) ? g->folded[i].layers : GENERATION_LAYERS_MAX;
        layers = some > layers ? some : layers;
    }
    return layers;
}

enum err held_add_layers(struct held *h, const struct log_view *view, unsigned slot,
                         const struct names *names, struct error *e)
{
    uint16_t tag = names_tag(names, view->slot[slot].shape.number);
    unsigned first = h->shape.layer_count, layers = layers_folded(view, slot);
    enum err code = add_layers(h, &view->slot[slot].shape, tag, e);
    h->layers_folded = layers > h->layers_folded ? layers : h->layers_folded;
    for (unsigned l = first; l < h->shape.layer_count;
         l++) /* before it begins, so that all of its keys are counted */
        (void)held_load_empty(h, l, 0, h->shape.layers[l].geometry.shards);
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
    h->fixed = view->expansion == 0 && !view->sourced;
    enum err code = placement_resolve(&h->placement, names, shape, nodes, e);
    if (code == ERR_OK)
        code = resident_new(&h->resident, shape->seed, view->lane_count, budget, e);
    if (code == ERR_OK)
        code = add_layers(h, shape, names_tag(names, shape->number), e);
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

bool held_reads_otherwise(const struct held *h, const struct log_view *view, unsigned slot)
{
    const struct log_generation *g = &view->slot[slot];
    return writer_compare(&h->writer, &g->writer) != 0 || h->layers != g->shape.layer_count ||
           h->eras == NULL || h->eras->count != view->eras.count ||
           memcmp(h->eras->id, view->eras.id, view->eras.count * sizeof(view->eras.id[0])) != 0;
}

void held_take_view(struct held *h, const struct log_view *view, unsigned slot)
{
    h->writer = view->slot[slot].writer;
    h->layers = view->slot[slot].shape.layer_count;
    free(h->eras);
    h->eras = trusted_copy(&view->eras);
    h->view = resident_view(h->resident);
}

/* If the ring is full, enlarge it, up to HELD_COUNTS. Without memory it stays as large as it is. */
static struct held_counts *make_count_room(struct held *h, unsigned lane)
{
    struct held_counts *c = h->counted[lane];
    if (c != NULL && (c->count < c->room || c->next != 0 || c->room == HELD_COUNTS))
        return c;
    unsigned room = c == NULL ? COUNTS_FIRST : 2 * c->room;
    struct held_counts *larger = realloc(c, sizeof(*c) + room * sizeof(c->at[0]));
    if (larger == NULL)
        return c;
    if (c == NULL)
        larger->count = 0;
    larger->next = larger->count;
    larger->room = room;
    return h->counted[lane] = larger;
}

static struct held_count count_at(const struct held *h, unsigned lane, struct log_id id)
{
    return (struct held_count){
        .id = id, .keys = h->resident->keys[lane], .pinned = h->resident->pinned_keys[lane]};
}

/* Note the count after the entry @id was applied. */
static void note_count(struct held *h, unsigned lane, struct log_id id)
{
    struct held_counts *c = make_count_room(h, lane);
    if (c == NULL)
        return;
    c->at[c->next] = count_at(h, lane, id);
    c->next = c->next + 1 < c->room ? c->next + 1 : 0;
    c->count += c->count < c->room;
}

bool held_counted(const struct held *h, unsigned lane, struct log_id id, struct held_count *out)
{
    const struct held_counts *c = h->counted[lane];
    for (unsigned i = 1; c != NULL && i <= c->count; i++) {
        unsigned at = c->next >= i ? c->next - i : c->next + c->room - i;
        int order = log_id_compare(c->at[at].id, id);
        *out = c->at[at];
        if (order == 0)
            return true;
        if (order < 0)
            break;
    }
    bool begins = log_id_compare(h->begin[lane], id) == 0;
    *out = begins ? (struct held_count){.id = id} : count_at(h, lane, id);
    return begins;
}

void held_count_from(struct held *h, uint64_t keys, uint64_t counted)
{
    h->keys = keys - counted - h->resident->folded_keys;
}

/* Keys that this process has counted when they were applied. */
static uint64_t counted_here(const struct held *h)
{
    uint64_t keys = resident_pinned_keys(h->resident);
    for (unsigned lane = 0; lane < h->resident->lanes; lane++)
        keys += h->resident->keys[lane];
    return keys;
}

void held_tell_others(struct held *h, uint64_t keys, uint64_t counted)
{
    h->others = keys - counted;
    h->others_of = keys;
}

void held_tell_folded(struct held *h, const struct log_view *view, unsigned slot)
{
    const struct log_generation *g = &view->slot[slot];
    struct log_id folded[LOG_LANES_MAX] = {{0}};
    unsigned layers = layers_folded(view, slot);
    for (unsigned i = 0; i < view->lane_count; i++)
        if (log_view_is_folded(view, g, i))
            folded[i] = g->folded[i].position.id;
    h->layers_folded = layers > h->layers_folded ? layers : h->layers_folded;
    overlay_folded(h->resident->overlay, folded);
}

bool held_load_empty(struct held *h, unsigned layer, uint32_t first, uint32_t count)
{
    return layer >= h->layers_folded && resident_load_empty(h->resident, layer, first, count);
}

void held_begin(struct held *h, const struct log_view *view, unsigned slot)
{
    const struct log_generation *g = &view->slot[slot];
    unsigned marked = 0;
    h->counts = false;
    h->layers_folded = layers_folded(view, slot);
    h->keys = g->keys;
    for (unsigned i = 0; i < view->lane_count; i++) {
        if (log_view_is_folded(view, g, i))
            resident_begin(h->resident, i, g->folded[i].position.id, g->folded[i].layers);
        if (h->counted[i] != NULL)
            h->counted[i]->count = h->counted[i]->next = 0;
        note_count(h, i, h->resident->applied[i]);
        h->begin[i] = log_view_is_folded(view, g, i) ? log_view_counted(view, g, i) : h->resident->applied[i];
        resident_count_from(h->resident, i, h->begin[i]);
        log_full_begin(&h->full[i], view, g, i);
        marked += h->full[i].is_marked;
    }
    h->told = g->keys;
    held_tell_others(h, g->keys, counted_here(h));
    h->full_lanes = marked;
    note_capacity(h);
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
    for (unsigned i = 0; i < LOG_LANES_MAX; i++)
        free(h->counted[i]);
    free(h->eras);
    free(h);
}

/* --- room --- */

uint64_t held_keys(const struct held *h)
{
    uint64_t keys = held_own_keys(h), told = h->told, others = h->others; /* read own keys first: the others
                                                                           * may only be newer */
    uint64_t here = others + counted_here(h);
    keys = keys > told ? keys : told;
    return keys > here ? keys : here;
}

uint64_t held_own_keys(const struct held *h)
{
    return h->keys + resident_keys(h->resident);
}

void held_keep_keys(struct held *h, uint64_t own)
{
    if (own > held_own_keys(h))
        h->keys += own - held_own_keys(h);
}

static unsigned reserve(struct held *h, unsigned wanted, bool beyond)
{
    uint64_t taken = atomic_fetch_add(&h->reserved, wanted) + held_keys(h), capacity = h->capacity;
    uint64_t room = taken < capacity ? capacity - taken : 0;
    unsigned some = room < wanted && !beyond && !h->unbounded ? (unsigned)room : wanted;
    atomic_fetch_sub(&h->reserved, wanted - some);
    return some;
}

/* Whoever gives room back after the second attempt tells of it. */
unsigned held_reserve(struct held *h, unsigned wanted, bool beyond)
{
    unsigned some = reserve(h, wanted, beyond);
    if (some > 0)
        return some;
    h->wanted = true;
    return reserve(h, wanted, beyond);
}

bool held_give_back(struct held *h, unsigned keys)
{
    atomic_fetch_sub(&h->reserved, keys);
    return atomic_exchange(&h->wanted, false);
}

bool held_is_full(const struct held *h)
{
    return h->full_lanes == h->resident->lanes;
}

/* --- entries --- */

void held_entry(struct held_entry *out, unsigned lane, const struct tail_record *record)
{
    out->lane = lane;
    out->count = record->entry.count;
    out->entry = &record->entry;
    out->id = record->id;
    for (unsigned i = 0; i < out->count; i++)
        out->keys[i] = log_entry_hash(&record->entry, i);
}

/* Judge keys of an entry behind the full mark: present, or refused. */
static enum err refuse(struct held *h, const struct held_entry *entry, uint8_t *added, struct error *e)
{
    static const uint8_t meaning[] = {[RESIDENT_PRESENT] = RESIDENT_OLD,
                                      [RESIDENT_ABSENT] = RESIDENT_REFUSED,
                                      [RESIDENT_UNKNOWN] = RESIDENT_UNSURE};
    resident_look(h->resident, entry->keys, entry->count, added);
    for (unsigned i = 0; i < entry->count; i++)
        added[i] = h->doubtful ? RESIDENT_REFUSED : meaning[added[i]];
    return resident_apply(h->resident, entry->lane, entry->id, NULL, 0, added, e);
}

enum err held_apply(struct held *h, const struct held_entry *entry, uint8_t *added, bool *was,
                    struct error *e)
{
    struct log_full *full = &h->full[entry->lane];
    *was = log_id_compare(entry->id, h->resident->applied[entry->lane]) <= 0;
    if (*was)
        return ERR_OK;
    if (entry->entry->kind == LOG_LAYER && entry->entry->sequence == h->shape.number) {
        enum err code = resident_begin_layer(h->resident, entry->lane, entry->id, entry->entry->layer, e);
        if (code == ERR_OK) {
            note_capacity(h);
            note_count(h, entry->lane, entry->id);
        }
        if (code != ERR_FENCED || !atomic_load(&h->replaced))
            return code;
    }
    bool was_marked = full->is_marked, behind = log_full_meets(full, entry->id, entry->entry);
    h->full_lanes += full->is_marked && !was_marked;
    enum err code = behind && entry->count > 0 ? refuse(h, entry, added, e)
                                               : resident_apply(h->resident, entry->lane, entry->id,
                                                                entry->keys, entry->count, added, e);
    if (code == ERR_OK)
        note_count(h, entry->lane, entry->id);
    return code;
}
