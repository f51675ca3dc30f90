/* SPDX-License-Identifier: MIT */
#include "migrate/build/log_output.h"

#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum {
    PIECE_BYTES = 256 << 10, /* one read command covers at most these bytes */
    UNIT = BITMAPS_UNIT,
    NEAR = 2 * UNIT, /* changes that are this close are written as one piece */
    PERIODIC_US = 50 * 1000
};

static const struct geometry *geometry_of(const struct log_output *o)
{
    return &o->builder->shape.layers[o->layer].geometry;
}

/* --- reading --- */

static enum err take_piece(struct log_output *o, unsigned slot, uint32_t at, uint32_t length, struct error *e)
{
    struct fold *f = &o->builder->fold;
    uint32_t shard = o->slot[slot].shard;
    SCOPED(scope_reply) redisReply *r = NULL;
    enum err code = sync_client_reply(f->redis, fold_where(f, o->layer, shard), &r, e);
    if (code != ERR_OK)
        return code;
    if (r->type == REDIS_REPLY_ERROR)
        code = fold_refused(f, o->layer, shard, r, e);
    else if (r->type != REDIS_REPLY_STRING || r->len != length)
        code = error_set(e, ERR_LOST, "it is missing or truncated");
    else
        memcpy(o->had + at, r->str, length);
    return code;
}

static enum err take_shard(struct log_output *o, unsigned slot, struct error *e)
{
    const struct geometry *g = geometry_of(o);
    const uint8_t tag[] = {(uint8_t)(o->builder->fold.tag >> 8), (uint8_t)o->builder->fold.tag};
    uint32_t bytes = geometry_shard_bytes(g), block = g->block_bits / 8;
    enum err code = ERR_OK;
    for (uint32_t at = 0; at < bytes && code == ERR_OK; at += PIECE_BYTES)
        code = take_piece(o, slot, at, bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES, e);
    for (uint32_t at = 0; at < bytes && code == ERR_OK; at += block)
        if (memcmp(o->had + at, tag, sizeof(tag)) != 0)
            code = error_set(e, ERR_LOST, "a block lacks the tag of its generation");
    if (code == ERR_LOST) {
        struct key_name key;
        fold_key(&o->builder->fold, o->layer, o->slot[slot].shard, &key);
        return error_prefix(e, code, "shard %.*s", (int)key.length, key.text);
    }
    return code;
}

/* --- writing --- */

/* Find the next changed piece of the shard at or behind *@at, of at most @most bytes. False: there is none.
 */
static bool next_piece(struct log_output *o, uint32_t shard, uint32_t bytes, uint32_t most, uint32_t *at,
                       uint32_t *length)
{
    uint32_t first = *at;
    while (first < bytes && !bitmaps_or(o->bitmaps, shard, first, o->had + first))
        first += UNIT;
    uint32_t end = first + UNIT; /* end of the changed bytes */
    for (uint32_t u = end; u < bytes && u - end < NEAR && u + UNIT - first <= most; u += UNIT)
        if (bitmaps_or(o->bitmaps, shard, u, o->had + u))
            end = u + UNIT;
    *at = first;
    *length = end - first;
    return first < bytes;
}

static enum err send_writes(struct log_output *o, unsigned slot, struct error *e)
{
    struct fold *f = &o->builder->fold;
    const struct geometry *g = geometry_of(o);
    uint32_t shard = o->slot[slot].shard, bytes = geometry_shard_bytes(g), at = 0, length = 0, sum = 0;
    enum err code = ERR_OK;
    while (code == ERR_OK) {
        bool found = next_piece(o, shard, bytes, FOLD_WRITE_BYTES - sum, &at, &length);
        if (found && sum == 0)
            fold_begin(f, o->layer, shard);
        if (found) {
            fold_piece(f, (uint64_t)header_bytes(g) + at, o->had + at, length);
            at += length;
            sum += length;
        }
        if (sum > 0 && (!found || sum == FOLD_WRITE_BYTES)) {
            code = fold_send(f, o->layer, shard, e);
            o->slot[slot].scripts++;
            sum = 0;
        }
        if (!found)
            break;
    }
    return code;
}

static enum err give_up(struct log_output *o, enum err code)
{
    o->count = 0;
    o->builder->took_over = false;
    o->builder->anew |= fold_is_lost(code);
    sync_client_forget(o->builder->fold.redis);
    return code;
}

/* --- interface --- */

enum err log_output_wait(struct log_output *o, struct error *e)
{
    /* Replies from one address come in the order of the commands: first the reads of all shards, then all
     * writes. */
    enum err code = ERR_OK;
    for (unsigned i = 0; i < o->count && code == ERR_OK; i++) {
        code = take_shard(o, i, e);
        if (code == ERR_OK)
            code = send_writes(o, i, e);
    }
    for (unsigned i = 0; i < o->count && code == ERR_OK; i++)
        for (; o->slot[i].scripts > 0 && code == ERR_OK; o->slot[i].scripts--)
            code = fold_reply(&o->builder->fold, o->layer, o->slot[i].shard, e);
    if (code != ERR_OK)
        return give_up(o, code);
    for (unsigned i = 0; i < o->count; i++) {
        o->fresh += o->slot[i].added - o->written[o->slot[i].shard];
        o->written[o->slot[i].shard] = o->slot[i].added;
    }
    o->count = 0;
    return ERR_OK;
}

enum err log_output_put(struct log_output *o, uint32_t shard, struct error *e)
{
    enum err code = o->count == LOG_OUTPUT_MAX ? log_output_wait(o, e) : ERR_OK;
    if (code != ERR_OK)
        return code;
    o->slot[o->count].shard = shard;
    o->slot[o->count].added = bitmaps_added(o->bitmaps, shard); /* before any of these bits is read */
    o->slot[o->count].scripts = 0;
    o->count++;
    const struct geometry *g = geometry_of(o);
    uint32_t bytes = geometry_shard_bytes(g);
    for (uint32_t at = 0; at < bytes && code == ERR_OK; at += PIECE_BYTES) {
        uint32_t length = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        code = fold_read(&o->builder->fold, o->layer, shard, header_bytes(g) + at, length, e);
    }
    return code == ERR_OK ? code : give_up(o, code);
}

enum err log_output_init(struct log_output *o, struct builder *builder, struct error *e)
{
    *o = (struct log_output){.builder = builder, .layer = builder->shape.layer_count - 1};
    o->written = calloc(geometry_of(o)->shards, sizeof(*o->written));
    o->had = malloc(SHARD_BYTES_MAX);
    return o->written == NULL || o->had == NULL ? error_set(e, ERR_NOMEM, "no memory for a shard") : ERR_OK;
}

void log_output_fini(struct log_output *o)
{
    free(o->written);
    free(o->had);
}

/* --- between the shards --- */

enum err periodic_call(struct periodic *p, struct error *e)
{
    if (p->work.fn == NULL || clock_mono_us() < p->due_us)
        return ERR_OK;
    enum err code = p->output == NULL ? ERR_OK : log_output_wait(p->output, e);
    if (code == ERR_OK)
        code = work_ask(&p->work, e);
    p->due_us = clock_mono_us() + PERIODIC_US;
    return code;
}
