/* SPDX-License-Identifier: MIT */
#include "shard/fold/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/filter/block.h"
#include "shard/resident/dirty.h"
#include "shard/fold/full.h"

enum {
    WINDOW = 8,              /* scripts under way */
    PIECE_BYTES = 256 << 10, /* of shards that are read at a time */
    PIECES = 64,             /* at a time */
    TAKE_OVERS_MAX = 8,      /* tokens that are drawn until one is the latest */
    KEYS = 4096,             /* of the overlay at a time */
    BLOCKS = 256,            /* that are read at a time */
    TAIL_KEYS = 1 << 18      /* that are counted at once, at most */
};

/* Scripts under way, oldest first. */
struct window {
    struct {
        unsigned layer;
        uint32_t shard;
    } sent[WINDOW];
    unsigned first, count;
};

/* What one fold needs beside the folder. */
struct work {
    struct window window;
    struct {
        unsigned layer;
        struct dirty_batch batch;
    } copied[WINDOW]; /* to be sent next */
    unsigned copies;
    struct overlay_met met[KEYS];
    uint8_t block[BLOCKS][BLOCK_BITS_MAX / 8];
};

/* Room for the shards of all layers. What is new has not the token yet. */
static enum err widen(struct folder *f, struct error *e)
{
    uint64_t count = 0;
    for (unsigned layer = 0; layer < f->shape->layer_count; layer++) {
        f->first[layer] = count;
        count += f->shape->layers[layer].geometry.shards;
    }
    if (count == 0)
        return error_set(e, ERR_RANGE, "generation %" PRIu64 " has no shards", f->shape->number);
    struct folder_shard *wider = calloc(count, sizeof(*wider));
    if (wider == NULL)
        return error_set(e, ERR_NOMEM, "no memory to fold %" PRIu64 " shards", count);
    if (f->layers > 0)
        memcpy(wider, f->shards, f->first[f->layers] * sizeof(*wider));
    free(f->shards);
    f->shards = wider;
    f->layers = f->shape->layer_count;
    return ERR_OK;
}

enum err folder_init(struct folder *f, struct sync_client *l, const struct names *names,
                     const struct generation *shape, struct resident *resident, struct error *e)
{
    *f = (struct folder){.resident = resident, .shape = shape};
    fold_init(&f->fold, l, names, shape->number);
    f->tag = hash_tag(names->incarnation, names->filter, names->filter_length, shape->number);
    enum err code = placement_resolve(&f->placement, names, shape, sync_client_nodes(l), e);
    if (code == ERR_OK)
        code = widen(f, e);
    if (code != ERR_OK)
        folder_fini(f);
    return code;
}

void folder_fini(struct folder *f)
{
    fold_fini(&f->fold);
    free(f->shards);
}

/* --- shards --- */

static struct folder_shard *shard_of(struct folder *f, unsigned layer, uint32_t shard)
{
    return &f->shards[f->first[layer] + shard];
}

static unsigned where_of(struct folder *f, unsigned layer, uint32_t shard)
{
    return placement_where(&f->placement, layer, shard);
}

static struct header header_of(const struct folder *f, unsigned layer, uint32_t shard)
{
    return header_of_shard(f->shape, f->fold.names->incarnation, f->tag, layer, shard);
}

static enum err tend(const struct folder *f, struct error *e)
{
    return f->tend == NULL ? ERR_OK : f->tend(f->tend_arg, e);
}

/* Call @fn for each shard of each layer, until one fails. */
typedef enum err shard_fn(struct folder *f, unsigned layer, uint32_t shard, void *arg, struct error *e);

static enum err for_each_shard(struct folder *f, shard_fn *fn, void *arg, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < f->shape->layer_count; layer++)
        for (uint32_t s = 0; s < f->shape->layers[layer].geometry.shards && code == ERR_OK; s++) {
            code = fn(f, layer, s, arg, e);
            if (code == ERR_OK)
                code = tend(f, e);
        }
    return code;
}

/* Where @code is about this shard alone, go on without it. What it was written before counts no more: it may
 * come back as another one, so all that the overlay has is written again. */
static enum err go_on(struct folder *f, unsigned layer, uint32_t shard, enum err code, const struct error *e)
{
    if (!fold_is_lost(code))
        return code;
    shard_of(f, layer, shard)->state = FOLDER_FOREIGN;
    memset(f->stored, 0, sizeof(f->stored));
    if (code == ERR_LOST)
        f->lost_shard = (struct log_lost){.generation = f->shape->number, .layer = layer, .shard = shard};
    if (f->lost++ == 0) {
        f->lost_code = code;
        f->lost_why = e == NULL ? (struct error){""} : *e;
    }
    return ERR_OK;
}

