/* SPDX-License-Identifier: MIT */
/* The happy path is async_client_send_together(): connected, append, the loop writes. Possible failure modes
 * are: no connection (0, until the timer has made one), a connection that is refused or times out, a node
 * that refuses certificate, login or database, a connection that is reset, a node that is stopped and does
 * not answer (a PING behind the pending commands exceeds its deadline). In each case the callbacks get NULL.
 */
#include "shard/redis/async_client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "shard/redis/nodes/health.h"

enum {
    TICK_MS = 50,
    BACKOFF_MIN_US = 20 * 1000,
    BACKOFF_MAX_US = 500 * 1000,
    REPLICATION_US = 450 * 1000 /* how often a connection asks whether its node is still a master */
};

/* --- a node's connection --- */

void async_client_peer_init(struct async_client_peer *p, struct async_client *s, const struct node *node)
{
    *p = (struct async_client_peer){.async = s, .node = *node, .backoff = BACKOFF_MIN_US};
}

/* Let the node's health count this loop among those that have no connection, or not. */
static void report(struct async_client_peer *p, bool down)
{
    if (p->is_reported != down)
        node_health_down(p->async->nodes, &p->node, down);
    p->is_reported = down;
}

void async_client_peer_fini(struct async_client_peer *p)
{
    struct async_connection *connection = p->connection;
    p->connection = NULL;
    async_connection_close(connection);
    async_client_acks_fini(p);
    report(p, false);
}

/* A pause between half of @pause and all of it, so that loops and coordinators do not reconnect all at
 * once. */
static uint64_t with_jitter(uint64_t pause)
{
    return pause / 2 + random_u64() % (pause / 2 + 1);
}

static void peer_down(struct async_client_peer *p, const char *why)
{
    uint64_t now = clock_mono_us();
    report(p, true);
    if (p->down_since == 0) {
        p->down_since = now;
        p->backoff = BACKOFF_MIN_US;
        log_warn("redis_down", "node=%s error=%s", p->node.name, log_quote(why));
    }
    (void)snprintf(p->why, sizeof(p->why), "%s", why);
    p->next_attempt = now + with_jitter(p->backoff);
    p->backoff = p->backoff * 2 < BACKOFF_MAX_US ? p->backoff * 2 : BACKOFF_MAX_US;
    p->ping_pending = false;
    if (p->async->route != NULL)
        async_client_route_lost(p->async);
}

static void peer_up(struct async_client_peer *p)
{
    report(p, false);
    if (p->down_since == 0)
        return;
    log_info("redis_up", "node=%s", p->node.name);
    p->down_since = 0;
    p->why[0] = '\0';
}

/* Close the connection from our side. Callbacks get NULL, and find no connection. */
static void peer_drop(struct async_client_peer *p, const char *why)
{
    struct async_connection *connection = p->connection;
    p->connection = NULL;
    node_health_failed(p->async->nodes, &p->node, why);
    peer_down(p, why);
    async_connection_close(connection);
}

static void drop_slow(struct async_client_peer *p)
{
    char why[128];
    (void)snprintf(why, sizeof(why), "no connection within the deadline: still waiting for %s",
                   async_connection_waits_for(p->connection));
    peer_drop(p, why);
}

static void on_ready(void *arg)
{
    struct async_client_peer *p = arg;
    if (p->had_one)
        node_health_reconnected(p->async->nodes, &p->node);
    p->had_one = true;
    p->replication_at = clock_mono_us();
    peer_up(p);
}

static void on_closed(void *arg, enum err code, const char *why)
{
    (void)code;
    struct async_client_peer *p = arg;
    p->connection = NULL;
    peer_down(p, why);
}

static void peer_connect(struct async_client_peer *p)
{
    uint64_t now = clock_mono_us();
    if (p->async->closing || now < p->next_attempt)
        return;
    const struct async_connection_events events = {
        .ready = on_ready, .closed = on_closed, .arg = p, .replying_since = &p->async->replying_since};
    p->since = now;
    p->ping_pending = false;
    p->connection =
        async_connection_open(p->async->base, p->async->nodes, &p->node, "twinbloom-worker", &events);
    if (p->connection == NULL)
        peer_down(p, "out of memory");
}

