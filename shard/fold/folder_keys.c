/* SPDX-License-Identifier: MIT */
/* Shards that were not whole in memory: their keys in the overlay are written, or counted, block by block. */
#include "shard/fold/folder_internal.h"

#include <stdlib.h>

enum { TAIL_KEYS = 1 << 18 /* the most keys that are counted at a time */ };

static bool is_written_by_keys(struct folder *f, const struct overlay_met *m)
{
    const struct folder_shard *one = shard_of(f, m->layer, m->key.shard);
    return one->state != FOLDER_FOREIGN &&
           !bitmap_stayed(f->resident->layer[m->layer], m->key.shard, one->stamp);
}

static int compare(const void *a, const void *b)
{
    const struct overlay_met *x = a, *y = b;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    if (x->key.shard != y->key.shard)
        return x->key.shard < y->key.shard ? -1 : 1;
    return (x->key.block > y->key.block) - (x->key.block < y->key.block);
}

/* The number of keys, out of @count in order, that lie in the block of the first one. */
static unsigned in_one_block(const struct overlay_met *met, unsigned count)
{
    unsigned n = 1;
    while (n < count && compare(&met[n], &met[0]) == 0)
        n++;
    return n;
}

/* Set the bits of @count keys of one block. Returns the number of keys that set some; *@some is one of them.
 */
static unsigned complete(struct folder *f, const struct overlay_met *met, unsigned count, uint8_t *block,
                         struct overlay_key *some)
{
    const struct geometry *g = &f->fold.shape->layers[met->layer].geometry;
    struct key_place place;
    unsigned changed = 0;
    for (unsigned i = 0; i < count; i++) {
        hash_place(g, met[i].key.hash, &place);
        place.block = 0;
        if (block_set(g, &place, block)) {
            changed++;
            *some = met[i].key;
        }
    }
    return changed;
}

/* Read the blocks of @count keys, which are in order; at most BLOCKS blocks. *@taken: the number of keys in
 * them. */
static enum err read_blocks(struct folder *f, struct work *w, const struct overlay_met *met, unsigned count,
                            unsigned *taken, struct error *e)
{
    enum err code = ERR_OK;
    unsigned blocks = 0, at = 0;
    for (; blocks < BLOCKS && at < count && code == ERR_OK; blocks++) {
        code = fold_get(&f->fold, met[at].layer, met[at].key.shard, met[at].key.block, e);
        at += in_one_block(met + at, count - at);
    }
    *taken = at;
    at = 0;
    for (unsigned i = 0; i < blocks && code == ERR_OK; i++) {
        const struct overlay_met *m = &met[at];
        code = fold_got(&f->fold, m->layer, m->key.shard, m->key.block, w->block[i], e);
        code = folder_go_on(f, m->layer, m->key.shard, code, e);
        at += in_one_block(m, count - at);
    }
    return code;
}

/* A key that was applied while its shard was loading, and its place in log order among all that are
 * counted. */
struct tail_key {
    struct overlay_met met;
    uint64_t order;
};

