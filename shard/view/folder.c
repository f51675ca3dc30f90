/* SPDX-License-Identifier: MIT */
#include "shard/view/folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shard/resident/dirty.h"

enum {
    WINDOW = 8,              /* batches under way */
    PIECE_BYTES = 256 << 10, /* of a shard that is read */
    TAKE_OVERS_MAX = 8       /* tokens that are drawn until one is the latest */
};

enum err folder_init(struct folder *f, struct link *l, const struct names *names,
                     const struct generation *shape, struct resident *resident, struct error *e)
{
    *f = (struct folder){.resident = resident, .shape = shape};
    fold_init(&f->fold, l, names, shape->number);
    f->tag = hash_tag(names->incarnation, names->filter, names->filter_length, shape->number);
    return placement_resolve(&f->placement, names, shape, link_nodes(l), e);
}

void folder_fini(struct folder *f)
{
    fold_fini(&f->fold);
}

static struct header header_of(const struct folder *f, unsigned layer, uint32_t shard)
{
    const struct geometry *g = &f->shape->layers[layer].geometry;
    return (struct header){.tag = f->tag,
                           .incarnation = f->fold.names->incarnation,
                           .generation = f->shape->number,
                           .layer = layer,
                           .shard = shard,
                           .blocks = g->blocks,
                           .block_bits = (uint16_t)g->block_bits,
                           .hashes = (uint16_t)g->hashes};
}

/* Call @fn for each shard of each layer, until one fails. */
typedef enum err shard_fn(struct folder *f, unsigned layer, uint32_t shard, uint64_t *out, struct error *e);

static enum err for_each_shard(struct folder *f, shard_fn *fn, uint64_t *out, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < f->shape->layer_count; layer++)
        for (uint32_t s = 0; s < f->shape->layers[layer].geometry.shards && code == ERR_OK; s++)
            code = fn(f, layer, s, out, e);
    return code;
}

/* --- taking over --- */

static enum err adopt(struct folder *f, unsigned layer, uint32_t shard, uint64_t *later, struct error *e)
{
    struct header h = header_of(f, layer, shard);
    return fold_adopt(&f->fold, placement_where(&f->placement, layer, shard), &h, later, e);
}

static enum err read_piece(struct folder *f, unsigned layer, uint32_t shard, uint32_t offset, uint32_t length,
                           struct error *e)
{
    unsigned where = placement_where(&f->placement, layer, shard);
    uint32_t from = header_bytes(&f->shape->layers[layer].geometry) + offset;
    struct key_name key;
    redisReply *r;
    names_log_shard(f->fold.names, (struct shard_id){f->shape->number, layer, shard}, &key);
    enum err code = link_command(f->fold.link, where, &r, e, "GETRANGE %b %u %u", key.text, key.length, from,
                                 from + length - 1);
    if (code != ERR_OK)
        return code;
    if (r->type != REDIS_REPLY_STRING || r->len != length)
        code = error_set(e, ERR_LOST, "shard %.*s is cut", (int)key.length, key.text);
    else
        code = bitmap_join(f->resident->layer[layer], shard, offset, r->str, length, e);
    freeReplyObject(r);
    return code == ERR_LOST ? error_prefix(e, code, "shard %.*s", (int)key.length, key.text) : code;
}

static enum err read_shard(struct folder *f, unsigned layer, uint32_t shard, uint64_t *unused,
                           struct error *e)
{
    uint32_t bytes = geometry_shard_bytes(&f->shape->layers[layer].geometry);
    enum err code = ERR_OK;
    (void)unused;
    for (uint32_t offset = 0; offset < bytes && code == ERR_OK; offset += PIECE_BYTES) {
        uint32_t left = bytes - offset;
        code = read_piece(f, layer, shard, offset, left < PIECE_BYTES ? left : PIECE_BYTES, e);
    }
    return code;
}

enum err folder_take_over(struct folder *f, struct error *e)
{
    uint64_t later = 0;
    enum err code;
    f->took_over = false;
    link_forget(f->fold.link); /* replies of before are nobody's */
    for (unsigned i = 0; i < TAKE_OVERS_MAX; i++) {
        code = fold_draw(&f->fold, later + 1, e);
        later = 0;
        if (code == ERR_OK)
            code = for_each_shard(f, adopt, &later, e);
        if (code != ERR_FENCED)
            break;
    }
    if (code == ERR_OK)
        code = for_each_shard(f, read_shard, NULL, e);
    f->took_over = code == ERR_OK;
    return code;
}

