/* SPDX-License-Identifier: MIT */
/* A job's own reads and writes of shards: uploads of whole bitmaps, keys in batches. */
#include "shard/fence.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "shard/block.h"
#include "shard/block_command.h"
#include "shard/script.h"

enum { BATCH = 1000, UPLOAD_TTL_MS = 600 * 1000 };

/* --- uploads --- */

static enum err read_upload(struct fence *f, struct error *e)
{
    struct fence_upload_queue *q = &f->uploads;
    unsigned node = q->slot[q->first].node;
    uint32_t shard = q->slot[q->first].shard;
    q->first = (q->first + 1) % (sizeof(q->slot) / sizeof(q->slot[0]));
    q->count--;
    redisReply *set;
    enum err code = link_reply(f->link, node, &set, e);
    if (code != ERR_OK)
        return code;
    if (set->type == REDIS_REPLY_ERROR)
        code = link_refusal(f->link, node, set, e);
    freeReplyObject(set);
    long long answer = 0;
    struct error second;
    enum err ored = script_reply(f->link, node, &answer, &second);
    if (code != ERR_OK)
        return code;
    if (ored != ERR_OK)
        return error_set(e, ored, "%s", second.text);
    if (answer == -1)
        return error_set(e, ERR_LOST,
                         "shard %u is not where the view says: it was lost, or the view moved on", shard);
    if (answer == -2)
        return error_set(e, ERR_LOST, "the upload of shard %u vanished before it was used", shard);
    return ERR_OK;
}

enum err fence_upload_wait(struct fence *f, unsigned in_flight, struct error *e)
{
    while (f->uploads.count > in_flight) {
        enum err code = read_upload(f, e);
        if (code != ERR_OK) {
            f->uploads.count = 0;
            link_forget(f->link);
            return code;
        }
    }
    return ERR_OK;
}

enum err fence_upload(struct fence *f, const struct view *v, const struct generation *g, unsigned layer,
                      uint32_t shard, uint64_t token, uint64_t page, const uint8_t *bytes, struct error *e)
{
    enum err code = fence_upload_wait(f, FENCE_UPLOADS - 1, e);
    struct placement placement;
    if (code == ERR_OK)
        code = placement_resolve(&placement, g, link_nodes(f->link), e);
    if (code != ERR_OK)
        return code;
    unsigned node = placement_node(&placement, shard);
    struct shard_id id = {.generation = g->number, .layer = layer, .shard = shard};
    struct key_name live, upload;
    names_shard(&f->names, id, v->epoch, &live);
    names_upload(&f->names, id, token, page, &upload);
    char ttl[24];
    int n = snprintf(ttl, sizeof(ttl), "%d", UPLOAD_TTL_MS);
    const char *argv[] = {"SET", upload.text, (const char *)bytes, "PX", ttl};
    const size_t lengths[] = {3, upload.length, geometry_shard_bytes(&g->layers[layer].geometry), 2,
                              (size_t)n};
    code = link_append(f->link, node, 5, argv, lengths, e);
    if (code == ERR_OK) {
        uint16_t tag = fence_tag(f, g);
        char tag_text[2] = {(char)(tag >> 8), (char)(tag & 0xff)};
        script_begin(&f->call, embedded_upload);
        script_key(&f->call, &live);
        script_key(&f->call, &upload);
        script_bytes(&f->call, tag_text, 2);
        code = script_send(&f->call, f->link, node, e);
    }
    if (code != ERR_OK) {
        f->uploads.count = 0;
        link_forget(f->link);
        return code;
    }
    struct fence_upload_queue *q = &f->uploads;
    unsigned last = (q->first + q->count) % (sizeof(q->slot) / sizeof(q->slot[0]));
    q->slot[last].node = node;
    q->slot[last].shard = shard;
    q->count++;
    return ERR_OK;
}

/* --- keys --- */

struct batch {
    struct fence *f;
    const struct view *v;
    const struct generation *g;
    struct placement placement;
    uint16_t tag;
    struct block_command command;
};

static enum err batch_begin(struct batch *b, struct fence *f, const struct view *v,
                            const struct generation *g, struct error *e)
{
    *b = (struct batch){.f = f, .v = v, .g = g, .tag = fence_tag(f, g)};
    return placement_resolve(&b->placement, g, link_nodes(f->link), e);
}

static enum err batch_send(struct batch *b, enum block_command_kind kind, unsigned layer, struct key_hash h,
                           struct error *e)
{
    struct key_place place;
    const struct geometry *geometry = &b->g->layers[layer].geometry;
    hash_place(geometry, h, &place);
    block_command_format(&b->command, kind, &b->f->names, b->v->epoch, b->g->number, layer, geometry, &place);
    return link_append_formatted(b->f->link, placement_node(&b->placement, place.shard), b->command.text,
                                 b->command.length, e);
}

static enum err batch_read(struct batch *b, enum block_command_kind kind, unsigned layer, struct key_hash h,
                           bool *present, struct error *e)
{
    struct key_place place;
    const struct geometry *geometry = &b->g->layers[layer].geometry;
    hash_place(geometry, h, &place);
    redisReply *reply;
    enum err code = link_reply(b->f->link, placement_node(&b->placement, place.shard), &reply, e);
    if (code != ERR_OK)
        return code;
    enum block_answer answer = block_command_read(kind, geometry, b->tag, &place, reply);
    if (answer == BLOCK_BAD)
        code = error_set(e, ERR_LOST,
                         "generation %lu: shard %u has no block with a tag where key's block should be",
                         (unsigned long)b->g->number, place.shard);
    if (answer == BLOCK_REFUSED)
        code = link_refusal(b->f->link, placement_node(&b->placement, place.shard), reply, e);
    *present = answer == BLOCK_PRESENT;
    freeReplyObject(reply);
    return code;
}

