/* SPDX-License-Identifier: MIT */
/* A dump's reads: whole shards, in pieces that hold up neither Redis nor who reads. */
#include "shard/fence_dump.h"

#include <string.h>

enum { READ_BYTES = 4 << 20, READ_SHARDS = 512 };

static struct shard_id id_of(const struct generation *g, unsigned layer, uint32_t shard)
{
    return (struct shard_id){.generation = g->number, .layer = layer, .shard = shard};
}

static enum err take_shard(struct fence *f, const struct generation *g, unsigned layer, uint32_t shard,
                           unsigned where, uint8_t *out, struct error *e)
{
    const struct geometry *geometry = &g->layers[layer].geometry;
    redisReply *reply;
    enum err code = link_reply(f->link, where, &reply, e);
    if (code != ERR_OK)
        return code;
    bool wrong_type = reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "WRONGTYPE", 9) == 0;
    if (reply->type == REDIS_REPLY_ERROR && !wrong_type)
        code = link_refusal(f->link, where, reply, e);
    else if (wrong_type || reply->type != REDIS_REPLY_STRING || reply->len != geometry_shard_bytes(geometry))
        code = error_set(e, ERR_LOST, "shard %u of layer %u is not there", shard, layer);
    if (code == ERR_OK) {
        memcpy(out, reply->str, reply->len);
        if (!dump_tags_strip(geometry, fence_tag(f, g), out))
            code = error_set(e, ERR_LOST, "shard %u of layer %u has blocks without their tag", shard, layer);
    }
    freeReplyObject(reply);
    return code;
}

static enum err read_some(struct fence *f, const struct view *v, const struct generation *g,
                          const struct placement *placement, const struct dump_run *run, uint8_t *out,
                          struct error *e)
{
    uint32_t bytes = geometry_shard_bytes(&g->layers[run->layer].geometry);
    enum err code = ERR_OK;
    for (uint32_t i = 0; i < run->count && code == ERR_OK; i++) {
        struct key_name name;
        names_shard(&f->names, id_of(g, run->layer, run->first + i), v->epoch, &name);
        const char *argv[] = {"GETRANGE", name.text, "0", "-1"};
        const size_t lengths[] = {8, name.length, 1, 2};
        code =
            link_append(f->link, placement_where(placement, run->layer, run->first + i), 4, argv, lengths, e);
    }
    for (uint32_t i = 0; i < run->count && code == ERR_OK; i++)
        code = take_shard(f, g, run->layer, run->first + i,
                          placement_where(placement, run->layer, run->first + i), out + (size_t)i * bytes, e);
    return code;
}

enum err fence_read_shards(struct fence *f, const struct view *v, const struct generation *g,
                           const struct dump_run *run, uint8_t *out, struct error *e)
{
    struct placement placement;
    uint32_t bytes = geometry_shard_bytes(&g->layers[run->layer].geometry);
    uint32_t at_once = READ_BYTES / bytes < READ_SHARDS ? READ_BYTES / bytes : READ_SHARDS;
    enum err code = placement_resolve(&placement, &f->names, g, link_nodes(f->link), e);
    for (uint32_t done = 0; done < run->count && code == ERR_OK; done += at_once) {
        uint32_t left = run->count - done;
        const struct dump_run some = {
            .layer = run->layer, .first = run->first + done, .count = left < at_once ? left : at_once};
        code = read_some(f, v, g, &placement, &some, out + (size_t)done * bytes, e);
    }
    if (code != ERR_OK)
        link_forget(f->link);
    return code;
}
