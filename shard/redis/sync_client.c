/* SPDX-License-Identifier: MIT */
#include "shard/redis/sync_client_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include "base/clock.h"
#include "shard/redis/nodes/health.h"
#include "shard/filter/slots.h"

/* How long to wait for a node that was silent: enough for one that is back. */
enum { SILENT_MS = 50 };

void sync_client_peer_init(struct sync_client_peer *p, const struct node *node)
{
    *p = (struct sync_client_peer){.node = *node};
    TAILQ_INIT(&p->sent);
}

struct sync_client *sync_client_new(const struct nodes *nodes, unsigned timeout_ms, const char *name)
{
    struct sync_client *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->nodes = nodes;
    l->timeout_ms = timeout_ms;
    l->name = name;
    l->peer = calloc(nodes->count + 1, sizeof(*l->peer));
    if (nodes->cluster != NULL)
        l->route = sync_client_route_new();
    if (l->peer == NULL || (nodes->cluster != NULL && l->route == NULL)) {
        sync_client_free(l);
        return NULL;
    }
    for (unsigned i = 0; i < nodes->count; i++)
        sync_client_peer_init(&l->peer[i], &nodes->node[i]);
    return l;
}

void sync_client_free(struct sync_client *l)
{
    if (l == NULL)
        return;
    for (unsigned i = 0; l->peer != NULL && i < l->nodes->count; i++)
        sync_connection_close(l->peer[i].connection);
    if (l->route != NULL)
        sync_client_route_free(l);
    free(l->peer);
    buffer_fini(&l->command);
    free(l);
}

const struct nodes *sync_client_nodes(const struct sync_client *l)
{
    return l->nodes;
}

/* --- addresses --- */

unsigned sync_client_home(const struct sync_client *l, const struct names *names)
{
    return nodes_home(l->nodes, names);
}

unsigned sync_client_filters(const struct sync_client *l, const char *prefix)
{
    return nodes_filters(l->nodes, prefix);
}

const char *sync_client_name(const struct sync_client *l, unsigned where)
{
    return where < WHERE_SLOT ? l->nodes->node[where].name : sync_client_route_name(l, where);
}

enum err sync_client_masters(struct sync_client *l, unsigned *count, struct error *e)
{
    *count = l->nodes->count;
    return l->route == NULL ? ERR_OK : sync_client_route_masters(l, count, e);
}

unsigned sync_client_master(const struct sync_client *l, unsigned i)
{
    return l->route == NULL ? i : WHERE_MASTER | i;
}

unsigned sync_client_master_of(const struct sync_client *l, unsigned where)
{
    const struct sync_client_route *r = l->route;
    if (r == NULL)
        return where;
    return where_is_slot(where) && r->masters > 0 ? r->owner[where_slot(where)] : SLOT_NODES_MAX;
}

double sync_client_master_share(const struct sync_client *l, unsigned i)
{
    return l->route == NULL ? 1.0 / l->nodes->count : l->route->share[i];
}

unsigned sync_client_master_slot(const struct sync_client *l, unsigned i)
{
    return l->route == NULL ? SLOTS : l->route->lowest[i];
}

unsigned sync_client_master_keys(const struct sync_client *l, unsigned i)
{
    return l->route == NULL ? i : (unsigned)WHERE_SLOT | l->route->lowest[i];
}

bool sync_client_master_has_slots(const struct sync_client *l, unsigned i)
{
    return l->route == NULL || l->route->lowest[i] < SLOTS;
}

/* --- connections --- */

void sync_client_peer_break(struct sync_client_peer *p)
{
    sync_connection_close(p->connection);
    p->connection = NULL;
    p->failed += p->pending;
    p->pending = 0;
}

enum err sync_client_peer_connect(struct sync_client *l, struct sync_client_peer *p, struct error *e)
{
    /* The server may have closed an idle connection, for example at a restart. Nothing is lost with it. */
    bool owed = p->pending > 0 || p->failed > 0 || !TAILQ_EMPTY(&p->sent);
    if (p->connection != NULL && !owed && sync_connection_is_stale(p->connection))
        sync_client_peer_break(p);
    if (p->connection != NULL)
        return ERR_OK;
    bool silent = clock_mono_us() < p->silent_until;
    unsigned ms = silent && l->timeout_ms > SILENT_MS ? SILENT_MS : l->timeout_ms;
    enum err code = sync_connection_open(&p->connection, l->nodes, &p->node, l->name, ms, l->timeout_ms, e);
    if (code == ERR_OK && p->had_one)
        node_health_reconnected(l->nodes, &p->node);
    p->had_one |= code == ERR_OK;
    if (!silent || code != ERR_TIMEOUT)
        p->silent_until = code == ERR_TIMEOUT ? clock_mono_us() + (uint64_t)l->timeout_ms * 1000 : 0;
    return code == ERR_TIMEOUT ? ERR_UNREACHABLE : code;
}