/* --- taking over --- */

static void push(struct window *w, unsigned layer, uint32_t shard)
{
    unsigned at = (w->first + w->count++) % WINDOW;
    w->sent[at].layer = layer;
    w->sent[at].shard = shard;
}

static void pop(struct window *w, unsigned *layer, uint32_t *shard)
{
    *layer = w->sent[w->first].layer;
    *shard = w->sent[w->first].shard;
    w->first = (w->first + 1) % WINDOW;
    w->count--;
}

struct entering {
    struct window window;
    uint64_t later; /* the number of a later token that a shard has; 0: none has */
};

static enum err take_entered(struct folder *f, struct entering *n, struct error *e)
{
    unsigned layer;
    uint32_t shard;
    uint64_t later;
    pop(&n->window, &layer, &shard);
    struct header h = header_of(f, layer, shard);
    enum err code = fold_entered(&f->fold, where_of(f, layer, shard), &h, &later, e);
    if (code == ERR_OK)
        shard_of(f, layer, shard)->state = FOLDER_ENTERED;
    if (later > n->later)
        n->later = later;
    return go_on(f, layer, shard, code, e);
}

static enum err enter(struct folder *f, unsigned layer, uint32_t shard, void *arg, struct error *e)
{
    struct entering *n = arg;
    struct header h = header_of(f, layer, shard);
    if (shard_of(f, layer, shard)->state != FOLDER_FOREIGN)
        return ERR_OK;
    enum err code = n->window.count == WINDOW ? take_entered(f, n, e) : ERR_OK;
    if (code == ERR_OK)
        code = fold_enter(&f->fold, where_of(f, layer, shard), &h, e);
    if (code == ERR_OK)
        push(&n->window, layer, shard);
    return code;
}

/* Enter the token into the headers of all shards that may have another one. *@later: as fold_adopt(). */
static enum err enter_all(struct folder *f, uint64_t *later, struct error *e)
{
    struct entering n = {.later = 0};
    enum err code = for_each_shard(f, enter, &n, e);
    while (n.window.count > 0 && code != ERR_UNREACHABLE && code != ERR_TIMEOUT) {
        enum err next = take_entered(f, &n, code == ERR_OK ? e : NULL);
        code = code == ERR_OK ? next : code;
    }
    *later = n.later;
    return code;
}

/* Pieces of shards that are read together. */
struct pieces {
    unsigned count;
    uint32_t bytes;
    struct piece {
        unsigned layer;
        uint32_t shard, offset, length;
        bool is_last; /* of its shard */
        redisReply *reply;
    } piece[PIECES];
};

static enum err ask_pieces(struct folder *f, struct pieces *p, struct error *e)
{
    enum err code = ERR_OK;
    unsigned asked = 0;
    for (; asked < p->count && code == ERR_OK; asked++) {
        const struct piece *one = &p->piece[asked];
        struct header h = header_of(f, one->layer, one->shard);
        uint32_t from = header_bytes(&f->shape->layers[one->layer].geometry) + one->offset;
        code = fold_read(&f->fold, where_of(f, one->layer, one->shard), &h, from, one->length, e);
    }
    for (unsigned i = 0; i < asked && code == ERR_OK; i++) {
        struct piece *one = &p->piece[i];
        code = sync_client_reply(f->fold.redis, where_of(f, one->layer, one->shard), &one->reply, e);
    }
    return code;
}

static enum err join_piece(struct folder *f, const struct piece *p, struct error *e)
{
    struct key_name key;
    const redisReply *r = p->reply;
    enum err code =
        r->type != REDIS_REPLY_STRING || r->len != p->length
            ? error_set(e, ERR_LOST, "it is cut")
            : resident_join_piece(f->resident, p->layer, p->shard, p->offset, r->str, p->length, e);
    names_log_shard(f->fold.names, (struct shard_id){f->shape->number, p->layer, p->shard}, &key);
    return code == ERR_LOST ? error_prefix(e, code, "shard %.*s", (int)key.length, key.text) : code;
}

