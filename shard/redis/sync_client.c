/* SPDX-License-Identifier: MIT */
#include "shard/redis/sync_client_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/health.h"
#include "shard/redis/wire/greeting.h"
#include "shard/redis/wire/replication.h"
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
    TAILQ_INIT(&l->all);
    TAILQ_INIT(&l->ahead.read);
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
    sync_client_forget(l);
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

const char *sync_client_name(const struct sync_client *l, unsigned where)
{
    return where < WHERE_SLOT ? l->nodes->node[where].name : sync_client_route_name(l, where);
}

enum err sync_client_masters(struct sync_client *l, unsigned *count, struct error *e)
{
    *count = l->route == NULL ? l->nodes->count : l->route->masters;
    if (l->route == NULL || (l->ahead.uses != 0 && sync_client_take_masters_ahead(l)))
        return ERR_OK;
    return sync_client_route_masters(l, count, e);
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

/* The server may have closed an idle connection, for example at a restart. Nothing is lost with it. A server
 * that becomes a replica closes none, but the node's address may lead to another server by now. */
static void drop_stale(struct sync_client_peer *p)
{
    if (p->connection != NULL && TAILQ_EMPTY(&p->sent) &&
        (p->is_replica || sync_connection_is_stale(p->connection)))
        sync_client_peer_break(p, ERR_UNREACHABLE);
}

static void pin(const struct sync_client *l, struct sync_client_peer *p)
{
    drop_stale(p);
    p->is_asked = false;
    p->broke &= l->ahead.is_open;
}

void sync_client_begin_pin(struct sync_client *l)
{
    for (unsigned i = 0; i < l->nodes->count; i++)
        pin(l, &l->peer[i]);
    for (unsigned i = 0; l->route != NULL && i < l->route->count; i++)
        pin(l, l->route->peer[i]);
}

void sync_client_pin(struct sync_client *l)
{
    if (l->pins++ == 0)
        sync_client_begin_pin(l);
}

void sync_client_unpin(struct sync_client *l)
{
    l->pins--;
}

enum err sync_client_peer_connect(struct sync_client *l, struct sync_client_peer *p, struct error *e)
{
    drop_stale(p);
    if (p->connection != NULL)
        return ERR_OK;
    if ((l->pins > 0 || l->ahead.is_open) && p->broke)
        return error_set(e, ERR_UNREACHABLE, "the connection broke; its address may lead elsewhere");
    bool silent = clock_mono_us() < p->silent_until;
    unsigned ms = silent && l->timeout_ms > SILENT_MS ? SILENT_MS : l->timeout_ms;
    enum err code = sync_connection_open(&p->connection, l->nodes, &p->node, l->name, ms, l->timeout_ms, e);
    if (code == ERR_OK && p->number != 0)
        node_health_reconnected(l->nodes, &p->node);
    if (code == ERR_OK)
        p->number = ++l->connections;
    if (!silent || code != ERR_TIMEOUT)
        p->silent_until = code == ERR_TIMEOUT ? clock_mono_us() + (uint64_t)l->timeout_ms * 1000 : 0;
    return code == ERR_TIMEOUT ? ERR_UNREACHABLE : code;
}

/* --- commands --- */

enum err sync_client_append(struct sync_client *l, unsigned where, size_t argc, const char *const *argv,
                            const size_t *lengths, struct error *e)
{
    buffer_clear(&l->command);
    buffer_command(&l->command, argc, argv, lengths);
    if (buffer_failed(&l->command))
        return error_set(e, ERR_NOMEM, "out of memory");
    return sync_client_queue(l, where, l->command.data, l->command.length, e);
}

enum err sync_client_refusal(const struct sync_client *l, unsigned where, const redisReply *reply,
                             struct error *e)
{
    enum err code = slots_error_passes(reply->str) ? ERR_UNREACHABLE : ERR_REFUSED;
    return error_set(e, code, "Redis node %s: %s", sync_client_name(l, where), reply->str);
}

static enum err send(struct sync_client *l, unsigned where, struct error *e, const char *format, va_list ap)
{
    char *command = NULL;
    int length = redisvFormatCommand(&command, format, ap);
    if (length < 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = sync_client_queue(l, where, command, (size_t)length, e);
    redisFreeCommand(command);
    return code;
}

enum err sync_client_send(struct sync_client *l, unsigned where, struct error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    enum err code = send(l, where, e, format, ap);
    va_end(ap);
    return code;
}

bool sync_client_is_role_asked(const struct sync_client *l, unsigned where)
{
    return l->route == NULL || (where & WHERE_MASTER) != 0;
}

enum err sync_client_send_role(struct sync_client *l, unsigned where, struct error *e)
{
    return sync_client_is_role_asked(l, where)
               ? sync_client_queue(l, where, greeting_ask_replication, strlen(greeting_ask_replication), e)
               : ERR_OK;
}

enum err sync_client_read_role(struct sync_client *l, unsigned where, struct error *e)
{
    struct error why = {""};
    redisReply *info;
    uint64_t id = 0;
    if (!sync_client_is_role_asked(l, where))
        return ERR_OK;
    enum err code = sync_client_reply(l, where, &info, e);
    if (code != ERR_OK)
        return code;
    code = greeting_judge_replication(false, info, &id, &why);
    freeReplyObject(info);
    if (l->route == NULL)
        l->peer[where].is_replica |= id == 0; /* the next use connects again */
    return code == ERR_OK ? ERR_OK
                          : error_set(e, code, "Redis node %s: %s", sync_client_name(l, where), why.text);
}

static enum err ask(struct sync_client *l, unsigned where, redisReply **out, struct error *e,
                    const char *format, va_list ap)
{
    *out = NULL;
    enum err code = send(l, where, e, format, ap);
    if (code != ERR_OK)
        return code;
    enum err role = sync_client_send_role(l, where, e);
    code = sync_client_reply(l, where, out, role == ERR_OK ? e : NULL);
    if (role == ERR_OK)
        role = sync_client_read_role(l, where, code == ERR_OK ? e : NULL);
    if (code == ERR_OK && role != ERR_OK) {
        freeReplyObject(*out);
        *out = NULL;
    }
    return code == ERR_OK ? role : code;
}

enum err sync_client_ask(struct sync_client *l, unsigned where, redisReply **out, struct error *e,
                         const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    enum err code = ask(l, where, out, e, format, ap);
    va_end(ap);
    return code;
}

enum err sync_client_command(struct sync_client *l, unsigned where, redisReply **out, struct error *e,
                             const char *format, ...)
{
    redisReply *reply;
    va_list ap;
    va_start(ap, format);
    enum err code = ask(l, where, &reply, e, format, ap);
    va_end(ap);
    if (code == ERR_OK && reply->type == REDIS_REPLY_ERROR)
        code = sync_client_refusal(l, where, reply, e);
    if (out != NULL)
        *out = code == ERR_OK ? reply : NULL;
    if (out == NULL || code != ERR_OK)
        freeReplyObject(reply);
    return code;
}

enum err sync_client_scan(struct sync_client *l, unsigned where, char cursor[SYNC_CLIENT_CURSOR],
                          const struct buffer *pattern, const char *type, redisReply **out, struct error *e)
{
    redisReply *reply;
    const char *format = type == NULL ? "SCAN %s MATCH %b COUNT 1000" : "SCAN %s MATCH %b COUNT 1000 TYPE %s";
    *out = NULL;
    enum err code =
        sync_client_command(l, where, &reply, e, format, cursor, pattern->data, pattern->length, type);
    if (code != ERR_OK)
        return code;
    bool is_page = reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
                   reply->element[0]->type == REDIS_REPLY_STRING &&
                   reply->element[0]->len < SYNC_CLIENT_CURSOR &&
                   reply->element[1]->type == REDIS_REPLY_ARRAY;
    for (size_t i = 0; is_page && i < reply->element[1]->elements; i++)
        is_page = reply->element[1]->element[i]->type == REDIS_REPLY_STRING;
    if (!is_page) {
        freeReplyObject(reply);
        return error_set(e, ERR_PARSE, "Redis node %s: not a page of SCAN", sync_client_name(l, where));
    }
    memcpy(cursor, reply->element[0]->str, reply->element[0]->len + 1);
    *out = reply;
    return ERR_OK;
}

enum err sync_client_filter_command(struct sync_client *l, const struct names *names, const char *what,
                                    const char *command, redisReply **out, struct error *e)
{
    struct key_name key;
    names_filter_key(names, what, &key);
    return sync_client_command(l, sync_client_home(l, names), out, e, command, key.text, key.length);
}

/* --- replication ids --- */

static enum err ask_section(struct sync_client *l, unsigned where, const char *section,
                            struct replication *out, struct error *e)
{
    redisReply *reply;
    enum err code = sync_client_command(l, where, &reply, e, "INFO %s", section);
    if (code != ERR_OK)
        return code;
    code = reply->type == REDIS_REPLY_STRING ? replication_parse_info(out, reply->str, reply->len, e)
                                             : error_set(e, ERR_PARSE, "unexpected reply to INFO");
    freeReplyObject(reply);
    return code;
}

/* INFO ALL costs Redis as much as thirty times the section, and each filter asks once a second. */
static enum err ask_replication(struct sync_client *l, unsigned where, const struct replications *known,
                                struct replication *out, struct error *e)
{
    const struct replication *was = NULL;
    (void)snprintf(out->node, sizeof(out->node), "%s", sync_client_name(l, where));
    enum err code = ask_section(l, where, "replication", out, e);
    if (code == ERR_OK && known != NULL && out->id != 0)
        was = replications_of_id(known, out->id);
    if (was != NULL && strcmp(was->node, out->node) == 0) {
        out->run = was->run;
        out->received = was->received;
    } else if (code == ERR_OK) {
        code = ask_section(l, where, "ALL", out, e);
    }
    if (code != ERR_UNREACHABLE && code != ERR_TIMEOUT)
        return code == ERR_OK ? ERR_OK : error_prefix(e, code, "Redis node %s", out->node);
    out->id = 0;
    return ERR_OK;
}

enum err sync_client_replications(struct sync_client *l, const struct replications *known,
                                  struct replications *out, struct error *e)
{
    unsigned masters;
    out->count = 0;
    enum err code = sync_client_masters(l, &masters, e);
    for (unsigned i = 0; code == ERR_OK && i < masters; i++) {
        struct replication one = {.has_slots = sync_client_master_has_slots(l, i)};
        code = ask_replication(l, sync_client_master(l, i), known, &one, e);
        if (code == ERR_OK)
            code = replications_add(out, &one, e);
    }
    return code;
}
