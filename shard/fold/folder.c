/* SPDX-License-Identifier: MIT */
#include "shard/fold/folder_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "shard/fold/full.h"

enum {
    PIECE_BYTES = 256 << 10, /* bytes of shards that are read at a time */
    PIECES = 64,             /* pieces that are read at a time */
    TAKE_OVERS_MAX = 8       /* the most tokens to draw until one is the latest */
};

/* Make room for the shards of all layers. New shards do not have the token yet. */
static enum err widen(struct folder *f, struct error *e)
{
    uint64_t count = 0;
    for (unsigned layer = 0; layer < f->fold.shape->layer_count; layer++) {
        f->first[layer] = count;
        count += f->fold.shape->layers[layer].geometry.shards;
    }
    if (count == 0)
        return error_set(e, ERR_RANGE, "generation %" PRIu64 " has no shards", f->fold.shape->number);
    struct folder_shard *wider = calloc(count, sizeof(*wider));
    if (wider == NULL)
        return error_set(e, ERR_NOMEM, "no memory to fold %" PRIu64 " shards", count);
    if (f->layers > 0)
        memcpy(wider, f->shards, f->first[f->layers] * sizeof(*wider));
    free(f->shards);
    f->shards = wider;
    f->layers = f->fold.shape->layer_count;
    return ERR_OK;
}

enum err folder_init(struct folder *f, struct sync_client *l, const struct names *names,
                     const struct generation *shape, struct resident *resident, struct error *e)
{
    *f = (struct folder){.resident = resident};
    fold_init(&f->fold, l, names, shape->number);
    enum err code = fold_place(&f->fold, shape, e);
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

/* Call @fn for each shard of each layer, until one fails. */
typedef enum err shard_fn(struct folder *f, unsigned layer, uint32_t shard, void *arg, struct error *e);

static enum err for_each_shard(struct folder *f, shard_fn *fn, void *arg, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < f->fold.shape->layer_count; layer++)
        for (uint32_t s = 0; s < f->fold.shape->layers[layer].geometry.shards && code == ERR_OK; s++) {
            code = fn(f, layer, s, arg, e);
            if (code == ERR_OK)
                code = folder_tend(f, e);
        }
    return code;
}

enum err folder_go_on(struct folder *f, unsigned layer, uint32_t shard, enum err code, const struct error *e)
{
    if (!fold_is_lost(code))
        return code;
    shard_of(f, layer, shard)->state = FOLDER_FOREIGN;
    memset(f->stored, 0, sizeof(f->stored));
    if (code == ERR_LOST || (code == ERR_WRONG_TYPE && f->is_kept))
        f->lost_shard =
            (struct log_lost){.generation = f->fold.shape->number, .layer = layer, .shard = shard};
    if (f->lost++ == 0) {
        f->lost_code = code;
        f->lost_why = e == NULL ? (struct error){""} : *e;
    }
    return ERR_OK;
}

/* --- taking over --- */

static void push(struct folder_window *w, struct folder_script script)
{
    w->sent[(w->first + w->count++) % FOLDER_WINDOW] = script;
}

static struct folder_script pop(struct folder_window *w)
{
    struct folder_script script = w->sent[w->first];
    w->first = (w->first + 1) % FOLDER_WINDOW;
    w->count--;
    return script;
}

struct entering {
    struct folder_window window;
    uint64_t later; /* the number of a later token in a shard; 0: none */
};

static enum err take_entered(struct folder *f, struct entering *n, struct error *e)
{
    struct folder_script one = pop(&n->window);
    uint64_t later;
    enum err code = fold_entered(&f->fold, one.layer, one.shard, &later, e);
    if (code == ERR_OK)
        shard_of(f, one.layer, one.shard)->state = FOLDER_ENTERED;
    if (later > n->later)
        n->later = later;
    return folder_go_on(f, one.layer, one.shard, code, e);
}

