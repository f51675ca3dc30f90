/* SPDX-License-Identifier: MIT */
#include "shard/link.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include "base/buffer.h"

struct peer {
    redisContext *context;
    size_t pending; /* replies that are still to come on this connection */
    size_t failed;  /* replies that will never come: their connection broke before them */
};

struct link {
    const struct nodes *nodes;
    unsigned timeout_ms;
    const char *name;
    struct buffer command;
    struct peer peer[GENERATION_NODES_MAX];
};

struct link *link_new(const struct nodes *nodes, unsigned timeout_ms, const char *name)
{
    struct link *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return NULL;
    l->nodes = nodes;
    l->timeout_ms = timeout_ms;
    l->name = name;
    return l;
}

void link_free(struct link *l)
{
    if (l == NULL)
        return;
    for (unsigned i = 0; i < l->nodes->count; i++)
        if (l->peer[i].context != NULL)
            redisFree(l->peer[i].context);
    buffer_fini(&l->command);
    free(l);
}

const struct nodes *link_nodes(const struct link *l)
{
    return l->nodes;
}

/* Close the connection; what was pending on it has failed. Returns the error to report. */
static enum err peer_break(struct link *l, unsigned node, struct error *e)
{
    struct peer *p = &l->peer[node];
    bool timeout = p->context->err == REDIS_ERR_IO && (errno == EAGAIN || errno == EWOULDBLOCK);
    enum err code = timeout ? ERR_TIMEOUT : ERR_UNREACHABLE;
    (void)error_set(e, code, "Redis node %s: %s", l->nodes->node[node].name,
                    timeout ? "no reply within the deadline" : p->context->errstr);
    redisFree(p->context);
    p->context = NULL;
    p->failed += p->pending;
    p->pending = 0;
    return code;
}

/* A name is for people: a user who may not set one is no harm. One without a login cannot do anything else
 * either. */
static bool refuses_only_the_name(const redisReply *reply)
{
    return strncmp(reply->str, "NOAUTH", 6) != 0;
}

static enum err greet(redisContext *context, const struct node *n, const char *name, struct error *e)
{
    redisReply *replies[3] = {0};
    unsigned count = 0, naming = UINT_MAX;
    if (n->password[0] != '\0')
        replies[count++] = n->user[0] != '\0' ? redisCommand(context, "AUTH %s %s", n->user, n->password)
                                              : redisCommand(context, "AUTH %s", n->password);
    if (n->database != 0)
        replies[count++] = redisCommand(context, "SELECT %u", n->database);
    if (name != NULL) {
        naming = count;
        replies[count++] = redisCommand(context, "CLIENT SETNAME %s", name);
    }
    enum err code = ERR_OK;
    for (unsigned i = 0; i < count; i++) {
        if (code == ERR_OK && replies[i] == NULL)
            code = error_set(e, ERR_UNREACHABLE, "Redis node %s: %s", n->name, context->errstr);
        else if (code == ERR_OK && replies[i]->type == REDIS_REPLY_ERROR &&
                 !(i == naming && refuses_only_the_name(replies[i])))
            code = error_set(e, ERR_REFUSED, "Redis node %s: %s", n->name, replies[i]->str);
        freeReplyObject(replies[i]);
    }
    return code;
}

enum err link_connect(redisContext **out, const struct node *n, const char *name, unsigned timeout_ms,
                      struct error *e)
{
    struct timeval tv = {.tv_sec = timeout_ms / 1000, .tv_usec = (long)(timeout_ms % 1000) * 1000};
    redisContext *context = redisConnectWithTimeout(n->host, n->port, tv);
    *out = NULL;
    if (context == NULL) {
        (void)error_set(e, ERR_NOMEM, "Redis node %s: out of memory", n->name);
        return ERR_NOMEM;
    }
    enum err code = ERR_OK;
    if (context->err != 0)
        code = error_set(e, ERR_UNREACHABLE, "Redis node %s: %s", n->name, context->errstr);
    else if (redisSetTimeout(context, tv) != REDIS_OK)
        code = error_set(e, ERR_IO, "Redis node %s: %s", n->name, context->errstr);
    else
        code = greet(context, n, name, e);
    if (code == ERR_OK)
        *out = context;
    else
        redisFree(context);
    return code;
}

