/* SPDX-License-Identifier: MIT */
/* Shards that are not where the view says: which they are, and what lies of them under older names.
 *
 * A replica that lagged may have missed renames: then its shards lie under names of epochs before. rename.lua
 * moves them forward, as the fence would have, whichever epoch it finds them under; bits that were set since
 * are missing, which is for whoever calls to mend. Idempotent. */
#include "shard/fence_internal.h"

#include <stdlib.h>
#include "shard/block.h"
#include "shard/block_command.h"
#include "shard/script.h"

enum { AT_ONCE = 1000, EPOCHS_BACK = 64 };

/* --- looking --- */

struct look {
    struct fence *f;
    const struct view *v;
    const struct generation *g;
    unsigned layer;
    struct placement placement;
    uint16_t tag;
    uint8_t *lost; /* by shard; NULL: only counted */
    uint64_t count;
};

static enum err look_begin(struct look *l, struct fence *f, const struct view *v, const struct generation *g,
                           unsigned layer, struct error *e)
{
    *l = (struct look){.f = f, .v = v, .g = g, .layer = layer, .tag = fence_tag(f, g)};
    return placement_resolve(&l->placement, &f->names, g, link_nodes(f->link), e);
}

/* A truncated shard lacks its last block. */
static struct key_place last_block(const struct look *l, uint32_t shard)
{
    return (struct key_place){.shard = shard, .block = l->g->layers[l->layer].geometry.blocks - 1};
}

static enum err send_look(struct look *l, uint32_t shard, struct error *e)
{
    struct block_command command;
    const struct geometry *geometry = &l->g->layers[l->layer].geometry;
    const struct key_place place = last_block(l, shard);
    block_command_format(&command, BLOCK_READ, &l->f->names, l->v->epoch, l->g->number, l->layer, geometry,
                         &place);
    return link_append_formatted(l->f->link, placement_where(&l->placement, l->layer, shard), command.text,
                                 command.length, e);
}

static enum err read_look(struct look *l, uint32_t shard, struct error *e)
{
    redisReply *reply;
    unsigned where = placement_where(&l->placement, l->layer, shard);
    const struct key_place place = last_block(l, shard);
    enum err code = link_reply(l->f->link, where, &reply, e);
    if (code != ERR_OK)
        return code;
    enum block_answer answer =
        block_command_read(BLOCK_READ, &l->g->layers[l->layer].geometry, l->tag, &place, reply);
    if (answer == BLOCK_REFUSED)
        code = link_refusal(l->f->link, where, reply, e);
    l->count += answer == BLOCK_BAD;
    if (l->lost != NULL)
        l->lost[shard] = answer == BLOCK_BAD;
    freeReplyObject(reply);
    return code;
}

static enum err look_at_all(struct look *l, struct error *e)
{
    uint32_t shards = l->g->layers[l->layer].geometry.shards;
    enum err code = ERR_OK;
    for (uint32_t first = 0; first < shards && code == ERR_OK; first += AT_ONCE) {
        uint32_t end = shards - first < AT_ONCE ? shards : first + AT_ONCE;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = send_look(l, i, e);
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = read_look(l, i, e);
    }
    if (code != ERR_OK)
        link_forget(l->f->link);
    return code;
}

enum err fence_find_lost(struct fence *f, const struct view *v, const struct generation *g, unsigned layer,
                         uint8_t *lost, uint64_t *count, struct error *e)
{
    struct look l;
    enum err code = look_begin(&l, f, v, g, layer, e);
    l.lost = lost;
    if (code == ERR_OK)
        code = look_at_all(&l, e);
    *count = l.count;
    return code;
}

enum err fence_count_lost(struct fence *f, const struct view *v, const struct generation *g, uint64_t *lost,
                          struct error *e)
{
    enum err code = ERR_OK;
    *lost = 0;
    for (unsigned layer = 0; code == ERR_OK && layer < g->layer_count; layer++) {
        uint64_t here = 0;
        code = fence_find_lost(f, v, g, layer, NULL, &here, e);
        *lost += here;
    }
    return code;
}

/* --- moving forward --- */

/* @epoch 0: from the name under which it was made. */
static enum err send_move(struct look *l, uint32_t shard, uint64_t epoch, struct error *e)
{
    struct script_call *c = &l->f->call;
    struct key_name from, to;
    struct shard_id id = {.generation = l->g->number, .layer = l->layer, .shard = shard};
    char tag[2] = {(char)(l->tag >> 8), (char)(l->tag & 0xff)};
    if (epoch == 0)
        names_new_shard(&l->f->names, id, l->g->layers[l->layer].token, &from);
    else
        names_shard(&l->f->names, id, epoch, &from);
    names_shard(&l->f->names, id, l->v->epoch, &to);
    script_begin(c, embedded_rename);
    script_key(c, &from);
    script_key(c, &to);
    script_bytes(c, tag, sizeof(tag));
    script_number(c, l->f->tombstone_ms);
    return script_send(c, l->f->link, placement_where(&l->placement, l->layer, shard), e);
}

static enum err read_move(struct look *l, uint32_t shard, struct error *e)
{
    long long answer;
    enum err code = script_reply(l->f->link, placement_where(&l->placement, l->layer, shard), &answer, e);
    if (code == ERR_OK && answer == -2)
        return error_set(e, ERR_FENCED, "epoch %lu is no longer current", (unsigned long)l->v->epoch);
    if (code == ERR_OK && answer >= 0) {
        l->lost[shard] = 0;
        l->count--;
    }
    return code;
}

static enum err move_from(struct look *l, uint64_t epoch, struct error *e)
{
    uint32_t shards = l->g->layers[l->layer].geometry.shards;
    enum err code = ERR_OK;
    for (uint32_t first = 0; first < shards && code == ERR_OK; first += AT_ONCE) {
        uint32_t end = shards - first < AT_ONCE ? shards : first + AT_ONCE;
        uint32_t sent[AT_ONCE], n = 0;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            if (l->lost[i]) {
                sent[n++] = i;
                code = send_move(l, i, epoch, e);
            }
        for (uint32_t i = 0; i < n && code == ERR_OK; i++)
            code = read_move(l, sent[i], e);
    }
    if (code != ERR_OK)
        link_forget(l->f->link);
    return code;
}

/* Its last block must be there as well: a shard that was cut is not found by moving it. */
enum err fence_recover(struct fence *f, const struct view *v, const struct generation *g, unsigned layer,
                       uint8_t *lost, uint64_t *count, struct error *e)
{
    struct look l;
    uint64_t born = g->layers[layer].born_epoch;
    uint64_t last = v->epoch > born + EPOCHS_BACK ? v->epoch - EPOCHS_BACK : born;
    enum err code = fence_find_lost(f, v, g, layer, lost, count, e);
    if (code != ERR_OK || *count == 0)
        return code;
    code = look_begin(&l, f, v, g, layer, e);
    l.lost = lost;
    l.count = *count;
    for (uint64_t epoch = v->epoch - 1; code == ERR_OK && l.count > 0 && epoch >= last && epoch > 0; epoch--)
        code = move_from(&l, epoch, e);
    if (code == ERR_OK && l.count > 0)
        code = move_from(&l, 0, e);
    return code == ERR_OK ? fence_find_lost(f, v, g, layer, lost, count, e) : code;
}