/* --- writing --- */

/* Batches under way, oldest first. */
struct window {
    struct dirty_batch batch[WINDOW];
    unsigned layer[WINDOW];
    unsigned first, count;
};

static enum err send_batch(struct folder *f, const struct window *w, unsigned i, struct error *e)
{
    const struct dirty_batch *b = &w->batch[i];
    struct header h = header_of(f, w->layer[i], b->shard);
    uint32_t behind = header_bytes(&f->shape->layers[w->layer[i]].geometry);
    const uint8_t *bytes = b->bytes;
    fold_begin(&f->fold, &h);
    for (unsigned p = 0; p < b->count; p++) {
        fold_piece(&f->fold, (uint64_t)behind + b->piece[p].offset, bytes, b->piece[p].length);
        bytes += b->piece[p].length;
    }
    return fold_send(&f->fold, placement_where(&f->placement, w->layer[i], b->shard), e);
}

/* Wait for the oldest batch. */
static enum err take_reply(struct folder *f, struct window *w, struct error *e)
{
    unsigned at = w->first;
    enum err code = fold_reply(&f->fold, placement_where(&f->placement, w->layer[at], w->batch[at].shard), e);
    if (code != ERR_OK)
        return code;
    w->first = (at + 1) % WINDOW;
    w->count--;
    return ERR_OK;
}

static enum err write_shard(struct folder *f, struct window *w, unsigned layer, uint32_t shard,
                            struct error *e)
{
    enum err code = ERR_OK;
    while (code == ERR_OK) {
        if (w->count == WINDOW) {
            code = take_reply(f, w, e);
            continue;
        }
        unsigned at = (w->first + w->count) % WINDOW;
        if (!dirty_take(f->resident->layer[layer], shard, &w->batch[at]))
            break;
        w->layer[at] = layer;
        w->count++;
        code = send_batch(f, w, at, e);
    }
    return code;
}

static enum err write_marked(struct folder *f, struct window *w, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < f->shape->layer_count && code == ERR_OK; layer++)
        for (uint32_t s = 0; code == ERR_OK && dirty_next(f->resident->layer[layer], &s); s++)
            code = write_shard(f, w, layer, s, e);
    while (code == ERR_OK && w->count > 0)
        code = take_reply(f, w, e);
    return code; /* what was not written is found by the next take-over */
}

/* --- stamps: a shard whose stamp changed left memory meanwhile, and its marks went with it --- */

static enum err note_stamp(struct folder *f, unsigned layer, uint32_t shard, uint64_t *sum, struct error *e)
{
    uint32_t stamp = bitmap_stamp(f->resident->layer[layer], shard);
    *sum = *sum * UINT64_C(0x9e3779b97f4a7c15) + stamp;
    return stamp != 0
               ? ERR_OK
               : error_set(e, ERR_CONFLICT,
                           "shard %" PRIu32 " of layer %u of generation %" PRIu64 " is not whole in memory",
                           shard, layer, f->shape->number);
}

static enum err store_positions(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e)
{
    enum err code = ERR_OK;
    for (unsigned i = 0; i < count && code == ERR_OK; i++)
        code = fold_store(&f->fold, i, lanes[i].number, lanes[i].era, &lanes[i].position, &lanes[i].some,
                          &lanes[i].trim, e);
    return code;
}

enum err folder_fold(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e)
{
    uint64_t before = 0, after = 0;
    struct window *w = malloc(sizeof(*w));
    if (w == NULL)
        return error_set(e, ERR_NOMEM, "no memory to fold");
    w->first = w->count = 0;
    enum err code = for_each_shard(f, note_stamp, &before, e);
    if (code == ERR_OK && !f->took_over)
        code = folder_take_over(f, e);
    if (code == ERR_OK)
        code = write_marked(f, w, e);
    free(w);
    if (code == ERR_OK)
        code = for_each_shard(f, note_stamp, &after, e);
    if (code == ERR_OK && before != after)
        code = error_set(e, ERR_CONFLICT, "a shard of generation %" PRIu64 " left memory meanwhile",
                         f->shape->number);
    if (code == ERR_OK)
        code = store_positions(f, lanes, count, e);
    if (code != ERR_OK && code != ERR_CONFLICT)
        f->took_over = false;
    return code;
}
