/* SPDX-License-Identifier: MIT */
#include "shard/redis/ahead.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "shard/redis/sync_client_internal.h"
#include "shard/redis/wire/greeting.h"

bool ahead_begin(struct sync_client *l)
{
    if (l->route != NULL || !TAILQ_EMPTY(&l->all))
        return false;
    sync_client_pin(l);
    l->ahead.fails = false;
    return true;
}

/* --- asking --- */

/* Sends nothing: the reply is the one to the last command of all. */
static void ask_role(struct sync_client *l, unsigned user, unsigned where)
{
    struct sync_client_command *c =
        sync_client_command_new(l, where, greeting_ask_replication, strlen(greeting_ask_replication));
    l->ahead.fails |= c == NULL;
    if (c == NULL)
        return;
    c->user = user;
    c->is_role = true;
    c->state = COMMAND_ANSWERED;
}

void ahead_ask(struct sync_client *l, unsigned user, unsigned where, const char *format, ...)
{
    char *command = NULL;
    va_list ap;
    va_start(ap, format);
    int length = l->ahead.fails ? -1 : redisvFormatCommand(&command, format, ap);
    va_end(ap);
    l->ahead.asks = user;
    l->ahead.fails |= length < 0 || sync_client_queue(l, where, command, (size_t)length, NULL) != ERR_OK;
    l->ahead.asks = 0;
    if (length >= 0)
        redisFreeCommand(command);
    ask_role(l, user, where);
}

void ahead_ask_replications(struct sync_client *l, unsigned user)
{
    for (unsigned i = 0; i < l->nodes->count; i++) {
        ask_role(l, user, i);
        ask_role(l, user, i); /* the role of whoever has answered that */
    }
}

void ahead_read(struct sync_client *l)
{
    struct sync_client_command *c;
    while (!l->ahead.fails && (c = TAILQ_FIRST(&l->all)) != NULL) {
        while (c->state == COMMAND_SENT)
            (void)sync_client_read_one(l, c->peer, NULL);
        l->ahead.fails = c->state != COMMAND_ANSWERED;
        TAILQ_REMOVE(&l->all, c, all);
        TAILQ_INSERT_TAIL(&l->ahead.read, c, all);
    }
}

void ahead_close(struct sync_client *l)
{
    ahead_read(l);
    for (unsigned i = 0; i < l->nodes->count && !l->ahead.fails; i++)
        l->ahead.fails = sync_client_send_role(l, i, NULL) != ERR_OK;
    for (unsigned i = 0; i < l->nodes->count && !l->ahead.fails; i++)
        l->ahead.fails = sync_client_reply(l, i, &l->peer[i].role, NULL) != ERR_OK;
}

/* --- using --- */

void ahead_use(struct sync_client *l, unsigned user)
{
    l->ahead.uses = l->ahead.fails ? 0 : user;
}

/* NULL: no memory, or it is no text. */
static redisReply *copy(const redisReply *text)
{
    redisReply *r = text->str == NULL ? NULL : calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    r->type = text->type;
    r->len = text->len;
    r->str = malloc(text->len + 1);
    if (r->str == NULL) {
        free(r);
        return NULL;
    }
    memcpy(r->str, text->str, text->len + 1);
    return r;
}

bool sync_client_take_ahead(struct sync_client *l, unsigned where, const char *bytes, size_t length)
{
    struct sync_client_command *c;
    TAILQ_FOREACH(c, &l->ahead.read, all)
    if (c->user == l->ahead.uses)
        break;
    bool is_it =
        c != NULL && c->where == where && c->length == length && memcmp(c->bytes, bytes, length) == 0;
    if (is_it && c->is_role)
        is_it = (c->reply = copy(l->peer[where].role)) != NULL;
    if (!is_it) {
        l->ahead.uses = 0;
        return false;
    }
    TAILQ_REMOVE(&l->ahead.read, c, all);
    TAILQ_INSERT_TAIL(&l->all, c, all);
    return true;
}

void ahead_end(struct sync_client *l)
{
    sync_client_forget(l);
    while (!TAILQ_EMPTY(&l->ahead.read))
        sync_client_command_free(&l->ahead.read, TAILQ_FIRST(&l->ahead.read));
    for (unsigned i = 0; i < l->nodes->count; i++) {
        freeReplyObject(l->peer[i].role);
        l->peer[i].role = NULL;
    }
    l->ahead.uses = 0;
    sync_client_unpin(l);
}