static void on_ping(void *arg, const redisReply *reply)
{
    struct async_client_peer *p = arg;
    if (reply != NULL)
        p->ping_pending = false;
}

static void watch_connection(struct async_client_peer *p, uint64_t now)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    bool late = now - p->since > (uint64_t)p->async->timeout_ms * 1000;
    async_client_acks_tick(p, now);
    if (p->connection != NULL && async_connection_is_past(p->connection)) {
        peer_drop(p, "the sentinels name another master");
    } else if (p->connection == NULL && p->down_since != 0) {
        peer_connect(p);
    } else if (p->connection == NULL) {
        return;
    } else if (!async_connection_is_ready(p->connection)) {
        if (late)
            drop_slow(p);
    } else if (p->ping_pending) {
        if (late)
            peer_drop(p, "no reply within the deadline");
    } else if (async_connection_pending(p->connection) > 0) {
        p->since = now;
        p->ping_pending = async_connection_send(p->connection, ping, sizeof(ping) - 1, on_ping, p);
    }
}

void async_client_peer_tick(struct async_client_peer *p, uint64_t now)
{
    watch_connection(p, now);
    if (p->connection == NULL || !async_connection_is_ready(p->connection) ||
        now - p->replication_at < REPLICATION_US)
        return;
    p->replication_at = now;
    async_connection_ask_replication(p->connection);
}

static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct async_client *s = arg;
    uint64_t now = clock_mono_us();
    for (unsigned i = 0; i < s->nodes->count; i++)
        async_client_peer_tick(&s->peer[i], now);
    if (s->route != NULL)
        async_client_route_tick(s, now);
}

/* --- the store --- */

struct async_client *async_client_new(struct event_base *base, const struct nodes *nodes, unsigned timeout_ms,
                                      struct latency *latency)
{
    struct async_client *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->base = base;
    s->nodes = nodes;
    s->timeout_ms = timeout_ms;
    s->latency = latency;
    s->peer = calloc(nodes->count + 1, sizeof(*s->peer));
    if (nodes->cluster != NULL)
        s->route = async_client_route_new();
    for (unsigned i = 0; s->peer != NULL && i < nodes->count; i++)
        async_client_peer_init(&s->peer[i], s, &nodes->node[i]);
    struct timeval tick = {.tv_usec = TICK_MS * 1000};
    s->timer = event_new(base, -1, EV_PERSIST, on_tick, s);
    if (s->peer == NULL || (nodes->cluster != NULL && s->route == NULL) || s->timer == NULL ||
        event_add(s->timer, &tick) != 0) {
        async_client_free(s);
        return NULL;
    }
    return s;
}

void async_client_free(struct async_client *s)
{
    if (s == NULL)
        return;
    s->closing = true;
    for (unsigned i = 0; s->peer != NULL && i < s->nodes->count; i++)
        async_client_peer_fini(&s->peer[i]);
    if (s->route != NULL)
        async_client_route_free(s);
    if (s->timer != NULL)
        event_free(s->timer);
    free(s->peer);
    free(s);
}

/* --- how long Redis takes --- */

/* The command was answered, or it was given up: then the time until that counts. Of many short waits one is
 * recorded every LATENCY_INTERVAL_US, a long one always. */
static void on_sample(void *arg, const redisReply *reply)
{
    struct async_client_peer *p = arg;
    async_client_reply_fn *fn = p->sample_fn;
    void *fn_arg = p->sample_arg;
    uint64_t now = clock_mono_us();
    p->sampling = false;
    if (now - p->sampled_at >= LATENCY_INTERVAL_US) {
        latency_record(p->async->latency, now, now - p->sample_sent);
        node_health_took(p->async->nodes, &p->node, now - p->sample_sent);
        p->sampled_at = now;
    }
    fn(fn_arg, reply);
}

