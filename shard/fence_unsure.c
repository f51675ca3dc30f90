/* SPDX-License-Identifier: MIT */
/* Lost shards that are made anew while the others go on.
 *
 * The happy path is: fence_make_anew() makes them, empty but for their tags, under names of this attempt; a
 * change of the view names them as unsure, and its fence brings them to their names (anew.lua); when all rows
 * are in them fence_sure() lets the filter say "no" by them again. Possible failure modes are: the attempt
 * comes to nothing before the change (what was made expires), a shard is lost again (it is found missing, or
 * its fence counts it as lost), the mutex is lost (refused by the scripts). */
#include "shard/fence_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "shard/block.h"
#include "shard/script.h"

enum { BYTES_IN_FLIGHT = 4 << 20, COMMANDS_IN_FLIGHT = 256, FIRST_NAME_TTL_MS = 3600 * 1000 };

struct making {
    struct fence *f;
    const struct generation *g;
    struct placement placement;
    uint64_t token;
    const char *empty;
};

static enum err send_new(const struct making *m, uint32_t shard, struct error *e)
{
    struct key_name name;
    const struct shard_id id = {.generation = m->g->number, .layer = 0, .shard = shard};
    char ttl[24];
    int n = snprintf(ttl, sizeof(ttl), "%d", FIRST_NAME_TTL_MS);
    names_new_shard(&m->f->names, id, m->token, &name);
    const char *argv[] = {"SET", name.text, m->empty, "NX", "PX", ttl};
    const size_t lengths[] = {3, name.length, geometry_shard_bytes(&m->g->layers[0].geometry),
                              2, 2,           (size_t)n};
    return link_append(m->f->link, placement_where(&m->placement, 0, shard), 6, argv, lengths, e);
}

static enum err read_new(const struct making *m, uint32_t shard, struct error *e)
{
    redisReply *reply;
    unsigned where = placement_where(&m->placement, 0, shard);
    enum err code = link_reply(m->f->link, where, &reply, e);
    if (code == ERR_OK && reply->type == REDIS_REPLY_ERROR)
        code = link_refusal(m->f->link, where, reply, e);
    freeReplyObject(reply);
    return code;
}

static enum err make_all(const struct making *m, const uint8_t *which, struct error *e)
{
    const struct geometry *geometry = &m->g->layers[0].geometry;
    uint32_t fit = BYTES_IN_FLIGHT / geometry_shard_bytes(geometry), sent[COMMANDS_IN_FLIGHT];
    uint32_t most = fit < COMMANDS_IN_FLIGHT ? fit : COMMANDS_IN_FLIGHT;
    enum err code = ERR_OK;
    for (uint32_t next = 0; next < geometry->shards && code == ERR_OK;) {
        uint32_t n = 0;
        for (; next < geometry->shards && n < most && code == ERR_OK; next++)
            if (which[next]) {
                sent[n++] = next;
                code = send_new(m, next, e);
            }
        for (uint32_t i = 0; i < n && code == ERR_OK; i++)
            code = read_new(m, sent[i], e);
    }
    if (code != ERR_OK)
        link_forget(m->f->link);
    return code;
}

enum err fence_make_anew(struct fence *f, const struct generation *g, uint64_t token, const uint8_t *which,
                         struct error *e)
{
    const struct geometry *geometry = &g->layers[0].geometry;
    struct making m = {.f = f, .g = g, .token = token};
    enum err code = placement_resolve(&m.placement, &f->names, g, link_nodes(f->link), e);
    if (code != ERR_OK)
        return code;
    uint8_t *empty = malloc(geometry_shard_bytes(geometry));
    if (empty == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    block_fill(geometry, fence_tag(f, g), empty);
    m.empty = (const char *)empty;
    code = make_all(&m, which, e);
    free(empty);
    return code;
}

void fence_anew_call(struct script_call *c, const struct names *names, const struct view *v,
                     struct shard_id id, uint16_t tag, uint64_t tombstone_ms)
{
    struct key_name first, from, to;
    const char bytes[2] = {(char)(tag >> 8), (char)(tag & 0xff)};
    names_new_shard(names, id, v->unsure.token, &first);
    names_shard(names, id, v->epoch - 1, &from);
    names_shard(names, id, v->epoch, &to);
    script_begin(c, embedded_anew);
    script_key(c, &first);
    script_key(c, &from);
    script_key(c, &to);
    script_bytes(c, bytes, sizeof(bytes));
    script_number(c, tombstone_ms);
}

enum err fence_sure(struct fence *f, struct view *v, const char *mutex, struct error *e)
{
    struct script_call *c = &f->call;
    char was[UNSURE_TEXT_MAX];
    (void)unsure_text(&v->unsure, was);
    script_begin(c, embedded_sure);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, v->incarnation);
    script_number(c, v->epoch);
    script_text(c, was);
    enum err code = fence_run_change(f, mutex, v->epoch, ERR_FENCED, "other shards are unsure by now", e);
    if (code != ERR_OK)
        return code;
    unsure_clear(&v->unsure);
    fence_tell(f, v);
    return ERR_OK;
}
