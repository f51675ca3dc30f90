/* SPDX-License-Identifier: MIT */
/* Where a sync client gets its map of slots: from another thread of the process that already has it, or from
 * a node that it asks over a separate connection. */
#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sync_client_internal.h"

enum { PAUSE_US = 10 * 1000 };

/* Take the map that this or another thread got in the meantime. May drop peers: hold none across this
 * call. */
static bool adopt(struct sync_client *l)
{
    struct sync_client_route *r = l->route;
    if (cluster_version(l->nodes->cluster) == r->version ||
        cluster_copy(l->nodes->cluster, &r->map, &r->version) != ERR_OK)
        return false;
    memset(r->by_node, 0, sizeof(r->by_node));
    sync_client_route_drop_unwanted(l);
    return true;
}

static enum err ask(struct sync_client *l, const struct node *n, bool shards, unsigned timeout_ms,
                    redisReply **out, struct error *e)
{
    const char *const words[] = {"CLUSTER", shards ? "SHARDS" : "SLOTS"};
    struct sync_connection *connection;
    *out = NULL;
    enum err code = sync_connection_open(&connection, l->nodes, n, l->name, timeout_ms, timeout_ms, e);
    if (code != ERR_OK)
        return code;
    code = sync_connection_append_words(connection, 2, words, e);
    if (code == ERR_OK)
        code = sync_connection_reply(connection, out, e);
    sync_connection_close(connection);
    return code;
}

/* Use CLUSTER SLOTS, which old and new servers have. Use CLUSTER SHARDS if SLOTS is refused, and first if
 * masters without slots are wanted too. */
static enum err ask_node(struct sync_client *l, const struct node *n, bool all, unsigned timeout_ms,
                         struct slot_map *out, struct error *e)
{
    enum err code = ERR_OK;
    slot_map_init(out);
    for (int turn = 0; turn < 2; turn++) {
        redisReply *reply;
        code = ask(l, n, (turn == 0) == all, timeout_ms, &reply, e);
        if (code != ERR_OK)
            return code;
        code = slot_map_parse(out, reply, n->host, n->tls, e);
        bool refused = reply->type == REDIS_REPLY_ERROR;
        freeReplyObject(reply);
        if (!refused)
            break;
    }
    if (code == ERR_OK && slot_map_covered(out) == 0) {
        slot_map_fini(out);
        code = error_set(e, ERR_UNREACHABLE, "Redis node %s has no slots", n->name);
    }
    return code;
}

/* Ask one node after the other, until the deadline. A node that does not answer must not use up all of it. */
static enum err ask_nodes(struct sync_client *l, bool all, struct slot_map *out, struct error *e)
{
    enum { PATIENCE_MS = 300 };
    uint64_t deadline = clock_mono_us() + (uint64_t)l->timeout_ms * 1000;
    unsigned patience = l->timeout_ms < PATIENCE_MS ? l->timeout_ms : PATIENCE_MS, count = 1;
    enum err code = ERR_UNREACHABLE;
    slot_map_init(out);
    for (unsigned i = 0; i < count && code != ERR_OK && (i == 0 || clock_mono_us() < deadline); i++) {
        struct node n;
        struct error why = {""};
        count = cluster_candidate(l->nodes->cluster, l->route->turn++, &n);
        code = ask_node(l, &n, all, patience, out, &why);
        if (code != ERR_OK)
            (void)error_set(e, code, "no node of the cluster says which slots it has; the last error: %s",
                            why.text);
    }
    return code;
}

enum err sync_client_map_refresh(struct sync_client *l, struct error *e)
{
    struct slot_map map;
    if (adopt(l) || !cluster_may_refresh(l->nodes->cluster))
        return ERR_OK;
    enum err code = ask_nodes(l, false, &map, e);
    cluster_refreshed(l->nodes->cluster, code == ERR_OK ? &map : NULL);
    slot_map_fini(&map);
    (void)adopt(l);
    return code;
}

void sync_client_doubt_map(struct sync_client *l)
{
    if (l->route != NULL)
        (void)sync_client_map_refresh(l, NULL);
}

enum err sync_client_map_need(struct sync_client *l, struct error *e)
{
    struct sync_client_route *r = l->route;
    uint64_t deadline = clock_mono_us() + (uint64_t)l->timeout_ms * 1000;
    struct error why = {"no node of the cluster has told its slots yet"};
    while (r->version == 0) {
        enum err code = sync_client_map_refresh(l, &why);
        if (r->version != 0)
            break;
        if (code == ERR_REFUSED || clock_mono_us() >= deadline)
            return error_set(e, code == ERR_OK ? ERR_UNREACHABLE : code, "%s", why.text);
        clock_sleep_us(PAUSE_US);
    }
    return ERR_OK;
}

/* --- all masters --- */

static enum err take_masters(struct sync_client *l, const struct slot_map *map, struct error *e)
{
    struct sync_client_route *r = l->route;
    uint16_t master[SLOT_NODES_MAX]; /* index of the master, by node of the map */
    for (unsigned i = 0; i < map->count; i++) {
        const struct slot_node *n = &map->node[i];
        master[i] = SLOT_NODES_MAX;
        if (n->replica)
            continue;
        struct sync_client_peer *p = sync_client_route_peer(l, n->host, n->port);
        if (p == NULL)
            return error_set(e, ERR_NOMEM, "out of memory");
        master[i] = (uint16_t)r->masters;
        r->lowest[r->masters] = SLOTS;
        r->share[r->masters] = (double)n->slots / SLOTS;
        r->master[r->masters++] = p;
    }
    for (unsigned slot = SLOTS; slot-- > 0;) {
        r->owner[slot] = map->owner[slot] < map->count ? master[map->owner[slot]] : SLOT_NODES_MAX;
        if (r->owner[slot] < SLOT_NODES_MAX)
            r->lowest[r->owner[slot]] = (uint16_t)slot;
    }
    return ERR_OK;
}

enum err sync_client_route_masters(struct sync_client *l, unsigned *count, struct error *e)
{
    struct sync_client_route *r = l->route;
    struct slot_map map;
    l->ahead.fails = true; /* what was asked ahead was for the former addresses */
    l->ahead.uses = 0;
    enum err code = ask_nodes(l, true, &map, e);
    r->masters = 0;
    if (code == ERR_OK)
        code = take_masters(l, &map, e);
    slot_map_fini(&map);
    *count = code == ERR_OK ? r->masters : 0;
    return code;
}