static int compare_tail(const void *a, const void *b)
{
    const struct tail_key *x = a, *y = b;
    int order = compare(&x->met, &y->met);
    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* The overlay's keys of a part of the blocks: part @part of @parts. */
struct tail {
    unsigned part, parts, count, before; /* number of keys; those up to @from come first in log order */
    struct tail_key key[TAIL_KEYS];
};

/* Add the keys behind @from, up to @to. */
static enum err take_tail(struct tail *t, struct resident *r, const struct log_id *from,
                          const struct log_id *to, struct overlay_met *met, struct error *e)
{
    struct overlay_walk walk;
    enum err code = ERR_OK;
    unsigned some;
    overlay_walk_begin(r->overlay, &walk);
    while (code == ERR_OK && overlay_walk_next(r->overlay, &walk, from, to, met, KEYS, &some))
        for (unsigned i = 0; i < some && code == ERR_OK; i++) {
            if ((met[i].key.block + met[i].key.shard) % t->parts != t->part)
                continue;
            if (t->count == TAIL_KEYS)
                code = error_set(e, ERR_NOMEM, "too many keys in some blocks to be counted");
            else
                t->key[t->count] = (struct tail_key){met[i], t->count};
            t->count += code == ERR_OK;
        }
    overlay_walk_end(r->overlay, &walk);
    return code;
}

/* How many of the first @count keys to take together: whole blocks, unless a single block has more keys. */
static unsigned whole_blocks(const struct tail_key *tail, unsigned count)
{
    unsigned n = count < KEYS ? count : KEYS, all = n;
    while (n > 0 && n < count && compare(&tail[n - 1].met, &tail[n].met) == 0)
        n--;
    return n > 0 ? n : all;
}

/* Count the new keys among @count keys, which are in w->met and in order: block by block, in log order, after
 * the keys of earlier positions. */
static enum err count_keys(struct folder *f, struct work *w, const struct tail *t, const struct tail_key *key,
                           unsigned count, uint64_t *keys, struct error *e)
{
    enum err code = ERR_OK;
    unsigned lost = f->lost, taken, n;
    struct overlay_key some;
    for (unsigned at = 0; at < count && code == ERR_OK; at += taken) {
        code = read_blocks(f, w, w->met + at, count - at, &taken, e);
        if (code == ERR_OK && f->lost > lost)
            code = error_set(e, f->lost_code, "%s", f->lost_why.text);
        unsigned block = 0;
        for (unsigned i = at; i < at + taken && code == ERR_OK; i += n, block++) {
            unsigned old = 0;
            n = in_one_block(w->met + i, at + taken - i);
            while (old < n && key[i + old].order < t->before)
                old++;
            if (old > 0)
                (void)complete(f, w->met + i, old, w->block[block], &some);
            if (n > old)
                *keys += complete(f, w->met + i + old, n - old, w->block[block], &some);
        }
    }
    return code;
}

/* Count the new keys of a part. */
static enum err count_part(struct folder *f, struct work *w, const struct tail *t, uint64_t *keys,
                           struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned at = 0, n; at < t->count && code == ERR_OK; at += n) {
        n = whole_blocks(t->key + at, t->count - at);
        for (unsigned i = 0; i < n; i++)
            w->met[i] = t->key[at + i].met;
        code = count_keys(f, w, t, t->key + at, n, keys, e);
    }
    return code;
}

enum err folder_count(struct folder *f, const struct log_id *from, const struct log_id *to, uint64_t *keys,
                      struct error *e)
{
    static const struct log_id begin[LOG_LANES_MAX];
    struct tail *t = malloc(sizeof(*t));
    struct work *w = malloc(sizeof(*w));
    uint64_t held, bytes;
    enum err code = ERR_OK;
    *keys = 0;
    if (t == NULL || w == NULL) {
        free(t);
        free(w);
        return error_set(e, ERR_NOMEM, "no memory to count keys");
    }
    overlay_size(f->resident->overlay, &held, &bytes);
    unsigned parts = (unsigned)(2 * held / TAIL_KEYS) + 1; /* half full on average, as the parts are not
                                                            * equal */
    for (unsigned part = 0; part < parts && code == ERR_OK; part++) {
        t->parts = parts;
        t->part = part;
        t->count = 0;
        code = take_tail(t, f->resident, begin, from, w->met, e);
        t->before = t->count;
        if (code == ERR_OK)
            code = take_tail(t, f->resident, from, to, w->met, e);
        qsort(t->key, t->count, sizeof(t->key[0]), compare_tail);
        if (code == ERR_OK)
            code = count_part(f, w, t, keys, e);
    }
    free(t);
    free(w);
    if (code != ERR_OK)
        sync_client_forget(f->fold.redis); /* replies that are still to come belong to nobody */
    return code;
}

/* Write those blocks of one shard that the keys change; none if a block of the shard was not read. @counts:
 * keys that change one were not counted yet. */