/* Read what has gathered, apply what the lanes have, and have it in memory. */
static enum err read_pieces(struct folder *f, struct pieces *p, struct error *e)
{
    enum err code = ask_pieces(f, p, e);
    if (code == ERR_OK && p->count > 0 && f->catch_up != NULL)
        code = f->catch_up(f->tend_arg, e);
    for (unsigned i = 0; i < p->count; i++) {
        const struct piece *one = &p->piece[i];
        struct folder_shard *shard = shard_of(f, one->layer, one->shard);
        if (code == ERR_OK && shard->state == FOLDER_ENTERED) { /* no piece of it has failed */
            code = join_piece(f, one, e);
            if (code == ERR_CONFLICT ||
                (code == ERR_OK && one->is_last)) { /* it has left memory, or is whole */
                shard->state = FOLDER_JOINED;
                code = ERR_OK;
            }
            code = go_on(f, one->layer, one->shard, code, e);
        }
        freeReplyObject(one->reply);
    }
    p->count = p->bytes = 0;
    return code;
}

static enum err read_shard(struct folder *f, unsigned layer, uint32_t shard, struct pieces *p,
                           struct error *e)
{
    uint32_t bytes = geometry_shard_bytes(&f->shape->layers[layer].geometry), length;
    enum err code = ERR_OK;
    for (uint32_t offset = 0; offset < bytes && code == ERR_OK; offset += length) {
        length = bytes - offset < PIECE_BYTES ? bytes - offset : PIECE_BYTES;
        if (p->count == PIECES || p->bytes + length > PIECE_BYTES)
            code = read_pieces(f, p, e);
        p->piece[p->count++] = (struct piece){.layer = layer,
                                              .shard = shard,
                                              .offset = offset,
                                              .length = length,
                                              .is_last = offset + length == bytes};
        p->bytes += length;
    }
    return code;
}

/* What others wrote into the shard before the token came gets into memory. Whatever is loaded from now on has
 * it; a shard that is loading now may have been read before. A shard that was never read has all that they
 * wrote, too: it began behind the position from which on this process reads the lanes (NOT_READ_WHEN_BEGUN of
 * layers.pml). */
static enum err join(struct folder *f, unsigned layer, uint32_t shard, void *pieces, struct error *e)
{
    struct folder_shard *one = shard_of(f, layer, shard);
    enum bitmap_state state = bitmap_state(f->resident->layer[layer], shard);
    if (one->state != FOLDER_ENTERED || state == BITMAP_LOADING)
        return ERR_OK;
    if (state != BITMAP_ABSENT && !resident_is_from_empty(f->resident, layer, shard))
        return read_shard(f, layer, shard, pieces, e);
    one->state = FOLDER_JOINED;
    return ERR_OK;
}

static enum err join_all(struct folder *f, struct error *e)
{
    struct pieces p = {.count = 0};
    enum err code = for_each_shard(f, join, &p, e);
    return code == ERR_OK ? read_pieces(f, &p, e) : code;
}

static enum err forget(struct folder *f, unsigned layer, uint32_t shard, void *unused, struct error *e)
{
    (void)unused;
    (void)e;
    shard_of(f, layer, shard)->state = FOLDER_FOREIGN;
    return ERR_OK;
}

enum err folder_take_over(struct folder *f, struct error *e)
{
    uint64_t later = 0;
    enum err code;
    sync_client_forget(f->fold.redis); /* replies of before are nobody's */
    memset(f->stored, 0, sizeof(f->stored));
    for (unsigned i = 0; i < TAKE_OVERS_MAX; i++) {
        f->lost = 0;
        f->lost_shard.generation = 0;
        (void)for_each_shard(f, forget, NULL, e);
        code = fold_draw(&f->fold, later + 1, e);
        later = 0;
        if (code == ERR_OK)
            code = enter_all(f, &later, e);
        if (code != ERR_FENCED)
            break;
    }
    f->took_over = code == ERR_OK;
    return code;
}

/* --- scripts under way --- */

static enum err take_reply(struct folder *f, struct work *w, struct error *e)
{
    unsigned layer;
    uint32_t shard;
    pop(&w->window, &layer, &shard);
    struct header h = header_of(f, layer, shard);
    return go_on(f, layer, shard, fold_reply(&f->fold, where_of(f, layer, shard), &h, e), e);
}

static enum err take_replies(struct folder *f, struct work *w, struct error *e)
{
    enum err code = ERR_OK;
    while (w->window.count > 0 && code == ERR_OK)
        code = take_reply(f, w, e);
    return code;
}