/* Closed by the server while nothing was asked: a restart, say. Nothing is lost with it. */
static bool was_closed(const struct peer *p)
{
    char byte;
    if (p->pending > 0 || p->failed > 0)
        return false;
    ssize_t n = recv(p->context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static enum err peer_connect(struct link *l, unsigned node, struct error *e)
{
    struct peer *p = &l->peer[node];
    if (p->context != NULL && was_closed(p)) {
        redisFree(p->context);
        p->context = NULL;
    }
    if (p->context != NULL)
        return ERR_OK;
    return link_connect(&p->context, &l->nodes->node[node], l->name, l->timeout_ms, e);
}

enum err link_append_formatted(struct link *l, unsigned node, const char *command, size_t length,
                               struct error *e)
{
    enum err code = peer_connect(l, node, e);
    if (code != ERR_OK)
        return code;
    if (redisAppendFormattedCommand(l->peer[node].context, command, length) != REDIS_OK)
        return peer_break(l, node, e);
    l->peer[node].pending++;
    return ERR_OK;
}

enum err link_append(struct link *l, unsigned node, size_t argc, const char *const *argv,
                     const size_t *lengths, struct error *e)
{
    buffer_clear(&l->command);
    buffer_command(&l->command, argc, argv, lengths);
    if (buffer_failed(&l->command))
        return error_set(e, ERR_NOMEM, "out of memory");
    return link_append_formatted(l, node, l->command.data, l->command.length, e);
}

enum err link_reply(struct link *l, unsigned node, redisReply **out, struct error *e)
{
    struct peer *p = &l->peer[node];
    *out = NULL;
    if (p->failed > 0) {
        p->failed--;
        return error_set(e, ERR_UNREACHABLE, "Redis node %s: the connection broke",
                         l->nodes->node[node].name);
    }
    if (p->pending == 0)
        return error_set(e, ERR_CONFLICT, "Redis node %s: no reply is pending", l->nodes->node[node].name);
    void *reply = NULL;
    errno = 0;
    if (redisGetReply(p->context, &reply) != REDIS_OK) {
        enum err code = peer_break(l, node, e);
        p->failed--; /* the one that is reported here */
        return code;
    }
    p->pending--;
    *out = reply;
    return ERR_OK;
}

enum err link_refusal(const struct link *l, unsigned node, const redisReply *reply, struct error *e)
{
    static const char *const later[] = {"LOADING", "BUSY", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"};
    enum err code = ERR_REFUSED;
    for (size_t i = 0; i < sizeof(later) / sizeof(later[0]); i++)
        if (strncmp(reply->str, later[i], strlen(later[i])) == 0)
            code = ERR_UNREACHABLE;
    return error_set(e, code, "Redis node %s: %s", l->nodes->node[node].name, reply->str);
}

enum err link_command(struct link *l, unsigned node, redisReply **out, struct error *e, const char *format,
                      ...)
{
    *out = NULL;
    va_list ap;
    va_start(ap, format);
    char *command = NULL;
    int length = redisvFormatCommand(&command, format, ap);
    va_end(ap);
    if (length < 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = link_append_formatted(l, node, command, (size_t)length, e);
    redisFreeCommand(command);
    if (code == ERR_OK)
        code = link_reply(l, node, out, e);
    if (code == ERR_OK && *out != NULL && (*out)->type == REDIS_REPLY_ERROR) {
        code = link_refusal(l, node, *out, e);
        freeReplyObject(*out);
        *out = NULL;
    }
    return code;
}

void link_forget(struct link *l)
{
    for (unsigned i = 0; i < l->nodes->count; i++) {
        struct peer *p = &l->peer[i];
        if (p->pending > 0 && p->context != NULL) {
            redisFree(p->context);
            p->context = NULL;
        }
        p->pending = p->failed = 0;
    }
}