static enum err batch_run(struct batch *b, enum block_command_kind kind, unsigned first_layer,
                          unsigned end_layer, size_t count, const char *const *keys, const size_t *lengths,
                          uint8_t *found, struct error *e)
{
    enum err code = ERR_OK;
    for (size_t start = 0; start < count && code == ERR_OK; start += BATCH) {
        size_t end = count - start < BATCH ? count : start + BATCH;
        for (size_t i = start; i < end && code == ERR_OK; i++) {
            struct key_hash h = hash_key(b->g->seed, keys[i], lengths[i]);
            for (unsigned layer = first_layer; layer < end_layer && code == ERR_OK; layer++)
                code = batch_send(b, kind, layer, h, e);
        }
        for (size_t i = start; i < end && code == ERR_OK; i++) {
            struct key_hash h = hash_key(b->g->seed, keys[i], lengths[i]);
            found[i] = 0;
            for (unsigned layer = first_layer; layer < end_layer && code == ERR_OK; layer++) {
                bool present = false;
                code = batch_read(b, kind, layer, h, &present, e);
                found[i] |= present;
            }
        }
    }
    if (code != ERR_OK)
        link_forget(b->f->link);
    return code;
}

enum err fence_add(struct fence *f, const struct view *v, const struct generation *g, size_t count,
                   const char *const *keys, const size_t *lengths, uint8_t *found, struct error *e)
{
    struct batch b;
    enum err code = batch_begin(&b, f, v, g, e);
    unsigned layer = generation_written_layer(g);
    return code != ERR_OK ? code : batch_run(&b, BLOCK_ADD, layer, layer + 1, count, keys, lengths, found, e);
}

enum err fence_check(struct fence *f, const struct view *v, const struct generation *g, size_t count,
                     const char *const *keys, const size_t *lengths, uint8_t *found, struct error *e)
{
    struct batch b;
    enum err code = batch_begin(&b, f, v, g, e);
    return code != ERR_OK ? code
                          : batch_run(&b, BLOCK_READ, 0, g->layer_count, count, keys, lengths, found, e);
}

enum err fence_count_lost(struct fence *f, const struct view *v, const struct generation *g, uint64_t *lost,
                          struct error *e)
{
    struct batch b;
    enum err code = batch_begin(&b, f, v, g, e);
    *lost = 0;
    for (unsigned layer = 0; code == ERR_OK && layer < g->layer_count; layer++) {
        const struct geometry *geometry = &g->layers[layer].geometry;
        struct key_place place = {.block = geometry->blocks - 1}; /* a truncated shard lacks its last block */
        for (uint32_t first = 0; first < geometry->shards && code == ERR_OK; first += BATCH) {
            uint32_t end = geometry->shards - first < BATCH ? geometry->shards : first + BATCH;
            for (uint32_t i = first; i < end && code == ERR_OK; i++) {
                place.shard = i;
                block_command_format(&b.command, BLOCK_READ, &f->names, v->epoch, g->number, layer, geometry,
                                     &place);
                code = link_append_formatted(f->link, placement_node(&b.placement, i), b.command.text,
                                             b.command.length, e);
            }
            for (uint32_t i = first; i < end && code == ERR_OK; i++) {
                redisReply *reply;
                place.shard = i;
                code = link_reply(f->link, placement_node(&b.placement, i), &reply, e);
                enum block_answer answer =
                    code != ERR_OK ? BLOCK_REFUSED
                                   : block_command_read(BLOCK_READ, geometry, b.tag, &place, reply);
                if (answer == BLOCK_BAD)
                    ++*lost;
                else if (code == ERR_OK && answer == BLOCK_REFUSED)
                    code = link_refusal(f->link, placement_node(&b.placement, i), reply, e);
                freeReplyObject(reply);
            }
        }
    }
    if (code != ERR_OK)
        link_forget(f->link);
    return code;
}

enum err fence_items(struct fence *f, const struct generation *g, unsigned layer, uint64_t *items,
                     struct error *e)
{
    struct key_name name;
    redisReply *reply;
    char field[48];
    names_filter_key(&f->names, "count", &name);
    (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u", g->number, layer);
    enum err code = link_command(f->link, NODE_HOME, &reply, e, "HGET %b %s", name.text, name.length, field);
    if (code != ERR_OK)
        return code;
    *items = 0;
    if (reply->type == REDIS_REPLY_STRING)
        (void)number_u64(reply->str, (size_t)reply->len, items);
    freeReplyObject(reply);
    return ERR_OK;
}

enum err fence_all_items(struct fence *f, const struct generation *g, uint64_t *items, struct error *e)
{
    enum err code = ERR_OK;
    *items = 0;
    for (unsigned layer = 0; layer < g->layer_count && code == ERR_OK; layer++) {
        uint64_t here = 0;
        code = fence_items(f, g, layer, &here, e);
        *items += here;
    }
    return code;
}