static enum err enter(struct folder *f, unsigned layer, uint32_t shard, void *arg, struct error *e)
{
    struct entering *n = arg;
    if (shard_of(f, layer, shard)->state != FOLDER_FOREIGN)
        return ERR_OK;
    enum err code = n->window.count == FOLDER_WINDOW ? take_entered(f, n, e) : ERR_OK;
    if (code == ERR_OK)
        code = fold_enter(&f->fold, layer, shard, e);
    if (code == ERR_OK)
        push(&n->window, (struct folder_script){.layer = layer, .shard = shard});
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
        bool is_last; /* the last piece of its shard */
        redisReply *reply;
    } piece[PIECES];
};

static enum err ask_pieces(struct folder *f, struct pieces *p, struct error *e)
{
    enum err code = ERR_OK;
    unsigned asked = 0;
    for (; asked < p->count && code == ERR_OK; asked++) {
        const struct piece *one = &p->piece[asked];
        uint32_t from = header_bytes(&f->fold.shape->layers[one->layer].geometry) + one->offset;
        code = fold_read(&f->fold, one->layer, one->shard, from, one->length, e);
    }
    for (unsigned i = 0; i < asked && code == ERR_OK; i++) {
        struct piece *one = &p->piece[i];
        code = sync_client_reply(f->fold.redis, fold_where(&f->fold, one->layer, one->shard), &one->reply, e);
    }
    return code;
}

static enum err join_piece(struct folder *f, const struct piece *p, struct error *e)
{
    struct key_name key;
    const redisReply *r = p->reply;
    if (r->type == REDIS_REPLY_ERROR)
        return fold_refused(&f->fold, p->layer, p->shard, r, e);
    enum err code =
        r->type != REDIS_REPLY_STRING || r->len != p->length
            ? error_set(e, ERR_LOST, "it is cut: some of its %u bytes at %u are missing", p->length,
                        p->offset)
            : resident_join_piece(f->resident, p->layer, p->shard, p->offset, r->str, p->length, e);
    fold_key(&f->fold, p->layer, p->shard, &key);
    return code == ERR_LOST ? error_prefix(e, code, "shard %s", key.text) : code;
}

/* Read the gathered pieces, apply what the lanes have, and join the pieces with memory. */
static enum err read_pieces(struct folder *f, struct pieces *p, struct error *e)
{
    enum err code = ask_pieces(f, p, e);
    if (code == ERR_OK && p->count > 0 && f->catch_up != NULL)
        code = f->catch_up(f->tend_arg, e);
    for (unsigned i = 0; i < p->count; i++) {
        const struct piece *one = &p->piece[i];
        struct folder_shard *shard = shard_of(f, one->layer, one->shard);
        if (code == ERR_OK && shard->state == FOLDER_ENTERED) { /* no piece of the shard has failed */
            code = join_piece(f, one, e);
            if (code == ERR_CONFLICT ||
                (code == ERR_OK && one->is_last)) { /* it is loaded again, or all of it was joined */
                shard->state = FOLDER_JOINED;
                code = ERR_OK;
            }
            code = folder_go_on(f, one->layer, one->shard, code, e);
        }
        freeReplyObject(one->reply);
    }
    p->count = p->bytes = 0;
    return code;
}

