/* SPDX-License-Identifier: MIT */
/* The happy path is store_send(): connected, append, the loop writes. Possible failure modes are: no
 * connection and a backoff that has not passed (false), connect refused or timed out, a login or database
 * that the node refuses, connection reset, a node that is stopped and does not answer (a PING behind the
 * pending commands passes its deadline). In each the callbacks get NULL. */
#include "shard/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* The adapter defines static functions for hiredis and expects its internal allocator's name. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#ifndef hi_calloc
#define hi_calloc calloc
#endif
#include <hiredis/adapters/libevent.h>
#pragma GCC diagnostic pop
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

enum { TICK_MS = 50, BACKOFF_MIN_US = 20 * 1000, BACKOFF_MAX_US = 500 * 1000 };

struct peer {
    struct store *store;
    const struct node *node;
    redisAsyncContext *context;
    bool connected;
    bool ping_pending;
    uint64_t since;      /* start of connecting, or when the PING was sent */
    uint64_t down_since; /* 0: not down */
    uint64_t next_attempt;
    uint64_t backoff;
    char why[160];
    /* The command whose wait is measured. */
    bool sampling;
    redisCallbackFn *sample_fn;
    void *sample_arg;
    uint64_t sample_sent;
    uint64_t sampled_at; /* when one was last recorded */
};

struct store {
    struct event_base *base;
    struct latency *latency;
    struct event *timer;
    unsigned timeout_ms;
    unsigned count;
    bool closing;
    struct peer peer[GENERATION_NODES_MAX];
};

static void peer_down(struct peer *p, const char *why)
{
    uint64_t now = clock_mono_us();
    if (p->down_since == 0) {
        p->down_since = now;
        p->backoff = BACKOFF_MIN_US;
        log_warn("redis_down", "node=%s why=%s", p->node->name, log_quote(why));
    }
    (void)snprintf(p->why, sizeof(p->why), "%s", why);
    p->next_attempt = now + p->backoff + random_u64() % (p->backoff / 2);
    p->backoff = p->backoff * 2 < BACKOFF_MAX_US ? p->backoff * 2 : BACKOFF_MAX_US;
    p->connected = p->ping_pending = false;
}

/* Close from our side. Callbacks run with NULL inside redisAsyncFree(); they find no connection. */
static void peer_drop(struct peer *p, const char *why)
{
    redisAsyncContext *context = p->context;
    p->context = NULL;
    context->data = NULL;
    peer_down(p, why);
    redisAsyncFree(context);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct peer *p = context->data;
    if (p == NULL)
        return;
    if (status != REDIS_OK) { /* hiredis frees the context after this */
        p->context = NULL;
        peer_down(p, context->errstr);
        return;
    }
    p->connected = true;
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct peer *p = context->data;
    if (p == NULL)
        return;
    p->context = NULL;
    if (!p->store->closing)
        peer_down(p, status == REDIS_OK ? "closed" : context->errstr);
}

/* A connection without its user or database must not be used: what is behind the login gets NULL. */
static void on_login(redisAsyncContext *context, void *reply, void *arg)
{
    (void)arg;
    const redisReply *r = reply;
    struct peer *p = context->data;
    if (p == NULL || r == NULL || r->type != REDIS_REPLY_ERROR)
        return;
    char why[160];
    (void)snprintf(why, sizeof(why), "%s", r->str);
    peer_drop(p, why);
}

/* The last of the greeting. A user may not be allowed to set a name; that is no harm. */
static void on_named(redisAsyncContext *context, void *reply, void *arg)
{
    const redisReply *r = reply;
    struct peer *p = context->data;
    if (p == NULL || r == NULL)
        return;
    if (r->type == REDIS_REPLY_ERROR && strncmp(r->str, "NOAUTH", 6) == 0) {
        on_login(context, reply, arg);
        return;
    }
    if (p->down_since != 0)
        log_info("redis_up", "node=%s", p->node->name);
    p->down_since = 0;
    p->backoff = BACKOFF_MIN_US;
    p->why[0] = '\0';
}