static enum err send_script(struct folder *f, struct work *w, unsigned layer, uint32_t shard, struct error *e)
{
    enum err code = w->window.count == WINDOW ? take_reply(f, w, e) : ERR_OK;
    if (code == ERR_OK)
        code = fold_send(&f->fold, where_of(f, layer, shard), e);
    if (code == ERR_OK)
        push(&w->window, layer, shard);
    return code;
}

/* --- shards that are whole in memory: what is marked --- */

static enum err note_stamp(struct folder *f, unsigned layer, uint32_t shard, void *unused, struct error *e)
{
    struct folder_shard *one = shard_of(f, layer, shard);
    (void)unused;
    (void)e;
    one->stamp = one->state == FOLDER_JOINED ? bitmap_stamp(f->resident->layer[layer], shard) : 0;
    return ERR_OK;
}

static enum err send_batch(struct folder *f, struct work *w, unsigned layer, const struct dirty_batch *b,
                           struct error *e)
{
    struct header h = header_of(f, layer, b->shard);
    fold_batch(&f->fold, &h, b);
    return send_script(f, w, layer, b->shard, e);
}

/* What was copied has no entry that is applied behind this: its keys count before they are in Redis. */
static enum err count_copied(struct folder *f, struct work *w, struct error *e)
{
    struct log_counted at[LOG_LANES_MAX];
    unsigned lanes = f->resident->lanes;
    uint64_t keys;
    enum err code = ERR_OK;
    resident_barrier(f->resident); /* nor one that is half applied */
    if (f->count == NULL || !f->count(f->tend_arg, f, at, lanes, &keys))
        return ERR_OK;
    code = take_replies(f, w, e);
    if (code == ERR_OK)
        code = fold_count(&f->fold, at, lanes, keys, e);
    f->counted |= code == ERR_OK;
    return code;
}

static enum err send_copied(struct folder *f, struct work *w, struct error *e)
{
    enum err code = w->copies > 0 ? count_copied(f, w, e) : ERR_OK;
    for (unsigned i = 0; i < w->copies && code == ERR_OK; i++)
        code = send_batch(f, w, w->copied[i].layer, &w->copied[i].batch, e);
    w->copies = 0;
    return code;
}

/* Each page once: of two writes of one page, both under way, the first may be executed last where a node of a
 * cluster has it sent again. */
static enum err write_shard(struct folder *f, struct work *w, unsigned layer, uint32_t shard, struct error *e)
{
    struct bitmap *b = f->resident->layer[layer];
    enum err code = ERR_OK;
    for (uint32_t page = 0;
         code == ERR_OK && dirty_take_from(b, shard, &page, &w->copied[w->copies].batch);) {
        w->copied[w->copies++].layer = layer;
        if (w->copies == WINDOW)
            code = send_copied(f, w, e);
    }
    return code;
}

static enum err write_marked(struct folder *f, struct work *w, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < f->shape->layer_count && code == ERR_OK; layer++)
        for (uint32_t s = 0; code == ERR_OK && dirty_next(f->resident->layer[layer], &s); s++)
            if (shard_of(f, layer, s)->stamp != 0 && (code = tend(f, e)) == ERR_OK)
                code = write_shard(f, w, layer, s, e);
    if (code == ERR_OK)
        code = send_copied(f, w, e);
    return code == ERR_OK ? take_replies(f, w, e) : code; /* the next take-over finds what was not written */
}

/* --- the others: what the overlay has --- */

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

/* How many of @count keys, in order, lie in the block of the first. */
static unsigned in_one_block(const struct overlay_met *met, unsigned count)
{
    unsigned n = 1;
    while (n < count && compare(&met[n], &met[0]) == 0)
        n++;
    return n;
}

/* Set the bits of @count keys of one block. How many of the keys set some. */
static unsigned complete(struct folder *f, const struct overlay_met *met, unsigned count, uint8_t *block)
{
    const struct geometry *g = &f->shape->layers[met->layer].geometry;
    struct key_place place;
    unsigned changed = 0;
    for (unsigned i = 0; i < count; i++) {
        hash_place(g, met[i].key.hash, &place);
        place.block = 0;
        changed += block_set(g, &place, block);
    }
    return changed;
}