static enum err read_shard(struct folder *f, unsigned layer, uint32_t shard, struct pieces *p,
                           struct error *e)
{
    uint32_t bytes = geometry_shard_bytes(&f->fold.shape->layers[layer].geometry), length;
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

/* Get what others wrote into the shard before our token into memory. A shard that is loaded from now on has
 * it; a shard that is loading now may have been read before. */
static enum err join(struct folder *f, unsigned layer, uint32_t shard, void *pieces, struct error *e)
{
    struct folder_shard *one = shard_of(f, layer, shard);
    enum bitmap_state state = bitmap_state(f->resident->layer[layer], shard);
    if (one->state != FOLDER_ENTERED || state == BITMAP_LOADING)
        return ERR_OK;
    if (state != BITMAP_ABSENT)
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

enum err folder_draw(struct folder *f, struct error *e)
{
    sync_client_forget(f->fold.redis); /* earlier replies belong to nobody */
    f->took_over = false;
    enum err code = fold_draw(&f->fold, 1, e);
    f->drew = code == ERR_OK;
    return code;
}

enum err folder_take_over(struct folder *f, struct error *e)
{
    uint64_t later = 0;
    enum err code = f->layers < f->fold.shape->layer_count ? widen(f, e) : ERR_OK;
    sync_client_forget(f->fold.redis); /* earlier replies belong to nobody */
    memset(f->stored, 0, sizeof(f->stored));
    if (code != ERR_OK)
        return code;
    for (unsigned i = 0; i < TAKE_OVERS_MAX; i++) {
        f->lost = 0;
        f->lost_shard.generation = 0;
        /* All of them: in one that was passed over, what a broken connection lost would never be written. */
        code = for_each_shard(f, forget, NULL, e);
        if (code != ERR_OK)
            break;
        code = f->drew ? ERR_OK : fold_draw(&f->fold, later + 1, e);
        f->drew = false;
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

/* A script stays in the window until it is known whether it was executed. */
static enum err take_reply(struct folder *f, struct error *e)
{
    const struct folder_script *one = &f->window.sent[f->window.first];
    enum err code = fold_reply(&f->fold, one->layer, one->shard, e);
    if (code != ERR_OK && code != ERR_FENCED && !fold_is_lost(code))
        return code;
    f->resident->folded_keys += code == ERR_OK ? one->keys : 0;
    code = folder_go_on(f, one->layer, one->shard, code, e);
    (void)pop(&f->window);
    return code;
}

enum err folder_take_replies(struct folder *f, struct error *e)
{
    enum err code = ERR_OK;
    while (f->window.count > 0 && code == ERR_OK)
        code = take_reply(f, e);
    return code;
}

enum err folder_send_script(struct folder *f, const struct folder_script *script, struct error *e)
{
    enum err code = f->window.count == FOLDER_WINDOW ? take_reply(f, e) : ERR_OK;
    if (code == ERR_OK)
        code = fold_send(&f->fold, script->layer, script->shard, e);
    if (code == ERR_OK)
        push(&f->window, *script);
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

/* Store the number of keys before the copied pages are sent: the pages hold no entry that is applied after
 * this. */
static enum err count_copied(struct folder *f, struct error *e)
{
    struct log_counted at[LOG_LANES_MAX];
    unsigned lanes = f->resident->lanes;
    uint64_t keys;
    enum err code = ERR_OK;
    resident_barrier(f->resident); /* wait for entries that are half applied */
    if (f->count == NULL || !f->count(f->tend_arg, f, at, lanes, &keys))
        return ERR_OK;
    code = folder_take_replies(f, e);
    if (code == ERR_OK)
        code = fold_count(&f->fold, at, lanes, keys, e);
    f->counted |= code == ERR_OK;
    return code;
}

static enum err send_copied(struct folder *f, struct work *w, struct error *e)
{
    enum err code = w->copies > 0 ? count_copied(f, e) : ERR_OK;
    for (unsigned i = 0; i < w->copies && code == ERR_OK; i++) {
        fold_batch(&f->fold, w->copied[i].layer, &w->copied[i].batch);
        code = folder_send_script(
            f, &(struct folder_script){.layer = w->copied[i].layer, .shard = w->copied[i].batch.shard}, e);
    }
    w->copies = 0;
    return code;
}

/* Take each page once. If two writes of a page were under way, and a cluster's node redirected the first one,
 * it could be executed last. */
static enum err write_shard(struct folder *f, struct work *w, unsigned layer, uint32_t shard, struct error *e)
{
    struct bitmap *b = f->resident->layer[layer];
    enum err code = ERR_OK;
    for (uint32_t page = 0;
         code == ERR_OK && dirty_take_from(b, shard, &page, &w->copied[w->copies].batch);) {
        w->copied[w->copies++].layer = layer;
        if (w->copies == FOLDER_WINDOW)
            code = send_copied(f, w, e);
    }
    return code;
}

static enum err write_marked(struct folder *f, struct work *w, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < f->fold.shape->layer_count && code == ERR_OK; layer++)
        for (uint32_t s = 0; code == ERR_OK && dirty_next(f->resident->layer[layer], &s); s++)
            if (shard_of(f, layer, s)->stamp != 0 && (code = folder_tend(f, e)) == ERR_OK)
                code = write_shard(f, w, layer, s, e);
    if (code == ERR_OK)
        code = send_copied(f, w, e);
    return code == ERR_OK ? folder_take_replies(f, e) : code; /* after an error, the next take-over finds
                                                               * what was not written */
}

/* --- folding --- */

/* Memory may have gained layers; the shape must have the same ones. */
static enum err check(struct folder *f, unsigned lanes, struct error *e)
{
    unsigned layers = atomic_load_explicit(&f->resident->layer_count, memory_order_acquire);
    if (layers != f->fold.shape->layer_count || lanes != f->resident->lanes || lanes > LOG_LANES_MAX)
        return error_set(e, ERR_CONFLICT,
                         "generation %" PRIu64 " has %u layers and %u lanes in memory, not %u and %u: load "
                         "the view again",
                         f->fold.shape->number, layers, f->resident->lanes, f->fold.shape->layer_count,
                         lanes);
    return f->layers < layers ? widen(f, e) : ERR_OK;
}

/* First the keys that the view has counted, then the others. */
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
    enum err code = any ? folder_write_keys(f, w, f->stored, counted, false, e) : ERR_OK;
    return code == ERR_OK ? folder_write_keys(f, w, counted, to, true, e) : code;
}

/* Write what Redis lacks of the entries up to @to. */
static enum err write_all(struct folder *f, struct work *w, const struct log_id *to, struct error *e)
{
    uint64_t later;
    f->counted = false;
    f->lost = 0;
    f->lost_shard.generation = 0;
    enum err code = f->took_over ? enter_all(f, &later, e) : folder_take_over(f, e);
    if (code == ERR_OK)
        code = folder_count_unanswered(f, e);
    if (code == ERR_OK)
        code = join_all(f, e);
    if (code == ERR_OK)
        code = for_each_shard(f, note_stamp, NULL, e);
    if (code == ERR_OK)
        code = write_marked(f, w, e);
    if (code == ERR_OK)
        code = write_all_keys(f, w, to, e);
    f->took_over &= code == ERR_OK; /* whatever the error: a caller's is about no shard */
    if (code == ERR_OK && f->lost > 0)
        code = error_set(e, f->lost_code, "%s%s", f->lost_why.text, f->lost > 1 ? ", and others too" : "");
    return code;
}

/* Store the number of keys, unless it was stored before the pages. By now it includes keys of written
 * blocks. */
static enum err store_keys(struct folder *f, const struct folder_lane *lanes, unsigned count, struct error *e)
{
    struct log_counted at[LOG_LANES_MAX];
    if (f->counted)
        return ERR_OK;
    for (unsigned i = 0; i < count; i++)
        at[i] = (struct log_counted){{lanes[i].number, lanes[i].era}, lanes[i].position.id};
    return fold_count(&f->fold, at, count, lanes[count - 1].keys + f->resident->folded_keys, e);
}

/* Write, then ask who the nodes are: the servers that have what was written, as the client is pinned. The
 * address of a node may lead to another one meanwhile, and back. */
static enum err write_there(struct folder *f, struct work *w, const struct log_id *to, struct error *e)
{
    sync_client_pin(f->fold.redis);
    enum err code = write_all(f, w, to, e);
    if (code == ERR_OK && f->check != NULL)
        code = f->check(f->tend_arg, f, e);
    sync_client_unpin(f->fold.redis);
    return code;
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
    w->copies = 0;
    for (unsigned i = 0; i < count; i++)
        to[i] = lanes[i].position.id;
    resident_barrier(f->resident); /* every bit that a position counts on has its mark */
    code = write_there(f, w, to, e);
    free(w);
    if (code == ERR_OK)
        code = store_positions(f, lanes, count, e);
    f->took_over &= code == ERR_OK || f->lost > 0;
    if (!f->took_over)
        sync_client_forget(f->fold.redis); /* replies that are still to come belong to nobody */
    return code;
}
