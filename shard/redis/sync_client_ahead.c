/* SPDX-License-Identifier: MIT */
#include "shard/redis/ahead.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "shard/redis/sync_client_internal.h"
#include "shard/redis/wire/greeting.h"

bool ahead_begin(struct sync_client *l)
{
    if (l->pins > 0 || !TAILQ_EMPTY(&l->all))
        return false;
    sync_client_begin_pin(l);
    l->ahead.is_open = true;
    l->ahead.fails = false;
    return true;
}

unsigned ahead_masters(const struct sync_client *l)
{
    return l->route == NULL ? l->nodes->count : l->ahead.fails ? 0 : l->route->masters;
}

static struct sync_client_peer *peer_of(struct sync_client *l, unsigned where)
{
    return l->route == NULL ? &l->peer[where] : l->route->master[where & ~(unsigned)WHERE_MASTER];
}

/* --- asking --- */

/* Sends nothing: all users get one reply. */
static void ask_shared(struct sync_client *l, unsigned user, unsigned where, enum sync_client_kind kind)
{
    const char *bytes = kind == ASKS_ROLE ? greeting_ask_replication : "";
    struct sync_client_command *c = sync_client_command_new(l, where, bytes, strlen(bytes));
    l->ahead.fails |= c == NULL;
    if (c == NULL)
        return;
    c->user = user;
    c->kind = kind;
    c->state = COMMAND_ANSWERED;
    if (kind == ASKS_ROLE)
        peer_of(l, where)->wants_role = true;
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
    if (sync_client_is_role_asked(l, where))
        ask_shared(l, user, where, ASKS_ROLE);
}

void ahead_ask_masters(struct sync_client *l, unsigned user)
{
    if (l->route != NULL)
        ask_shared(l, user, 0, ASKS_MASTERS);
}

void ahead_ask_replications(struct sync_client *l, unsigned user)
{
    ahead_ask_masters(l, user);
    for (unsigned i = 0; i < ahead_masters(l); i++) {
        ask_shared(l, user, sync_client_master(l, i), ASKS_ROLE);
        ask_shared(l, user, sync_client_master(l, i), ASKS_ROLE); /* of whoever has answered that */
    }
}

/* Also where one failed: who then asks for itself must not get a reply that was asked for ahead. */
static void read_all(struct sync_client *l)
{
    struct sync_client_command *c;
    while ((c = TAILQ_FIRST(&l->all)) != NULL) {
        while (c->state == COMMAND_SENT)
            (void)sync_client_read_one(l, c->peer, NULL);
        l->ahead.fails |= c->state != COMMAND_ANSWERED;
        TAILQ_REMOVE(&l->all, c, all);
        TAILQ_INSERT_TAIL(&l->ahead.read, c, all);
    }
}

void ahead_read(struct sync_client *l)
{
    unsigned count;
    read_all(l);
    if (l->route != NULL && !l->ahead.fails)
        l->ahead.fails = sync_client_route_masters(l, &count, NULL) != ERR_OK;
}

void ahead_close(struct sync_client *l)
{
    read_all(l);
    unsigned masters = l->ahead.fails ? 0 : ahead_masters(l);
    for (unsigned i = 0; i < masters; i++)
        if (peer_of(l, i)->wants_role)
            l->ahead.fails |= sync_client_send_role(l, sync_client_master(l, i), NULL) != ERR_OK;
    for (unsigned i = 0; i < masters; i++) /* one that was not sent has none */
        if (peer_of(l, i)->wants_role)
            l->ahead.fails |=
                sync_client_reply(l, sync_client_master(l, i), &peer_of(l, i)->role, NULL) != ERR_OK;
}

/* --- using --- */

void ahead_use(struct sync_client *l, unsigned user)
{
    l->ahead.uses = l->ahead.fails ? 0 : user;
}

/* NULL: no memory, or it is no text. */
static redisReply *copy(const redisReply *text)
{
    redisReply *r = text == NULL || text->str == NULL ? NULL : calloc(1, sizeof(*r));
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

/* What @l->ahead.uses asked for next; NULL: nothing more. */
static struct sync_client_command *next(const struct sync_client *l)
{
    struct sync_client_command *c;
    TAILQ_FOREACH(c, &l->ahead.read, all)
    if (c->user == l->ahead.uses)
        break;
    return c;
}

bool sync_client_take_ahead(struct sync_client *l, unsigned where, const char *bytes, size_t length)
{
    struct sync_client_command *c = next(l);
    bool is_it = c != NULL && c->where == where && c->length == length && c->kind != ASKS_MASTERS &&
                 memcmp(c->bytes, bytes, length) == 0;
    if (is_it && c->kind == ASKS_ROLE)
        is_it = (c->reply = copy(peer_of(l, where)->role)) != NULL;
    if (!is_it) {
        l->ahead.uses = 0;
        return false;
    }
    TAILQ_REMOVE(&l->ahead.read, c, all);
    TAILQ_INSERT_TAIL(&l->all, c, all);
    return true;
}

bool sync_client_take_masters_ahead(struct sync_client *l)
{
    struct sync_client_command *c = next(l);
    if (c == NULL || c->kind != ASKS_MASTERS)
        return false;
    sync_client_command_free(&l->ahead.read, c);
    return true;
}

static void forget_role(struct sync_client_peer *p)
{
    freeReplyObject(p->role);
    p->role = NULL;
    p->wants_role = false;
}

void ahead_end(struct sync_client *l)
{
    sync_client_forget(l);
    while (!TAILQ_EMPTY(&l->ahead.read))
        sync_client_command_free(&l->ahead.read, TAILQ_FIRST(&l->ahead.read));
    for (unsigned i = 0; i < l->nodes->count; i++)
        forget_role(&l->peer[i]);
    for (unsigned i = 0; l->route != NULL && i < l->route->count; i++)
        forget_role(l->route->peer[i]);
    l->ahead.uses = 0;
    l->ahead.is_open = false;
}

void ahead_each(struct sync_client *l, size_t count, ahead_ask_fn *ask, ahead_use_fn *use, void *arg)
{
    bool goes_on = true;
    for (size_t from = 0; from < count && goes_on; from += AHEAD_GROUP) {
        unsigned users = count - from < AHEAD_GROUP ? (unsigned)(count - from) : AHEAD_GROUP;
        sync_client_forget(l);
        bool begun = ahead_begin(l);
        assert(begun);
        (void)begun;
        for (unsigned i = 0; i < users; i++)
            ask(arg, from + i, i + 1);
        ahead_close(l);
        for (unsigned i = 0; i < users && goes_on; i++) {
            ahead_use(l, i + 1);
            goes_on = use(arg, from + i);
        }
        ahead_end(l);
    }
}
