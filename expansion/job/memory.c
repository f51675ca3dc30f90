/* SPDX-License-Identifier: MIT */
#include "expansion/job/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "base/info.h"

uint64_t memory_of_generation(const struct generation *g)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; g != NULL && i < g->layer_count; i++)
        bytes += geometry_memory_log(&g->layers[i].geometry);
    return bytes;
}

uint64_t memory_of_view(const struct view *v)
{
    return memory_of_generation(view_current(v)) + memory_of_generation(view_alternate(v));
}

static void figure(const redisReply *info, const char *name, uint64_t *out)
{
    size_t length;
    const char *value = info_value(info->str, info->len, name, &length);
    if (value != NULL)
        (void)number_u64(value, length, out);
}

enum err memory_of_node(struct sync_client *l, unsigned where, struct plan_node *out, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_command(l, where, &reply, e, "INFO memory");
    if (code != ERR_OK)
        return code;
    size_t length = 0;
    const char *used = info_value(reply->str, reply->len, "used_memory", &length);
    out->known = used != NULL && number_u64(used, length, &out->used);
    figure(reply, "maxmemory", &out->maxmemory);
    figure(reply, "total_system_memory", &out->machine);
    const char *policy = info_value(reply->str, reply->len, "maxmemory_policy", &length);
    (void)snprintf(out->policy, sizeof(out->policy), "%.*s", policy == NULL ? 0 : (int)length,
                   policy == NULL ? "" : policy);
    if (!out->known)
        return error_set(e, ERR_REFUSED, "Redis node %s: INFO memory has no used_memory",
                         sync_client_name(l, where));
    return ERR_OK;
}

static void name_node(const struct sync_client *l, unsigned where, struct plan_node *out)
{
    (void)snprintf(out->name, sizeof(out->name), "%s", sync_client_name(l, where));
}

/* --- nodes --- */

/* The nodes examined, with their addresses. */
struct memory {
    struct sync_client *l;
    const struct placement *on;
    unsigned count, room;
    struct plan_node *node;
};

static unsigned where_of(const struct memory *m, unsigned i)
{
    return m->on->count == 0 ? sync_client_master(m->l, i) : m->on->node[i];
}

/* Make room for every node of the list: more of them may be added later. */
static enum err make_room(struct memory *m, struct error *e)
{
    enum err code = ERR_OK;
    m->count = m->room = m->on->count;
    if (m->on->count == 0) {
        code = sync_client_masters(m->l, &m->count, e);
        m->room = m->count;
    } else {
        m->room = sync_client_nodes(m->l)->count;
    }
    if (code != ERR_OK)
        return code;
    m->node = calloc(m->room + 1, sizeof(*m->node));
    return m->node != NULL ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

static enum err look(struct memory *m, struct error *e)
{
    enum err code = make_room(m, e);
    for (unsigned i = 0; i < m->count && code == ERR_OK; i++) {
        struct plan_node *node = &m->node[i];
        bool takes_shards = m->on->count > 0 || sync_client_master_has_slots(m->l, i);
        if (m->on->count == 0) {
            node->share = sync_client_master_share(m->l, i);
            node->by_slots = true;
        }
        name_node(m->l, where_of(m, i), node);
        code = memory_of_node(m->l, where_of(m, i), node, e);
        /* A master that was replaced comes back as a replica, which other nodes learn a moment later. */
        if (!takes_shards && (code == ERR_UNREACHABLE || code == ERR_TIMEOUT))
            code = ERR_OK;
    }
    return code;
}

/* --- a filter's memory on nodes --- */

/* The node at an address of the list; a new one is added. */
static struct plan_node *listed_node(struct memory *m, unsigned where)
{
    unsigned i = 0;
    while (i < m->on->count && m->on->node[i] != where)
        i++;
    if (i < m->on->count)
        return &m->node[i];
    for (; i < m->count; i++)
        if (strcmp(m->node[i].name, sync_client_name(m->l, where)) == 0)
            return &m->node[i];
    struct plan_node *node = &m->node[m->count++];
    name_node(m->l, where, node);
    node->leaving = true;
    struct error ignored; /* it is not asked about its memory */
    if (memory_of_node(m->l, where, node, &ignored) != ERR_OK)
        node->known = false;
    return node;
}

static void add_listed(struct memory *m, const struct placement *placement, uint32_t shards, uint64_t bytes)
{
    for (unsigned i = 0; i < placement->count; i++)
        listed_node(m, placement->node[i])->before +=
            bytes * (shards / placement->count + (i < shards % placement->count));
}

/* A shard whose slot no node holds counts for none. */
static void add_slots(struct memory *m, const struct placement *placement, unsigned layer, uint32_t shards,
                      uint64_t bytes)
{
    for (uint32_t shard = 0; shard < shards; shard++) {
        unsigned i = sync_client_master_of(m->l, placement_where(placement, layer, shard));
        if (i < m->count)
            m->node[i].before += bytes;
    }
}

static enum err add_generation(struct memory *m, const struct names *names, const struct generation *g,
                               struct error *e)
{
    struct placement placement;
    enum err code = placement_resolve(&placement, names, g, sync_client_nodes(m->l), e);
    for (unsigned i = 0; i < g->layer_count && code == ERR_OK; i++) {
        const struct geometry *geometry = &g->layers[i].geometry;
        uint64_t bytes = geometry_memory_log(geometry) / geometry->shards;
        if (placement.count == 0)
            add_slots(m, &placement, i, geometry->shards, bytes);
        else
            add_listed(m, &placement, geometry->shards, bytes);
    }
    return code;
}

enum err memory_of_filter(const struct handle *f, const struct view *v, const struct placement *on,
                          struct plan_node **out, unsigned *count, struct error *e)
{
    struct memory m = {.l = f->redis, .on = on};
    enum err code = look(&m, e);
    for (unsigned s = 0; v != NULL && s < 2 && code == ERR_OK; s++)
        if (v->slot[s].number != 0)
            code = add_generation(&m, &f->names, &v->slot[s], e);
    if (code != ERR_OK)
        free(m.node);
    *out = code == ERR_OK ? m.node : NULL;
    *count = code == ERR_OK ? m.count : 0;
    return code;
}

enum err memory_fits(const struct handle *f, const struct view *v, const struct placement *on,
                     const struct plan *p, struct plan_node **nodes, unsigned *count, char warning[256],
                     struct error *e)
{
    struct plan_node *found;
    unsigned n;
    warning[0] = '\0';
    enum err code = memory_of_filter(f, v, on, &found, &n, e);
    if (code == ERR_OK)
        code = plan_fits(p, found, n, warning, e);
    if (nodes == NULL) {
        free(found);
        return code;
    }
    *nodes = found;
    *count = n;
    return code;
}
