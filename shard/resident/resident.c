/* SPDX-License-Identifier: MIT */
#include "shard/resident/resident.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/block.h"

enum { AHEAD = 16 /* keys whose blocks are on the way from memory */ };

/* Writers go first: a shard that loads must not wait for ever while requests pin blocks. */
static bool make_lock(pthread_rwlock_t *lock)
{
    pthread_rwlockattr_t kind;
    return pthread_rwlockattr_init(&kind) == 0 &&
           pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0 &&
           pthread_rwlock_init(lock, &kind) == 0;
}

enum err resident_new(struct resident **out, uint64_t mix, unsigned lanes, struct budget *budget,
                      struct error *e)
{
    assert(lanes <= LOG_LANES_MAX);
    struct resident *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    r->mix = mix;
    r->budget = budget;
    r->lanes = lanes;
    r->view = r->base = 1;
    r->overlay = overlay_new(lanes);
    r->blocks = blocks_new(budget);
    if (!make_lock(&r->changing) || r->overlay == NULL || r->blocks == NULL) {
        resident_free(r);
        return error_set(e, ERR_NOMEM, "out of memory");
    }
    for (unsigned lane = 0; lane < lanes; lane++)
        atomic_init(&r->begun[lane], 1);
    *out = r;
    return ERR_OK;
}

static unsigned layers_of(const struct resident *r)
{
    return atomic_load_explicit(&r->layer_count, memory_order_acquire);
}

static uint32_t base_of(const struct resident *r)
{
    return atomic_load_explicit(&r->base, memory_order_acquire);
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
    blocks_free(r->blocks);
    (void)pthread_rwlock_destroy(&r->changing);
    free(r);
}

uint64_t resident_changes(const struct resident *r)
{
    return atomic_load_explicit(&r->changes, memory_order_acquire);
}

/* Call it after the change. */
static void note_change(struct resident *r)
{
    atomic_fetch_add_explicit(&r->changes, 1, memory_order_release);
}

enum err resident_add_layer(struct resident *r, const struct geometry *g, uint16_t tag, struct error *e)
{
    unsigned count = layers_of(r);
    if (count == GENERATION_LAYERS_MAX)
        return error_set(e, ERR_RANGE, "a generation has at most %d layers", GENERATION_LAYERS_MAX);
    enum err code = bitmap_new(&r->layer[count], g, tag, e);
    if (code == ERR_OK)
        atomic_store_explicit(&r->layer_count, count + 1, memory_order_release);
    note_change(r);
    return code;
}

/* --- look-up --- */

/* Place the key, and begin to fetch its block from memory. */
static void place(const struct resident *r, const struct bitmap *b, struct key_hash hash,
                  struct key_place *at)
{
    hash_place(&b->geometry, hash_mix(hash, r->mix), at);
    bitmap_fetch(b, at);
}

_Static_assert((int)RESIDENT_ABSENT == BITMAP_NO && (int)RESIDENT_PRESENT == BITMAP_YES &&
                   (int)RESIDENT_UNKNOWN == BITMAP_UNKNOWN && RESIDENT_ABSENT == 0 && RESIDENT_PRESENT == 1 &&
                   RESIDENT_UNKNOWN == 2,
               "answers of layers are joined as bits");

/* Present if either layer says so; else unknown if either does; else absent. */
static uint8_t both(uint8_t a, uint8_t b)
{
    unsigned any = a | b;
    return (uint8_t)(any & ((any & 1) != 0 ? 1 : 3));
}

/* Out of line: a block is seldom pinned, and the loop of look_layer() needs the registers. */
__attribute__((noinline, cold)) static void look_at_pinned(const struct resident *r, unsigned l,
                                                           struct key_hash hash, uint8_t *found)
{
    const struct geometry *g = &r->layer[l]->geometry;
    struct key_place at;
    if (*found != BITMAP_UNKNOWN)
        return;
    hash_place(g, hash_mix(hash, r->mix), &at);
    *found = (uint8_t)blocks_look(r->blocks, l, g, base_of(r), &at);
}

