/* SPDX-License-Identifier: MIT */
/* A job's own reads and writes of shards: uploads of whole bitmaps, keys in batches. */
#include "shard/fence.h"

#include <assert.h>
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

static enum err send_or(struct fence *f, const struct fence_upload *u, struct error *e)
{
    script_begin(&f->call, embedded_upload);
    script_key(&f->call, &u->live);
    script_key(&f->call, &u->upload);
    script_bytes(&f->call, u->tag, sizeof(u->tag));
    return script_send(&f->call, f->link, u->where, e);
}

/* In a cluster SET may be sent on to another node and arrive behind a script that was sent with it. */
static bool or_follows(const struct fence *f)
{
    return link_nodes(f->link)->cluster != NULL;
}

/* One that is on its way has its shard in the same slot. What follows its SET would be taken for that of
 * another, as replies of one address come in the order of the commands. */
static bool one_has_address(const struct fence *f, unsigned where)
{
    const struct fence_upload_queue *q = &f->uploads;
    for (unsigned i = 0; i < q->count; i++)
        if (q->slot[(q->first + i) % (sizeof(q->slot) / sizeof(q->slot[0]))].where == where)
            return true;
    return false;
}

static enum err read_upload(struct fence *f, struct error *e)
{
    struct fence_upload_queue *q = &f->uploads;
    const struct fence_upload *u = &q->slot[q->first];
    q->first = (q->first + 1) % (sizeof(q->slot) / sizeof(q->slot[0]));
    q->count--;
    redisReply *set;
    enum err code = link_reply(f->link, u->where, &set, e);
    if (code != ERR_OK)
        return code;
    if (set->type == REDIS_REPLY_ERROR)
        code = link_refusal(f->link, u->where, set, e);
    freeReplyObject(set);
    if (or_follows(f) && code == ERR_OK)
        code = send_or(f, u, e);
    if (or_follows(f) && code != ERR_OK)
        return code;
    long long answer = 0;
    struct error second;
    enum err ored = script_reply(f->link, u->where, &answer, &second);
    if (code != ERR_OK)
        return code;
    if (ored != ERR_OK)
        return error_set(e, ored, "%s", second.text);
    if (answer == -1)
        return error_set(e, ERR_LOST,
                         "shard %u is not where the view says: it is lost, or the view has changed",
                         u->shard);
    if (answer == -2)
        return error_set(e, ERR_LOST, "the upload of shard %u vanished before it was used", u->shard);
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
        code = placement_resolve(&placement, &f->names, g, link_nodes(f->link), e);
    while (code == ERR_OK && or_follows(f) && one_has_address(f, placement_where(&placement, layer, shard)))
        code = fence_upload_wait(f, f->uploads.count - 1, e);
    if (code != ERR_OK)
        return code;
    struct fence_upload_queue *q = &f->uploads;
    struct fence_upload *u = &q->slot[(q->first + q->count) % (sizeof(q->slot) / sizeof(q->slot[0]))];
    struct shard_id id = {.generation = g->number, .layer = layer, .shard = shard};
    uint16_t tag = fence_tag(f, g);
    u->where = placement_where(&placement, layer, shard);
    u->shard = shard;
    u->tag[0] = (char)(tag >> 8);
    u->tag[1] = (char)(tag & 0xff);
    names_shard(&f->names, id, v->epoch, &u->live);
    names_upload(&f->names, id, token, page, &u->upload);
    char ttl[24];
    int n = snprintf(ttl, sizeof(ttl), "%d", UPLOAD_TTL_MS);
    const char *argv[] = {"SET", u->upload.text, (const char *)bytes, "PX", ttl};
    const size_t lengths[] = {3, u->upload.length, geometry_shard_bytes(&g->layers[layer].geometry), 2,
                              (size_t)n};
    code = link_append(f->link, u->where, 5, argv, lengths, e);
    if (code == ERR_OK && !or_follows(f))
        code = send_or(f, u, e);
    if (code != ERR_OK) {
        f->uploads.count = 0;
        link_forget(f->link);
        return code;
    }
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
    return placement_resolve(&b->placement, &f->names, g, link_nodes(f->link), e);
}