/* Read the blocks that @count keys, in order, lie in; at most BLOCKS. Returns how many keys that were. */
static enum err read_blocks(struct folder *f, struct work *w, const struct overlay_met *met, unsigned count,
                            unsigned *taken, struct error *e)
{
    enum err code = ERR_OK;
    unsigned blocks = 0, at = 0;
    for (; blocks < BLOCKS && at < count && code == ERR_OK; blocks++) {
        struct header h = header_of(f, met[at].layer, met[at].key.shard);
        code = fold_get(&f->fold, where_of(f, met[at].layer, met[at].key.shard), &h, met[at].key.block, e);
        at += in_one_block(met + at, count - at);
    }
    *taken = at;
    at = 0;
    for (unsigned i = 0; i < blocks && code == ERR_OK; i++) {
        const struct overlay_met *m = &met[at];
        struct header h = header_of(f, m->layer, m->key.shard);
        code = fold_got(&f->fold, where_of(f, m->layer, m->key.shard), &h, m->key.block, w->block[i], e);
        code = go_on(f, m->layer, m->key.shard, code, e);
        at += in_one_block(m, count - at);
    }
    return code;
}

/* A key that was applied while its shard loaded, and its place in log order among all that are counted. */
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

/* The overlay's keys of some of its blocks: one of @parts. */
struct tail {
    unsigned part, parts, count, before; /* keys, those up to @from first in log order */
    struct tail_key key[TAIL_KEYS];
};

/* Those behind @from and up to @to. */
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

/* How many of the first @count keys to take together: no block in part, but for one of more keys. */
static unsigned whole_blocks(const struct tail_key *tail, unsigned count)
{
    unsigned n = count < KEYS ? count : KEYS, all = n;
    while (n > 0 && n < count && compare(&tail[n - 1].met, &tail[n].met) == 0)
        n--;
    return n > 0 ? n : all;
}

/* How many of @count keys, in w->met and in order, are new: block by block, in log order, behind those of
 * earlier positions. */
static enum err count_keys(struct folder *f, struct work *w, const struct tail *t, const struct tail_key *key,
                           unsigned count, uint64_t *keys, struct error *e)
{
    enum err code = ERR_OK;
    unsigned lost = f->lost, taken, n;
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
                (void)complete(f, w->met + i, old, w->block[block]);
            if (n > old)
                *keys += complete(f, w->met + i + old, n - old, w->block[block]);
        }
    }
    return code;
}

/* How many of a part are new. */
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
    unsigned parts = (unsigned)(2 * held / TAIL_KEYS) + 1; /* half full, as blocks fill by chance */
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
    return code;
}

/* Write those blocks of one shard that the keys change. @counts: who changes one was not counted yet. */
static enum err write_blocks(struct folder *f, struct work *w, const struct overlay_met *met, unsigned count,
                             bool counts, uint8_t (**blocks)[BLOCK_BITS_MAX / 8], unsigned *taken,
                             struct error *e)
{
    unsigned layer = met->layer, at = 0;
    uint32_t shard = met->key.shard, bytes = f->shape->layers[layer].geometry.block_bits / 8, written = 0;
    struct header h = header_of(f, layer, shard);
    fold_begin(&f->fold, &h);
    while (at < count && met[at].layer == layer && met[at].key.shard == shard &&
           written + bytes <= FOLD_WRITE_BYTES) {
        unsigned n = in_one_block(met + at, count - at);
        uint8_t *block = *(*blocks)++;
        unsigned changed = complete(f, met + at, n, block);
        if (changed > 0) {
            f->resident->folded_keys += counts ? changed : 0;
            fold_piece(&f->fold, (met[at].key.block + UINT64_C(1)) * bytes, block, bytes);
            written += bytes;
        }
        at += n;
    }
    *taken = at;
    if (written == 0 || shard_of(f, layer, shard)->state == FOLDER_FOREIGN)
        return ERR_OK;
    return send_script(f, w, layer, shard, e);
}

/* A block that a later batch has more keys for is read when this one was written. */
static enum err write_met(struct folder *f, struct work *w, unsigned count, bool counts, struct error *e)
{
    enum err code = ERR_OK;
    unsigned taken, n;
    for (unsigned at = 0; at < count && code == ERR_OK; at += taken) {
        uint8_t(*blocks)[BLOCK_BITS_MAX / 8] = w->block;
        code = read_blocks(f, w, w->met + at, count - at, &taken, e);
        for (unsigned i = 0; i < taken && code == ERR_OK; i += n)
            code = write_blocks(f, w, w->met + at + i, taken - i, counts, &blocks, &n, e);
        if (code == ERR_OK)
            code = take_replies(f, w, e);
    }
    return code;
}

/* Of entries behind @from, up to @to. */
static enum err write_keys(struct folder *f, struct work *w, const struct log_id *from,
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
        code = tend(f, e);
        if (code == ERR_OK)
            code = write_met(f, w, count, counts, e);
    }
    overlay_walk_end(f->resident->overlay, &walk);
    return code;
}

