/* SPDX-License-Identifier: MIT */
#include "shard/resident/resident.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum err resident_new(struct resident **out, uint64_t mix, unsigned lanes, struct budget *budget,
                      struct error *e)
{
    struct resident *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    r->mix = mix;
    r->budget = budget;
    r->lanes = lanes;
    r->overlay = overlay_new(lanes);
    r->applied = calloc(lanes, sizeof(*r->applied));
    r->left = calloc(lanes, sizeof(*r->left));
    bool made = pthread_rwlock_init(&r->changing, NULL) == 0;
    if (!made || r->overlay == NULL || r->applied == NULL || r->left == NULL) {
        resident_free(r);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    *out = r;
    return ERR_OK;
}

static unsigned layers_of(const struct resident *r)
{
    return atomic_load_explicit(&r->layer_count, memory_order_acquire);
}

void resident_free(struct resident *r)
{
    if (r == NULL)
        return;
    for (unsigned l = 0; l < layers_of(r); l++) {
        struct bitmap *b = r->layer[l];
        for (uint32_t s = 0; s < b->geometry.shards; s++)
            if (bitmap_state(b, s) != BITMAP_ABSENT)
                budget_give(r->budget, b->shard_bytes);
        bitmap_free(b);
    }
    overlay_free(r->overlay);
    (void)pthread_rwlock_destroy(&r->changing);
    free(r->applied);
    free(r->left);
    free(r);
}

enum err resident_add_layer(struct resident *r, const struct geometry *g, uint16_t tag, struct error *e)
{
    unsigned count = layers_of(r);
    if (count == GENERATION_LAYERS_MAX)
        return error_set(e, ERR_RANGE, "a generation has at most %d layers", GENERATION_LAYERS_MAX);
    enum err code = bitmap_new(&r->layer[count], g, tag, e);
    if (code == ERR_OK)
        atomic_store_explicit(&r->layer_count, count + 1, memory_order_release);
    return code;
}

/* --- look-up --- */

/* Places of up to BITMAP_GROUP keys; their blocks are on the way from memory when this returns. */
static void place(const struct resident *r, const struct bitmap *b, const struct key_hash *hashes,
                  unsigned count, struct key_place *places)
{
    for (unsigned i = 0; i < count; i++) {
        hash_place(&b->geometry, hash_mix(hashes[i], r->mix), &places[i]);
        bitmap_fetch(b, &places[i], 1);
    }
}

static uint8_t both(uint8_t a, enum bitmap_answer b)
{
    if (a == RESIDENT_PRESENT || b == BITMAP_YES)
        return RESIDENT_PRESENT;
    return a == RESIDENT_UNKNOWN || b == BITMAP_UNKNOWN ? RESIDENT_UNKNOWN : RESIDENT_ABSENT;
}

/* Look up in the layers below @layers; the newest first, which most keys that are there are in. */
static void look_group(const struct resident *r, unsigned layers, const struct key_hash *hashes,
                       unsigned count, uint8_t *answers)
{
    struct key_place places[BITMAP_GROUP];
    uint8_t found[BITMAP_GROUP];
    memset(answers, layers == 0 ? RESIDENT_UNKNOWN : RESIDENT_ABSENT, count);
    for (unsigned l = layers; l-- > 0;) {
        place(r, r->layer[l], hashes, count, places);
        bitmap_look(r->layer[l], places, count, found);
        for (unsigned i = 0; i < count; i++)
            answers[i] = both(answers[i], (enum bitmap_answer)found[i]);
    }
}

void resident_look(const struct resident *r, const struct key_hash *hashes, size_t count, uint8_t *answers)
{
    unsigned layers = layers_of(r);
    for (size_t at = 0; at < count; at += BITMAP_GROUP) {
        size_t left = count - at;
        look_group(r, layers, hashes + at, left < BITMAP_GROUP ? (unsigned)left : BITMAP_GROUP, answers + at);
    }
}

/* --- apply --- */

/* Keep for the overlay what lies in shards that are not wholly in memory. */
static enum err keep(struct resident *r, unsigned lane, struct log_id id, unsigned layer,
                     const struct key_hash *hashes, const struct key_place *places, unsigned count,
                     struct error *e)
{
    struct overlay_key keys[LOG_KEYS_MAX];
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        if (bitmap_state(r->layer[layer], places[i].shard) != BITMAP_RESIDENT)
            keys[n++] = (struct overlay_key){hash_mix(hashes[i], r->mix), places[i].shard, places[i].block};
    return n == 0 ? ERR_OK : overlay_add(r->overlay, lane, id, layer, keys, n, e);
}

/* @older: what the layers before the newest say. A key that they have is not set again. */
static uint8_t apply_one(struct bitmap *b, const struct key_place *at, uint8_t older)
{
    if (older == RESIDENT_PRESENT)
        return RESIDENT_OLD;
    enum bitmap_state state = bitmap_state(b, at->shard);
    if (state == BITMAP_ABSENT)
        return RESIDENT_UNSURE;
    bool added = bitmap_set(b, at);
    if (state == BITMAP_LOADING) /* a piece may have had the entry itself */
        return RESIDENT_UNSURE;
    if (!added)
        return RESIDENT_OLD;
    return older == RESIDENT_UNKNOWN ? RESIDENT_UNSURE : RESIDENT_NEW;
}

static enum err apply(struct resident *r, unsigned lane, struct log_id id, const struct key_hash *hashes,
                      unsigned count, uint8_t *added, struct error *e)
{
    struct key_place places[LOG_KEYS_MAX];
    unsigned newest = layers_of(r) - 1;
    for (unsigned at = 0; at < count; at += BITMAP_GROUP) {
        unsigned n = count - at < BITMAP_GROUP ? count - at : BITMAP_GROUP;
        memset(added + at, RESIDENT_ABSENT, n);
        if (newest > 0)
            look_group(r, newest, hashes + at, n, added + at);
        place(r, r->layer[newest], hashes + at, n, places + at);
    }
    enum err code = keep(r, lane, id, newest, hashes, places, count, e);
    if (code != ERR_OK)
        return code;
    for (unsigned i = 0; i < count; i++)
        added[i] = apply_one(r->layer[newest], &places[i], added[i]);
    r->applied[lane] = id;
    return ERR_OK;
}

enum err resident_apply(struct resident *r, unsigned lane, struct log_id id, const struct key_hash *hashes,
                        unsigned count, uint8_t *added, struct error *e)
{
    assert(lane < r->lanes && count <= LOG_KEYS_MAX && layers_of(r) > 0);
    pthread_rwlock_rdlock(&r->changing);
    enum err code = apply(r, lane, id, hashes, count, added, e);
    pthread_rwlock_unlock(&r->changing);
    return code;
}

/* --- shards come and go --- */

static enum err begin(struct resident *r, unsigned layer, uint32_t first, uint32_t count, struct error *e)
{
    struct bitmap *b = r->layer[layer];
    for (uint32_t s = first; s < first + count; s++)
        if (bitmap_state(b, s) != BITMAP_ABSENT)
            return error_set(e, ERR_CONFLICT, "shard %u of layer %u is in memory", s, layer);
    if (!budget_take(r->budget, (uint64_t)count * b->shard_bytes))
        return error_set(e, ERR_NOMEM, "resident_memory has no room for %u shards of %u bytes", count,
                         b->shard_bytes);
    for (uint32_t s = first; s < first + count; s++)
        bitmap_change(b, s, BITMAP_LOADING);
    overlay_or(r->overlay, layer, b);
    return ERR_OK;
}

/* What the overlay has is ORed before the first piece is asked for: what has left the overlay by then is in
 * the pieces, what comes after goes into the bitmap at once. */
enum err resident_load_begin(struct resident *r, unsigned layer, uint32_t first, uint32_t count,
                             struct error *e)
{
    assert(layer < layers_of(r) && count <= r->layer[layer]->geometry.shards &&
           first <= r->layer[layer]->geometry.shards - count);
    pthread_rwlock_wrlock(&r->changing);
    enum err code = begin(r, layer, first, count, e);
    pthread_rwlock_unlock(&r->changing);
    return code;
}

enum err resident_load_end(struct resident *r, unsigned layer, uint32_t shard, struct error *e)
{
    struct bitmap *b = r->layer[layer];
    enum err code = ERR_OK;
    pthread_rwlock_wrlock(&r->changing);
    if (bitmap_state(b, shard) != BITMAP_LOADING || !bitmap_is_loaded(b, shard))
        code = error_set(e, ERR_CONFLICT, "shard %u of layer %u was not loaded whole", shard, layer);
    else
        bitmap_change(b, shard, BITMAP_RESIDENT);
    pthread_rwlock_unlock(&r->changing);
    return code;
}

static void give_back(struct resident *r, struct bitmap *b, uint32_t shard)
{
    bitmap_change(b, shard, BITMAP_ABSENT);
    budget_give(r->budget, b->shard_bytes);
}

void resident_load_cancel(struct resident *r, unsigned layer, uint32_t shard)
{
    pthread_rwlock_wrlock(&r->changing);
    if (bitmap_state(r->layer[layer], shard) == BITMAP_LOADING)
        give_back(r, r->layer[layer], shard);
    pthread_rwlock_unlock(&r->changing);
}

void resident_leave_begin(struct resident *r, unsigned layer, uint32_t shard)
{
    pthread_rwlock_wrlock(&r->changing);
    if (bitmap_state(r->layer[layer], shard) == BITMAP_RESIDENT) {
        bitmap_change(r->layer[layer], shard, BITMAP_LEAVING);
        memcpy(r->left, r->applied, r->lanes * sizeof(*r->left));
    }
    pthread_rwlock_unlock(&r->changing);
}

bool resident_leave_end(struct resident *r, unsigned layer, uint32_t shard)
{
    pthread_rwlock_wrlock(&r->changing);
    bool may = bitmap_state(r->layer[layer], shard) == BITMAP_LEAVING;
    for (unsigned i = 0; i < r->lanes; i++)
        may &= overlay_is_folded(r->overlay, i, r->left[i]);
    if (may)
        give_back(r, r->layer[layer], shard);
    pthread_rwlock_unlock(&r->changing);
    return may;
}
