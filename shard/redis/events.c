/* SPDX-License-Identifier: MIT */
/* The happy path is: connect, SUBSCRIBE, then messages for ever. Possible failure modes are: the connection
 * breaks (a read fails), it dies silently (a PING after a silence is not answered), this user may not
 * subscribe (an error reply). In each case the subscription has ended and says so. */
#include "shard/redis/events.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/random.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/sync_connection.h"
#include "shard/filter/names.h"

enum { SILENCE_US = 5 * 1000 * 1000 };

struct events {
    struct sync_connection *connection;
    redisReply *held; /* the message that was returned last */
    uint64_t timeout_us;
    uint64_t asked_at; /* clock_mono_us() of a PING without an answer; 0: none */
    struct node node;
};

void events_close(struct events *s)
{
    if (s == NULL)
        return;
    freeReplyObject(s->held);
    sync_connection_close(s->connection);
    free(s);
}

static enum err subscribe(struct events *s, const char *prefix, struct error *e)
{
    char channel[PREFIX_MAX + sizeof(":events")];
    redisReply *r = NULL;
    (void)snprintf(channel, sizeof(channel), "%s:events", prefix);
    enum err code =
        sync_connection_append_words(s->connection, 2, (const char *const[]){"SUBSCRIBE", channel}, e);
    if (code == ERR_OK)
        code = sync_connection_reply(s->connection, &r, e);
    if (code == ERR_OK && r->type == REDIS_REPLY_ERROR)
        code = error_set(e, ERR_REFUSED, "Redis node %s: %s", s->node.name, r->str);
    freeReplyObject(r);
    return code;
}

static enum err hear(struct events *s, const struct nodes *nodes, unsigned timeout_ms, const char *prefix,
                     struct error *e)
{
    enum err code =
        sync_connection_open(&s->connection, nodes, &s->node, "twinbloom-events", timeout_ms, timeout_ms, e);
    if (code != ERR_OK)
        return code;
    code = subscribe(s, prefix, e);
    if (code != ERR_OK) {
        sync_connection_close(s->connection);
        s->connection = NULL;
    }
    return code;
}

/* A cluster passes messages to all its nodes: any node will do, and the next one if that fails. */
static enum err hear_any(struct events *s, const struct nodes *nodes, unsigned timeout_ms, const char *prefix,
                         struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)timeout_ms * 1000;
    unsigned turn = (unsigned)random_u64(), count = 1;
    enum err code = ERR_UNREACHABLE;
    s->node = nodes->node[NODE_HOME];
    if (nodes->cluster == NULL)
        return hear(s, nodes, timeout_ms, prefix, e);
    for (unsigned i = 0; i < count && code != ERR_OK && (i == 0 || clock_mono_us() < until); i++) {
        count = cluster_candidate(nodes->cluster, turn++, &s->node);
        code = hear(s, nodes, timeout_ms / 2 + 1, prefix, e);
    }
    return code;
}

enum err events_open(struct events **out, const struct nodes *nodes, const char *prefix, unsigned timeout_ms,
                     struct error *e)
{
    struct events *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->timeout_us = (uint64_t)timeout_ms * 1000;
    enum err code = hear_any(s, nodes, timeout_ms, prefix, e);
    if (code != ERR_OK) {
        events_close(s);
        return code;
    }
    *out = s;
    return ERR_OK;
}

/* --- messages --- */

static bool begins(const redisReply *r, const char *word, size_t length)
{
    return r->type == REDIS_REPLY_STRING && (size_t)r->len > length && memcmp(r->str, word, length) == 0;
}

/* Parse {"message", channel, payload}. Anything else is skipped: an answer to a PING, a word of a later
 * version. */
static bool is_message(const redisReply *r, struct events_message *out)
{
    static const char view[] = "view ", released[] = "released ";
    if (r->type != REDIS_REPLY_ARRAY || r->elements != 3 || r->element[0]->type != REDIS_REPLY_STRING ||
        strcmp(r->element[0]->str, "message") != 0)
        return false;
    const redisReply *payload = r->element[2];
    size_t skip = 0;
    if (begins(payload, view, sizeof(view) - 1)) {
        out->kind = EVENTS_VIEW;
        skip = sizeof(view) - 1;
    } else if (begins(payload, released, sizeof(released) - 1)) {
        out->kind = EVENTS_RELEASED;
        skip = sizeof(released) - 1;
    }
    out->filter = payload->str + skip;
    out->filter_length = (size_t)payload->len - skip;
    return skip != 0;
}

/* Take what has arrived. *@found: *@out is filled. */
static enum err take(struct events *s, bool *found, struct events_message *out, struct error *e)
{
    *found = false;
    for (;;) {
        freeReplyObject(s->held);
        s->held = NULL;
        enum err code = sync_connection_poll(s->connection, &s->held, e);
        if (code != ERR_OK)
            return error_prefix(e, ERR_UNREACHABLE, "the subscription broke");
        if (s->held == NULL)
            return ERR_OK;
        s->asked_at = 0;
        *found = is_message(s->held, out);
        if (*found)
            return ERR_OK;
    }
}

/* Send a PING on a silent connection, which may be dead. */
static enum err keep_alive(struct events *s, uint64_t now, struct error *e)
{
    if (s->asked_at != 0)
        return now - s->asked_at < s->timeout_us
                   ? ERR_OK
                   : error_set(e, ERR_UNREACHABLE, "the subscription broke: Redis node %s: no answer to PING",
                               s->node.name);
    if (now - sync_connection_heard_us(s->connection) < SILENCE_US)
        return ERR_OK;
    s->asked_at = now;
    return sync_connection_append_words(s->connection, 1, (const char *const[]){"PING"}, e);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Wait until there is something to read, or until a PING is due. */
static enum err wait_readable(struct events *s, int wake_fd, uint64_t deadline_us, struct error *e)
{
    uint64_t now = clock_mono_us();
    if (now >= deadline_us)
        return error_set(e, ERR_TIMEOUT, "no message within the deadline");
    enum err code = keep_alive(s, now, e);
    if (code != ERR_OK)
        return code;
    uint64_t quiet_until =
        s->asked_at != 0 ? s->asked_at + s->timeout_us : sync_connection_heard_us(s->connection) + SILENCE_US;
    uint64_t until = least(deadline_us, quiet_until);
    uint64_t ms = until > now ? (until - now + 999) / 1000 : 0;
    struct pollfd fds[2] = {{.fd = sync_connection_fd(s->connection)}, {.fd = wake_fd, .events = POLLIN}};
    fds[0].events = sync_connection_events(s->connection);
    int ready = poll(fds, 2, (int)least(ms, 60 * 1000));
    if (ready < 0 && errno != EINTR)
        return error_set(e, ERR_IO, "poll: %s", strerror(errno));
    if (ready > 0 && fds[1].revents != 0)
        return error_set(e, ERR_CANCELLED, "asked to stop waiting");
    return ERR_OK;
}

enum err events_next(struct events *s, int wake_fd, uint64_t deadline_us, struct events_message *out,
                     struct error *e)
{
    for (;;) {
        bool found;
        enum err code = take(s, &found, out, e);
        if (code != ERR_OK || found)
            return code;
        code = wait_readable(s, wake_fd, deadline_us, e);
        if (code != ERR_OK)
            return code;
    }
}
