/* SPDX-License-Identifier: MIT */
/* The happy path is: connect, SUBSCRIBE, then messages for ever. Possible failure modes are: the connection
 * breaks (read fails), it dies without a word (a PING after a silence is not answered), this user may not
 * subscribe (an error reply). In each the subscription is over and says so. */
#include "shard/events.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/link.h"
#include "shard/names.h"

enum { SILENCE_US = 5 * 1000 * 1000 };

struct events {
    redisContext *context;
    redisReply *held; /* the message that was given out last */
    uint64_t timeout_us;
    uint64_t heard_at; /* anything */
    uint64_t asked_at; /* PING without an answer; 0: none */
    char node[NODE_NAME_MAX];
};

void events_close(struct events *s)
{
    if (s == NULL)
        return;
    freeReplyObject(s->held);
    if (s->context != NULL)
        redisFree(s->context);
    free(s);
}

static enum err subscribe(struct events *s, const char *prefix, struct error *e)
{
    errno = 0;
    redisReply *r = redisCommand(s->context, "SUBSCRIBE %s:events", prefix);
    if (r == NULL) {
        bool timeout = errno == EAGAIN || errno == EWOULDBLOCK;
        return error_set(e, timeout ? ERR_TIMEOUT : ERR_UNREACHABLE, "Redis node %s: %s", s->node,
                         timeout ? "no reply to SUBSCRIBE within the deadline" : s->context->errstr);
    }
    enum err code = ERR_OK;
    if (r->type == REDIS_REPLY_ERROR)
        code = error_set(e, ERR_REFUSED, "Redis node %s: %s", s->node, r->str);
    freeReplyObject(r);
    return code;
}

enum err events_open(struct events **out, const struct nodes *nodes, const char *prefix, unsigned timeout_ms,
                     struct error *e)
{
    const struct node *home = &nodes->node[NODE_HOME];
    struct events *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->timeout_us = (uint64_t)timeout_ms * 1000;
    (void)snprintf(s->node, sizeof(s->node), "%s", home->name);
    enum err code = link_connect(&s->context, home, "twinbloom-events", timeout_ms, e);
    if (code == ERR_OK)
        code = subscribe(s, prefix, e);
    if (code != ERR_OK) {
        events_close(s);
        return code;
    }
    s->heard_at = clock_mono_us();
    *out = s;
    return ERR_OK;
}

/* --- messages --- */

static bool begins(const redisReply *r, const char *word, size_t length)
{
    return r->type == REDIS_REPLY_STRING && (size_t)r->len > length && memcmp(r->str, word, length) == 0;
}

/* {"message", channel, payload}; anything else (the answer to a PING, a word of a later version) is passed
 * over. */
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

static enum err broken(const struct events *s, const char *why, struct error *e)
{
    return error_set(e, ERR_UNREACHABLE, "Redis node %s: the subscription broke: %s", s->node, why);
}

/* What has been read already. *@found: *@out is filled. */
static enum err take_buffered(struct events *s, bool *found, struct events_message *out, struct error *e)
{
    *found = false;
    for (;;) {
        freeReplyObject(s->held);
        s->held = NULL;
        void *reply = NULL;
        if (redisGetReplyFromReader(s->context, &reply) != REDIS_OK)
            return broken(s, s->context->errstr, e);
        s->held = reply;
        if (reply == NULL)
            return ERR_OK;
        *found = is_message(reply, out);
        if (*found)
            return ERR_OK;
    }
}

/* A connection that nothing comes from may be dead: ask. */
static enum err keep_alive(struct events *s, uint64_t now, struct error *e)
{
    int done = 0;
    if (s->asked_at != 0)
        return now - s->asked_at < s->timeout_us ? ERR_OK : broken(s, "no answer to PING", e);
    if (now - s->heard_at < SILENCE_US)
        return ERR_OK;
    s->asked_at = now;
    if (redisAppendCommand(s->context, "PING") != REDIS_OK)
        return broken(s, s->context->errstr, e);
    while (!done)
        if (redisBufferWrite(s->context, &done) != REDIS_OK)
            return broken(s, s->context->errstr, e);
    return ERR_OK;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Wait until there is something to read, or to be done. */
static enum err wait_readable(struct events *s, int wake_fd, uint64_t deadline_us, struct error *e)
{
    uint64_t now = clock_mono_us();
    if (now >= deadline_us)
        return error_set(e, ERR_TIMEOUT, "no message within the deadline");
    enum err code = keep_alive(s, now, e);
    if (code != ERR_OK)
        return code;
    uint64_t until =
        least(deadline_us, s->asked_at != 0 ? s->asked_at + s->timeout_us : s->heard_at + SILENCE_US);
    uint64_t ms = until > now ? (until - now + 999) / 1000 : 0;
    struct pollfd fds[2] = {{.fd = s->context->fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    int ready = poll(fds, 2, (int)least(ms, 60 * 1000));
    if (ready < 0 && errno != EINTR)
        return broken(s, strerror(errno), e);
    if (ready <= 0)
        return ERR_OK;
    if (fds[1].revents != 0)
        return error_set(e, ERR_CANCELLED, "asked to stop waiting");
    if (redisBufferRead(s->context) != REDIS_OK)
        return broken(s, s->context->errstr, e);
    s->heard_at = clock_mono_us();
    s->asked_at = 0;
    return ERR_OK;
}

enum err events_next(struct events *s, int wake_fd, uint64_t deadline_us, struct events_message *out,
                     struct error *e)
{
    for (;;) {
        bool found;
        enum err code = take_buffered(s, &found, out, e);
        if (code != ERR_OK || found)
            return code;
        code = wait_readable(s, wake_fd, deadline_us, e);
        if (code != ERR_OK)
            return code;
    }
}