static enum err batch_send(struct batch *b, enum block_command_kind kind, unsigned layer, struct key_hash h,
                           struct error *e)
{
    struct key_place place;
    const struct geometry *geometry = &b->g->layers[layer].geometry;
    hash_place(geometry, h, &place);
    block_command_format(&b->command, kind, &b->f->names, b->v->epoch, b->g->number, layer, geometry, &place);
    return link_append_formatted(b->f->link, placement_where(&b->placement, layer, place.shard),
                                 b->command.text, b->command.length, e);
}

static enum err batch_read(struct batch *b, enum block_command_kind kind, unsigned layer, struct key_hash h,
                           bool *present, struct error *e)
{
    struct key_place place;
    const struct geometry *geometry = &b->g->layers[layer].geometry;
    hash_place(geometry, h, &place);
    redisReply *reply;
    enum err code = link_reply(b->f->link, placement_where(&b->placement, layer, place.shard), &reply, e);
    if (code != ERR_OK)
        return code;
    enum block_answer answer = block_command_read(kind, geometry, b->tag, &place, reply);
    if (answer == BLOCK_BAD)
        code = error_set(e, ERR_LOST,
                         "generation %lu: shard %u has no block with a tag where the key's block should be",
                         (unsigned long)b->g->number, place.shard);
    if (answer == BLOCK_REFUSED)
        code = link_refusal(b->f->link, placement_where(&b->placement, layer, place.shard), reply, e);
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

/* A log counts the keys of a generation: its layers fill up one after the other. */
static uint64_t log_items(const struct fence *f, const struct generation *g, unsigned layer)
{
    uint64_t left = f->log_keys[f->log_keys_of[1] == g->number];
    for (unsigned l = 0; l < layer; l++)
        left -= left < g->layers[l].capacity ? left : g->layers[l].capacity;
    bool newest = layer + 1 == g->layer_count;
    return newest || left < g->layers[layer].capacity ? left : g->layers[layer].capacity;
}

enum err fence_items(struct fence *f, const struct generation *g, unsigned layer, uint64_t *items,
                     struct error *e)
{
    if (f->log) {
        *items = log_items(f, g, layer);
        return ERR_OK;
    }
    struct key_name name;
    redisReply *reply;
    char field[48];
    names_filter_key(&f->names, "count", &name);
    (void)snprintf(field, sizeof(field), "%" PRIu64 ".%u", g->number, layer);
    enum err code =
        link_command(f->link, fence_home(f), &reply, e, "HGET %b %s", name.text, name.length, field);
    if (code != ERR_OK)
        return code;
    *items = 0;
    if (reply->type == REDIS_REPLY_STRING)
        (void)number_u64(reply->str, (size_t)reply->len, items);
    freeReplyObject(reply);
    return ERR_OK;
}

enum err fence_shard_items(struct fence *f, const struct generation *g, unsigned layer, uint32_t first,
                           uint32_t count, uint64_t *items, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    const char *argv[2 + FENCE_ITEMS_AT_ONCE] = {"HMGET", name.text};
    size_t lengths[2 + FENCE_ITEMS_AT_ONCE] = {5};
    char field[FENCE_ITEMS_AT_ONCE][64];
    assert(count <= FENCE_ITEMS_AT_ONCE);
    names_filter_key(&f->names, "count", &name);
    lengths[1] = name.length;
    for (uint32_t i = 0; i < count; i++) {
        argv[2 + i] = field[i];
        lengths[2 + i] = (size_t)snprintf(field[i], sizeof(field[i]), "%" PRIu64 ".%u.%" PRIu32, g->number,
                                          layer, first + i);
    }
    enum err code = link_append(f->link, fence_home(f), 2 + count, argv, lengths, e);
    if (code == ERR_OK)
        code = link_reply(f->link, fence_home(f), &reply, e);
    if (code != ERR_OK)
        return code;
    if (reply->type == REDIS_REPLY_ERROR)
        code = link_refusal(f->link, fence_home(f), reply, e);
    memset(items, 0, count * sizeof(*items));
    for (size_t i = 0; i < count && i < reply->elements; i++)
        if (reply->element[i]->type == REDIS_REPLY_STRING)
            (void)number_u64(reply->element[i]->str, (size_t)reply->element[i]->len, &items[i]);
    freeReplyObject(reply);
    return code;
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