static bool peer_connect(struct peer *p)
{
    uint64_t now = clock_mono_us();
    if (p->store->closing || now < p->next_attempt)
        return false;
    redisAsyncContext *c = redisAsyncConnect(p->node->host, p->node->port);
    if (c == NULL || c->err != 0) {
        peer_down(p, c == NULL ? "out of memory" : c->errstr);
        if (c != NULL)
            redisAsyncFree(c);
        return false;
    }
    c->data = p;
    p->context = c;
    p->connected = p->ping_pending = false;
    p->since = now;
    (void)redisLibeventAttach(c, p->store->base);
    (void)redisAsyncSetConnectCallback(c, on_connect);
    (void)redisAsyncSetDisconnectCallback(c, on_disconnect);
    if (p->node->password[0] != '\0' && p->node->user[0] != '\0')
        (void)redisAsyncCommand(c, on_login, NULL, "AUTH %s %s", p->node->user, p->node->password);
    else if (p->node->password[0] != '\0')
        (void)redisAsyncCommand(c, on_login, NULL, "AUTH %s", p->node->password);
    if (p->node->database != 0)
        (void)redisAsyncCommand(c, on_login, NULL, "SELECT %u", p->node->database);
    (void)redisAsyncCommand(c, on_named, NULL, "CLIENT SETNAME twinbloom-worker");
    return true;
}

static void on_ping(redisAsyncContext *context, void *reply, void *arg)
{
    (void)arg;
    struct peer *p = context->data;
    if (p != NULL && reply != NULL)
        p->ping_pending = false;
}

static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct store *s = arg;
    uint64_t now = clock_mono_us();
    for (unsigned i = 0; i < s->count; i++) {
        struct peer *p = &s->peer[i];
        if (p->context == NULL)
            continue;
        bool late = now - p->since > (uint64_t)s->timeout_ms * 1000;
        if (!p->connected && late)
            peer_drop(p, "no connection within the deadline");
        else if (p->ping_pending && late)
            peer_drop(p, "no reply within the deadline");
        else if (p->connected && !p->ping_pending && p->context->replies.head != NULL) {
            p->ping_pending = true;
            p->since = now;
            (void)redisAsyncCommand(p->context, on_ping, NULL, "PING");
        }
    }
}

struct store *store_new(struct event_base *base, const struct nodes *nodes, unsigned timeout_ms,
                        struct latency *latency)
{
    struct store *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->base = base;
    s->timeout_ms = timeout_ms;
    s->latency = latency;
    s->count = nodes->count;
    for (unsigned i = 0; i < nodes->count; i++)
        s->peer[i] = (struct peer){.store = s, .node = &nodes->node[i], .backoff = BACKOFF_MIN_US};
    struct timeval tick = {.tv_usec = TICK_MS * 1000};
    s->timer = event_new(base, -1, EV_PERSIST, on_tick, s);
    if (s->timer == NULL || event_add(s->timer, &tick) != 0) {
        store_free(s);
        return NULL;
    }
    return s;
}

void store_free(struct store *s)
{
    if (s == NULL)
        return;
    s->closing = true;
    for (unsigned i = 0; i < s->count; i++) {
        redisAsyncContext *c = s->peer[i].context;
        s->peer[i].context = NULL;
        if (c != NULL) {
            c->data = NULL;
            redisAsyncFree(c);
        }
    }
    if (s->timer != NULL)
        event_free(s->timer);
    free(s);
}

/* --- how long Redis takes --- */

/* The command was answered, or given up: then it counts as what was waited for it. Of many short waits one
 * every interval is recorded, a long one always. */
static void on_sample(redisAsyncContext *context, void *reply, void *arg)
{
    struct peer *p = arg;
    redisCallbackFn *fn = p->sample_fn;
    void *fn_arg = p->sample_arg;
    uint64_t now = clock_mono_us();
    p->sampling = false;
    if (now - p->sampled_at >= LATENCY_INTERVAL_US) {
        latency_record(p->store->latency, now - p->sample_sent);
        p->sampled_at = now;
    }
    if (fn != NULL)
        fn(context, reply, fn_arg);
}

static bool send_sample(struct peer *p, const char *command, size_t length, redisCallbackFn *fn, void *arg)
{
    p->sample_fn = fn;
    p->sample_arg = arg;
    p->sample_sent = clock_mono_us();
    p->sampling = redisAsyncFormattedCommand(p->context, on_sample, p, command, length) == REDIS_OK;
    return p->sampling;
}

bool store_send(struct store *s, unsigned node, const char *command, size_t length, redisCallbackFn *fn,
                void *arg)
{
    struct peer *p = &s->peer[node];
    if (p->context == NULL && !peer_connect(p))
        return false;
    if (s->latency != NULL && !p->sampling)
        return send_sample(p, command, length, fn, arg);
    return redisAsyncFormattedCommand(p->context, fn, arg, command, length) == REDIS_OK;
}

uint64_t store_down_us(const struct store *s, unsigned node)
{
    return s->peer[node].down_since == 0 ? 0 : clock_mono_us() - s->peer[node].down_since;
}

const char *store_why(const struct store *s, unsigned node)
{
    return s->peer[node].why;
}
