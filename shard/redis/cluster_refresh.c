/* SPDX-License-Identifier: MIT */
#include "shard/redis/cluster_refresh.h"

#include "base/clock.h"
#include "base/random.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sync_connection.h"

enum { PATIENCE_MS = 300 /* the longest wait for one node */ };

static enum err ask(const struct nodes *nodes, const struct node *n, const char *name, bool shards,
                    unsigned timeout_ms, redisReply **out, struct error *e)
{
    const char *const words[] = {"CLUSTER", shards ? "SHARDS" : "SLOTS"};
    struct sync_connection *connection;
    *out = NULL;
    enum err code = sync_connection_open(&connection, nodes, n, name, timeout_ms, timeout_ms, e);
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
static enum err ask_node(const struct nodes *nodes, const struct node *n, const char *name, bool all,
                         unsigned timeout_ms, struct slot_map *out, struct error *e)
{
    enum err code = ERR_OK;
    for (int turn = 0; turn < 2; turn++) {
        redisReply *reply;
        code = ask(nodes, n, name, (turn == 0) == all, timeout_ms, &reply, e);
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

/* A node that does not answer must not use up all of the time. Begin anywhere: the first of the list may be
 * the one that is down. */
enum err cluster_ask(const struct nodes *nodes, const char *name, bool all, unsigned timeout_ms,
                     const atomic_bool *ends, struct slot_map *out, struct error *e)
{
    uint64_t deadline = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    unsigned patience = timeout_ms < PATIENCE_MS ? timeout_ms : PATIENCE_MS, count = 1;
    unsigned first = (unsigned)(random_u64() >> 33);
    enum err code = ERR_UNREACHABLE;
    slot_map_init(out);
    for (unsigned i = 0; i < count && code != ERR_OK && (i == 0 || clock_mono_us() < deadline); i++) {
        struct node n;
        struct error why = {""};
        if (ends != NULL && atomic_load(ends))
            return error_set(e, ERR_CANCELLED, "cancelled");
        count = cluster_candidate(nodes->cluster, first + i, &n);
        code = ask_node(nodes, &n, name, all, patience, out, &why);
        if (code != ERR_OK)
            (void)error_set(e, code, "no node of the cluster says which slots it has; the last error: %s",
                            why.text);
    }
    return code;
}

enum err cluster_refresh(const struct nodes *nodes, const char *name, unsigned timeout_ms,
                         const atomic_bool *ends, struct error *e)
{
    struct slot_map map;
    enum err code = cluster_ask(nodes, name, false, timeout_ms, ends, &map, e);
    cluster_refreshed(nodes->cluster, code == ERR_OK ? &map : NULL);
    slot_map_fini(&map);
    return code;
}