/* Join the answers of layer @l. Each block is fetched AHEAD keys before the look, so that the processor waits
 * for several blocks at once. */
static void look_layer(const struct resident *r, unsigned l, const struct key_hash *hashes, size_t count,
                       uint8_t *answers)
{
    const struct bitmap *b = r->layer[l];
    struct bitmap_aim aims[AHEAD];
    for (size_t i = 0; i < count && i < AHEAD; i++)
        bitmap_aim(b, hash_mix(hashes[i], r->mix), &aims[i]);
    for (size_t i = 0; i < count; i++) {
        struct bitmap_aim *aim = &aims[i % AHEAD];
        uint8_t found = bitmap_see(b, aim);
        if (blocks_any(r->blocks))
            look_at_pinned(r, l, hashes[i], &found);
        answers[i] = both(answers[i], found);
        if (count - i > AHEAD)
            bitmap_aim(b, hash_mix(hashes[i + AHEAD], r->mix), aim);
    }
}

/* Look into the layers below @layers, the newest first: it has most of the keys. */
static void look_below(const struct resident *r, unsigned layers, const struct key_hash *hashes, size_t count,
                       uint8_t *answers)
{
    memset(answers, layers == 0 ? RESIDENT_UNKNOWN : RESIDENT_ABSENT, count);
    for (unsigned l = layers; l-- > 0;)
        look_layer(r, l, hashes, count, answers);
}

void resident_look(const struct resident *r, const struct key_hash *hashes, size_t count, uint8_t *answers)
{
    look_below(r, layers_of(r), hashes, count, answers);
}

/* --- apply --- */

/* Add the keys of shards that are not whole in memory to the overlay. */
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

struct counted {
    unsigned whole, pinned;
};

/* @older: the answer of the layers before @newest.
 *
 * A pinned block that is whole decides before its shard does: an add may have been sent after the block was
 * read, and the shard loaded later, from pieces that had the add's own bits. */
static uint8_t apply_one(struct resident *r, unsigned newest, const struct key_place *at, bool pinned,
                         uint8_t older, struct counted *counted)
{
    struct bitmap *b = r->layer[newest];
    enum bitmap_state state = bitmap_state(b, at->shard);
    bool is_new = state != BITMAP_ABSENT && bitmap_set(b, at);
    bool is_known = state >= BITMAP_RESIDENT; /* the pieces of a loading shard may have had the entry
                                               * itself */
    counted->whole += state == BITMAP_RESIDENT && is_new; /* the folder counts keys of other shards */
    enum blocks_set set =
        pinned ? blocks_set(r->blocks, newest, &b->geometry, base_of(r), at) : BLOCKS_SILENT;
    if (set != BLOCKS_SILENT) {
        is_known = true;
        is_new = set == BLOCKS_NEW;
        counted->pinned += is_new && state != BITMAP_RESIDENT;
    }
    if (older == RESIDENT_PRESENT || (is_known && !is_new))
        return RESIDENT_OLD;
    return is_known && older == RESIDENT_ABSENT ? RESIDENT_NEW : RESIDENT_UNSURE;
}