/* --- commands --- */

static enum err append_formatted(struct sync_client *l, unsigned where, const char *command, size_t length,
                                 struct error *e)
{
    if (where >= WHERE_SLOT)
        return sync_client_route_append(l, where, command, length, e);
    assert(where < l->nodes->count);
    struct sync_client_peer *p = &l->peer[where];
    enum err code = sync_client_peer_connect(l, p, e);
    if (code != ERR_OK)
        return code;
    code = sync_connection_append(p->connection, command, length, e);
    if (code == ERR_OK)
        p->pending++;
    else
        sync_client_peer_break(p);
    return code;
}

enum err sync_client_append(struct sync_client *l, unsigned where, size_t argc, const char *const *argv,
                            const size_t *lengths, struct error *e)
{
    buffer_clear(&l->command);
    buffer_command(&l->command, argc, argv, lengths);
    if (buffer_failed(&l->command))
        return error_set(e, ERR_NOMEM, "out of memory");
    return append_formatted(l, where, l->command.data, l->command.length, e);
}

enum err sync_client_append_together(struct sync_client *l, unsigned where, struct slot_redirect *redirect,
                                     unsigned count, const char *commands, const size_t *ends,
                                     struct error *e)
{
    if (where >= WHERE_SLOT)
        return sync_client_route_append_together(l, where, redirect, count, commands, ends, e);
    struct sync_client_peer *p = &l->peer[where];
    size_t begin = 0;
    for (unsigned i = 0; i < count; begin = ends[i++]) {
        enum err code = append_formatted(l, where, commands + begin, ends[i] - begin, e);
        if (code != ERR_OK) {
            p->failed -= i; /* nobody reads the replies of those that were queued */
            return code;
        }
    }
    return ERR_OK;
}

enum err sync_client_reply(struct sync_client *l, unsigned where, redisReply **out, struct error *e)
{
    *out = NULL;
    if (where >= WHERE_SLOT)
        return sync_client_route_reply(l, where, out, e);
    struct sync_client_peer *p = &l->peer[where];
    if (p->failed > 0) {
        p->failed--;
        return error_set(e, ERR_UNREACHABLE, "Redis node %s: the connection broke", p->node.name);
    }
    if (p->pending == 0)
        return error_set(e, ERR_CONFLICT, "Redis node %s: no reply is pending", p->node.name);
    enum err code = sync_connection_reply(p->connection, out, e);
    if (code == ERR_OK) {
        p->pending--;
        return ERR_OK;
    }
    sync_client_peer_break(p);
    p->failed--; /* this call reports the failure of its own reply */
    return code;
}

enum err sync_client_refusal(const struct sync_client *l, unsigned where, const redisReply *reply,
                             struct error *e)
{
    enum err code = slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED;
    return error_set(e, code, "Redis node %s: %s", sync_client_name(l, where), reply->str);
}

enum err sync_client_command(struct sync_client *l, unsigned where, redisReply **out, struct error *e,
                             const char *format, ...)
{
    redisReply *reply = NULL;
    va_list ap;
    va_start(ap, format);
    char *command = NULL;
    int length = redisvFormatCommand(&command, format, ap);
    va_end(ap);
    if (length < 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = append_formatted(l, where, command, (size_t)length, e);
    redisFreeCommand(command);
    if (code == ERR_OK)
        code = sync_client_reply(l, where, &reply, e);
    if (code == ERR_OK && reply != NULL && reply->type == REDIS_REPLY_ERROR)
        code = sync_client_refusal(l, where, reply, e);
    if (out == NULL || code != ERR_OK) {
        freeReplyObject(reply);
        reply = NULL;
    }
    if (out != NULL)
        *out = reply;
    return code;
}

void sync_client_forget(struct sync_client *l)
{
    for (unsigned i = 0; i < l->nodes->count; i++) {
        struct sync_client_peer *p = &l->peer[i];
        if (p->pending > 0)
            sync_client_peer_break(p);
        p->pending = p->failed = 0;
    }
    if (l->route != NULL)
        sync_client_route_forget(l);
}

enum err sync_client_filter_command(struct sync_client *l, const struct names *names, const char *what,
                                    const char *command, redisReply **out, struct error *e)
{
    struct key_name key;
    names_filter_key(names, what, &key);
    return sync_client_command(l, sync_client_home(l, names), out, e, command, key.text, key.length);
}