/* --- folding --- */

/* Layers that memory has got since are those of the shape by now. */
static enum err check(struct folder *f, unsigned lanes, struct error *e)
{
    unsigned layers = atomic_load_explicit(&f->resident->layer_count, memory_order_acquire);
    if (layers != f->shape->layer_count || lanes != f->resident->lanes || lanes > LOG_LANES_MAX)
        return error_set(e, ERR_CONFLICT,
                         "generation %" PRIu64 " has %u layers and %u lanes in memory, not %u and %u: load "
                         "the view again",
                         f->shape->number, layers, f->resident->lanes, f->shape->layer_count, lanes);
    return f->layers < layers ? widen(f, e) : ERR_OK;
}

/* First those that the view has counted. */
static enum err write_all_keys(struct folder *f, struct work *w, const struct log_id *to, struct error *e)
{
    struct log_id counted[LOG_LANES_MAX] = {{0}};
    bool any = false;
    for (unsigned i = 0; i < f->resident->lanes; i++) {
        counted[i] = log_id_compare(to[i], f->told[i]) < 0 ? to[i] : f->told[i];
        if (log_id_compare(counted[i], f->stored[i]) <= 0)
            counted[i] = f->stored[i];
        else
            any = true;
    }
    enum err code = any ? write_keys(f, w, f->stored, counted, false, e) : ERR_OK;
    return code == ERR_OK ? write_keys(f, w, counted, to, true, e) : code;
}

/* What of the entries up to @to Redis lacks. */
static enum err write_all(struct folder *f, struct work *w, const struct log_id *to, struct error *e)
{
    uint64_t later;
    f->counted = false;
    f->lost = 0;
    f->lost_shard.generation = 0;
    enum err code = f->took_over ? enter_all(f, &later, e) : folder_take_over(f, e);
    if (code == ERR_OK)
        code = join_all(f, e);
    if (code == ERR_OK)
        code = for_each_shard(f, note_stamp, NULL, e);
    if (code == ERR_OK)
        code = write_marked(f, w, e);
    if (code == ERR_OK)
        code = write_all_keys(f, w, to, e);
    if (code == ERR_OK && f->lost > 0)
        code = error_set(e, f->lost_code, "%s%s", f->lost_why.text, f->lost > 1 ? ", and others too" : "");
    return code;
}

/* By then they are known where blocks were written, too. */
static enum err store_keys(struct folder *f, const struct folder_lane *lanes, unsigned count, struct error *e)
{
    struct log_counted at[LOG_LANES_MAX];
    if (f->counted)
        return ERR_OK;
    for (unsigned i = 0; i < count; i++)
        at[i] = (struct log_counted){{lanes[i].number, lanes[i].era}, lanes[i].position.id};
    return fold_count(&f->fold, at, count, lanes[count - 1].keys + f->resident->folded_keys, e);
}

static enum err store_positions(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e)
{
    enum err code = store_keys(f, lanes, count, e);
    for (unsigned i = 0; i < count && code == ERR_OK; i++) {
        struct folder_lane *l = &lanes[i];
        if (l->is_full)
            code = full_store(&f->fold, i, (struct log_lane){l->number, l->era}, l->mark, e);
        if (code != ERR_OK)
            break;
        code = fold_store(&f->fold, i, l->number, l->era, &l->position, l->layers, l->is_long, &l->needed,
                          &l->over_hold, e);
        if (code == ERR_OK)
            f->stored[i] = l->position.id;
    }
    return code;
}

enum err folder_fold(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e)
{
    struct log_id to[LOG_LANES_MAX] = {{0}};
    enum err code = check(f, count, e);
    if (code != ERR_OK)
        return code;
    struct work *w = malloc(sizeof(*w));
    if (w == NULL)
        return error_set(e, ERR_NOMEM, "no memory to fold");
    w->window.first = w->window.count = w->copies = 0;
    for (unsigned i = 0; i < count; i++)
        to[i] = lanes[i].position.id;
    resident_barrier(f->resident); /* no bit that a position counts on is without its mark */
    code = write_all(f, w, to, e);
    free(w);
    if (code == ERR_OK)
        code = store_positions(f, lanes, count, e);
    f->took_over &= code == ERR_OK || fold_is_lost(code);
    if (!f->took_over)
        sync_client_forget(f->fold.redis); /* replies that are still to come are nobody's */
    return code;
}
