/* SPDX-License-Identifier: MIT */
#include "migrate/log_check.h"

#include <stdio.h>
#include <string.h>
#include "shard/block.h"

enum { AT_ONCE = 500 /* blocks that are asked for before the first is read */ };

struct look {
    unsigned where;
    struct key_place place;
    struct key_name key;
};

static const struct geometry *geometry_of(const struct builder *b, unsigned layer)
{
    return &b->shape.layers[layer].geometry;
}

static void find(const struct builder *b, unsigned layer, struct key_hash h, struct look *out)
{
    hash_place(geometry_of(b, layer), hash_mix(h, b->shape.seed), &out->place);
    out->where = placement_where(&b->placement, layer, out->place.shard);
    names_log_shard(b->fold.names, (struct shard_id){b->shape.number, layer, out->place.shard}, &out->key);
}

static enum err ask(const struct builder *b, unsigned layer, const struct look *l, struct error *e)
{
    const struct geometry *g = geometry_of(b, layer);
    uint32_t bytes = g->block_bits / 8, at = header_bytes(g) + l->place.block * bytes;
    char from[12], to[12];
    int n = snprintf(from, sizeof(from), "%u", at), m = snprintf(to, sizeof(to), "%u", at + bytes - 1);
    const char *argv[] = {"GETRANGE", l->key.text, from, to};
    const size_t lengths[] = {8, l->key.length, (size_t)n, (size_t)m};
    return link_append(b->fold.link, l->where, 4, argv, lengths, e);
}

static enum err take(struct builder *b, unsigned layer, const struct look *l, uint8_t *found, struct error *e)
{
    redisReply *r;
    enum err code = link_reply(b->fold.link, l->where, &r, e);
    if (code != ERR_OK)
        return code;
    enum block_answer answer = BLOCK_BAD;
    if (r->type == REDIS_REPLY_ERROR)
        code = link_refusal(b->fold.link, l->where, r, e);
    else if (r->type == REDIS_REPLY_STRING)
        answer = block_test(geometry_of(b, layer), b->tag, &l->place, r->str, (size_t)r->len);
    freeReplyObject(r);
    if (code == ERR_OK && answer == BLOCK_BAD) {
        b->anew = true;
        return error_set(e, ERR_LOST, "shard %.*s is missing, or something else", (int)l->key.length,
                         l->key.text);
    }
    *found |= answer == BLOCK_PRESENT;
    return code;
}

static enum err check_some(struct builder *b, unsigned layer, const struct key_hash *hashes, size_t count,
                           uint8_t *found, struct error *e)
{
    struct look l;
    enum err code = ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        find(b, layer, hashes[i], &l);
        code = ask(b, layer, &l, e);
    }
    for (size_t i = 0; i < count && code == ERR_OK; i++) {
        find(b, layer, hashes[i], &l);
        code = take(b, layer, &l, &found[i], e);
    }
    if (code != ERR_OK)
        link_forget(b->fold.link);
    return code;
}

enum err log_check(struct builder *b, const struct key_hash *hashes, size_t count, uint8_t *found,
                   struct error *e)
{
    enum err code = ERR_OK;
    memset(found, 0, count);
    for (size_t first = 0; first < count && code == ERR_OK; first += AT_ONCE)
        for (unsigned layer = 0; layer < b->shape.layer_count && code == ERR_OK; layer++)
            code = check_some(b, layer, hashes + first, count - first < AT_ONCE ? count - first : AT_ONCE,
                              found + first, e);
    return code;
}