static enum err write_blocks(struct folder *f, const struct overlay_met *met, unsigned count, bool counts,
                             uint8_t (**blocks)[BLOCK_BITS_MAX / 8], unsigned *taken, struct error *e)
{
    unsigned layer = met->layer, at = 0;
    uint32_t shard = met->key.shard, bytes = f->fold.shape->layers[layer].geometry.block_bits / 8,
             written = 0;
    struct folder_script script = {.layer = layer, .shard = shard};
    bool is_read = shard_of(f, layer, shard)->state != FOLDER_FOREIGN;
    fold_begin(&f->fold, layer, shard);
    while (at < count && met[at].layer == layer && met[at].key.shard == shard &&
           written + bytes <= FOLD_WRITE_BYTES) {
        unsigned n = in_one_block(met + at, count - at);
        uint8_t *block = *(*blocks)++;
        unsigned changed = is_read ? complete(f, met + at, n, block, &script.some) : 0;
        if (changed > 0) {
            script.keys += counts ? changed : 0;
            fold_piece(&f->fold, (met[at].key.block + UINT64_C(1)) * bytes, block, bytes);
            written += bytes;
        }
        at += n;
    }
    *taken = at;
    return written == 0 ? ERR_OK : folder_send_script(f, &script, e);
}

/* A block with more keys in a later batch is read again after this write. */
static enum err write_met(struct folder *f, struct work *w, unsigned count, bool counts, struct error *e)
{
    enum err code = ERR_OK;
    unsigned taken, n;
    for (unsigned at = 0; at < count && code == ERR_OK; at += taken) {
        uint8_t(*blocks)[BLOCK_BITS_MAX / 8] = w->block;
        code = read_blocks(f, w, w->met + at, count - at, &taken, e);
        for (unsigned i = 0; i < taken && code == ERR_OK; i += n)
            code = write_blocks(f, w->met + at + i, taken - i, counts, &blocks, &n, e);
        if (code == ERR_OK)
            code = folder_take_replies(f, e);
    }
    return code;
}

enum err folder_write_keys(struct folder *f, struct work *w, const struct log_id *from,
                           const struct log_id *to, bool counts, struct error *e)
{
    enum err code = ERR_OK;
    struct overlay_walk walk;
    unsigned met, count;
    overlay_walk_begin(f->resident->overlay, &walk);
    while (code == ERR_OK && overlay_walk_next(f->resident->overlay, &walk, from, to, w->met, KEYS, &met)) {
        count = 0;
        for (unsigned i = 0; i < met; i++)
            if (is_written_by_keys(f, &w->met[i]))
                w->met[count++] = w->met[i];
        qsort(w->met, count, sizeof(w->met[0]), compare);
        code = folder_tend(f, e);
        if (code == ERR_OK)
            code = write_met(f, w, count, counts, e);
    }
    overlay_walk_end(f->resident->overlay, &walk);
    return code;
}

enum err folder_count_unanswered(struct folder *f, struct error *e)
{
    uint8_t block[BLOCK_BITS_MAX / 8];
    struct key_place place;
    for (; f->window.count > 0; f->window.count--) {
        const struct folder_script *s =
            &f->window.sent[(f->window.first + f->window.count - 1) % FOLDER_WINDOW];
        const struct geometry *g = &f->fold.shape->layers[s->layer].geometry;
        if (s->keys == 0 || shard_of(f, s->layer, s->shard)->state == FOLDER_FOREIGN)
            continue;
        enum err code = fold_get(&f->fold, s->layer, s->shard, s->some.block, e);
        if (code == ERR_OK)
            code = fold_got(&f->fold, s->layer, s->shard, s->some.block, block, e);
        if (code != ERR_OK && !fold_is_lost(code))
            return code;
        hash_place(g, s->some.hash, &place);
        place.block = 0;
        f->resident->folded_keys += code == ERR_OK && block_has(g, &place, block) ? s->keys : 0;
    }
    return ERR_OK;
}