static enum err apply(struct resident *r, unsigned lane, struct log_id id, const struct key_hash *hashes,
                      unsigned count, uint8_t *added, struct error *e)
{
    struct key_place places[LOG_KEYS_MAX];
    unsigned newest = r->begun[lane] - 1;
    struct counted counted = {0};
    memset(added, RESIDENT_ABSENT, count);
    if (newest > 0)
        look_below(r, newest, hashes, count, added);
    for (unsigned i = 0; i < count; i++)
        place(r, r->layer[newest], hashes[i], &places[i]);
    enum err code = keep(r, lane, id, newest, hashes, places, count, e);
    if (code != ERR_OK)
        return code;
    bool pinned = blocks_any(r->blocks); /* after keep(): see pin.c */
    for (unsigned i = 0; i < count; i++)
        added[i] = apply_one(r, newest, &places[i], pinned, added[i], &counted);
    if (log_id_compare(id, r->counted[lane]) > 0) {
        atomic_fetch_add_explicit(&r->keys[lane], counted.whole, memory_order_relaxed);
        atomic_fetch_add_explicit(&r->pinned_keys[lane], counted.pinned, memory_order_relaxed);
    }
    r->applied[lane] = id;
    note_change(r);
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

void resident_begin(struct resident *r, unsigned lane, struct log_id id, unsigned layers)
{
    pthread_rwlock_wrlock(&r->changing);
    assert(lane < r->lanes && layers <= layers_of(r));
    r->applied[lane] = id;
    r->counted[lane] = id;
    r->begun[lane] = layers > 0 ? layers : 1;
    r->keys[lane] = r->pinned_keys[lane] = 0;
    pthread_rwlock_unlock(&r->changing);
}

void resident_count_from(struct resident *r, unsigned lane, struct log_id id)
{
    pthread_rwlock_wrlock(&r->changing);
    r->counted[lane] = id;
    pthread_rwlock_unlock(&r->changing);
}

enum err resident_begin_layer(struct resident *r, unsigned lane, struct log_id id, unsigned layer,
                              struct error *e)
{
    pthread_rwlock_rdlock(&r->changing);
    bool known = layer < layers_of(r);
    if (known && layer >= r->begun[lane])
        r->begun[lane] = layer + 1;
    if (known)
        r->applied[lane] = id;
    pthread_rwlock_unlock(&r->changing);
    return known ? ERR_OK : error_set(e, ERR_FENCED, "layer %u begins, and is not known yet", layer);
}

/* --- shards come and go --- */

/* *@absent: the number of shards that have no memory yet. */
static enum err check_loadable(const struct resident *r, unsigned layer, uint32_t first, uint32_t count,
                               uint32_t *absent, struct error *e)
{
    const struct bitmap *b = r->layer[layer];
    *absent = 0;
    for (uint32_t s = first; s < first + count; s++) {
        enum bitmap_state state = bitmap_state(b, s);
        if (state != BITMAP_ABSENT && state != BITMAP_RELOADING)
            return error_set(e, ERR_CONFLICT, "shard %u of layer %u is in memory", s, layer);
        *absent += state == BITMAP_ABSENT;
    }
    return ERR_OK;
}

/* OR the overlay before the first piece is asked for: entries that have left the overlay by then are in the
 * pieces, and later entries go into the bitmap at once. Entries wait only while the states change: no other
 * thread changes the states of these shards. */
enum err resident_load_begin(struct resident *r, unsigned layer, uint32_t first, uint32_t count,
                             struct error *e)
{
    struct bitmap *b = r->layer[layer];
    uint32_t absent;
    assert(layer < layers_of(r) && count <= b->geometry.shards && first <= b->geometry.shards - count);
    enum err code = check_loadable(r, layer, first, count, &absent, e);
    if (code != ERR_OK)
        return code;
    if (!budget_take(r->budget, (uint64_t)absent * b->shard_bytes))
        return error_set(e, ERR_NOMEM, "resident_memory has no room for %u shards of %u bytes", absent,
                         b->shard_bytes);
    bitmap_reserve(b, first, count);
    pthread_rwlock_wrlock(&r->changing);
    for (uint32_t s = first; s < first + count; s++)
        bitmap_change(b, s, bitmap_state(b, s) == BITMAP_ABSENT ? BITMAP_LOADING : BITMAP_RELOADING);
    pthread_rwlock_unlock(&r->changing);
    overlay_or(r->overlay, layer, b);
    return ERR_OK;
}

enum err resident_load_piece(struct resident *r, unsigned layer, uint32_t shard, uint32_t offset,
                             const void *bytes, uint32_t length, struct error *e)
{
    pthread_rwlock_rdlock(&r->changing);
    enum err code = bitmap_or(r->layer[layer], shard, offset, bytes, length, e);
    pthread_rwlock_unlock(&r->changing);
    return code;
}

enum err resident_load_end(struct resident *r, unsigned layer, uint32_t shard, struct error *e)
{
    struct bitmap *b = r->layer[layer];
    enum err code = ERR_OK;
    pthread_rwlock_wrlock(&r->changing);
    if (!bitmap_is_loading(b, shard) || !bitmap_is_loaded(b, shard))
        code = error_set(e, ERR_CONFLICT, "shard %u of layer %u was not loaded whole", shard, layer);
    else
        bitmap_change(b, shard, BITMAP_RESIDENT);
    pthread_rwlock_unlock(&r->changing);
    return code;
}

bool resident_load_empty(struct resident *r, unsigned layer, uint32_t first, uint32_t count)
{
    struct bitmap *b = r->layer[layer];
    struct error ignored;
    uint8_t *empty = calloc(1, b->shard_bytes);
    bool done = empty != NULL && resident_load_begin(r, layer, first, count, &ignored) == ERR_OK;
    if (done)
        block_fill(&b->geometry, b->tag, empty);
    for (uint32_t s = first; done && s < first + count; s++) {
        done = resident_load_piece(r, layer, s, 0, empty, b->shard_bytes, &ignored) == ERR_OK &&
               resident_load_end(r, layer, s, &ignored) == ERR_OK;
    }
    free(empty);
    return done;
}

void resident_load_cancel(struct resident *r, unsigned layer, uint32_t shard)
{
    if (bitmap_state(r->layer[layer], shard) != BITMAP_LOADING) /* only the thread that loads the shard
                                                                 * cancels it */
        return;
    pthread_rwlock_wrlock(&r->changing);
    bitmap_change(r->layer[layer], shard, BITMAP_ABSENT);
    budget_give(r->budget, r->layer[layer]->shard_bytes);
    pthread_rwlock_unlock(&r->changing);
}

uint64_t resident_keys(const struct resident *r)
{
    uint64_t keys = r->folded_keys;
    for (unsigned lane = 0; lane < r->lanes; lane++)
        keys += r->keys[lane];
    return keys;
}

uint64_t resident_pinned_keys(const struct resident *r)
{
    uint64_t keys = 0;
    for (unsigned lane = 0; lane < r->lanes; lane++)
        keys += r->pinned_keys[lane];
    return keys;
}

void resident_barrier(struct resident *r)
{
    pthread_rwlock_wrlock(&r->changing);
    pthread_rwlock_unlock(&r->changing);
}

void resident_rebase(struct resident *r)
{
    pthread_rwlock_wrlock(&r->changing);
    for (unsigned l = 0; l < layers_of(r); l++)
        for (uint32_t s = 0; s < r->layer[l]->geometry.shards; s++)
            if (bitmap_state(r->layer[l], s) >= BITMAP_RESIDENT)
                bitmap_change(r->layer[l], s, BITMAP_RELOADING);
    overlay_reset(r->overlay);
    r->folded_keys = 0;
    memset(r->applied, 0, sizeof(r->applied));
    atomic_fetch_add(&r->view, 1);
    atomic_fetch_add(&r->base, 1);
    note_change(r);
    pthread_rwlock_unlock(&r->changing);
}

enum err resident_join_piece(struct resident *r, unsigned layer, uint32_t shard, uint32_t offset,
                             const void *bytes, uint32_t length, struct error *e)
{
    pthread_rwlock_rdlock(&r->changing);
    enum err code = bitmap_join(r->layer[layer], shard, offset, bytes, length, e);
    pthread_rwlock_unlock(&r->changing);
    return code;
}