static bool send_sample(struct async_client_peer *p, const char *command, size_t length,
                        async_client_reply_fn *fn, void *arg)
{
    p->sample_fn = fn;
    p->sample_arg = arg;
    p->sample_sent = clock_mono_us();
    p->sampling = async_connection_send(p->connection, command, length, on_sample, p);
    return p->sampling;
}

bool async_client_peer_ready(struct async_client_peer *p)
{
    if (p->connection == NULL)
        peer_connect(p);
    /* A node that is down must be up first: a command sent now would wait, and fail in the end. */
    return p->connection != NULL && p->down_since == 0;
}

bool async_client_peer_send(struct async_client_peer *p, const char *command, size_t length,
                            async_client_reply_fn *fn, void *arg)
{
    if (p->async->latency != NULL && !p->sampling)
        return send_sample(p, command, length, fn, arg);
    return async_connection_send(p->connection, command, length, fn, arg);
}

unsigned async_client_peer_send_together(struct async_client_peer *p, bool asks, unsigned count,
                                         const char *commands, const size_t *ends, async_client_reply_fn *fn,
                                         void *arg)
{
    unsigned sent = 0;
    size_t begin = 0;
    while (sent < count &&
           (!asks || async_connection_send(p->connection, slots_asking, strlen(slots_asking), NULL, NULL)) &&
           async_client_peer_send(p, commands + begin, ends[sent] - begin, fn, arg))
        begin = ends[sent++];
    return sent;
}

unsigned async_client_send_together(struct async_client *s, unsigned where, struct slot_redirect *redirect,
                                    unsigned count, const char *commands, const size_t *ends,
                                    async_client_reply_fn *fn, void *arg)
{
    if (where >= WHERE_SLOT)
        return async_client_route_send_together(s, where, redirect, count, commands, ends, fn, arg);
    assert(where < s->nodes->count);
    struct async_client_peer *p = &s->peer[where];
    return async_client_peer_ready(p)
               ? async_client_peer_send_together(p, false, count, commands, ends, fn, arg)
               : 0;
}

uint64_t async_client_replying_since(const struct async_client *s)
{
    return s->replying_since;
}

/* --- what it knows of its nodes --- */

/* The @i-th peer: those of the list of nodes, then those of the cluster. NULL: there are no more. */
static struct async_client_peer *each_peer(const struct async_client *s, unsigned i)
{
    if (i < s->nodes->count)
        return &s->peer[i];
    return s->route == NULL ? NULL : async_client_route_each(s, i - s->nodes->count);
}

void async_client_rest(struct async_client *s)
{
    struct async_client_peer *p;
    for (unsigned i = 0; (p = each_peer(s, i)) != NULL; i++)
        report(p, false);
    if (s->route != NULL)
        async_client_route_rest(s);
}

/* NULL: the cluster's node for @where is unknown; *why says why. */
static const struct async_client_peer *peer_at(const struct async_client *s, unsigned where, const char **why)
{
    *why = "";
    return where < WHERE_SLOT ? &s->peer[where] : async_client_route_peer(s, where, why);
}

const char *async_client_why(const struct async_client *s, unsigned where)
{
    const char *why;
    const struct async_client_peer *p = peer_at(s, where, &why);
    return p == NULL ? why : p->why;
}

const char *async_client_name(const struct async_client *s, unsigned where)
{
    const char *why;
    const struct async_client_peer *p = peer_at(s, where, &why);
    return p == NULL ? "of the cluster" : p->node.name;
}

const struct nodes *async_client_nodes(const struct async_client *s)
{
    return s->nodes;
}

bool async_client_any_down(const struct async_client *s, const char **name, const char **why)
{
    const struct async_client_peer *p;
    for (unsigned i = 0; (p = each_peer(s, i)) != NULL; i++)
        if (p->down_since != 0) {
            *name = p->node.name;
            *why = p->why;
            return true;
        }
    if (s->route == NULL || !async_client_route_is_blind(s))
        return false;
    *name = "of the cluster";
    (void)async_client_route_peer(s, WHERE_SLOT, why);
    return true;
}
