/* SPDX-License-Identifier: MIT */
/* The happy path is store_send(): connected, append, the loop writes. Possible failure modes are: no
 * connection (false, until one has been made by the timer), connect refused or timed out, a certificate,
 * login or database that the node refuses, connection reset, a node that is stopped and does not answer (a
 * PING behind the pending commands passes its deadline). In each the callbacks get NULL. */
#include "shard/redis/store_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "shard/redis/nodes/health.h"

/* LINEAGE_US: a node may be demoted and promoted again under a connection that lives on. DOUBT_US: there is a
 * reason to think so. */
enum {
    TICK_MS = 50,
    BACKOFF_MIN_US = 20 * 1000,
    BACKOFF_MAX_US = 500 * 1000,
    LINEAGE_US = 450 * 1000,
    DOUBT_US = 20 * 1000
};

/* --- a node's connection --- */

void store_peer_init(struct store_peer *p, struct store *s, const struct node *node)
{
    *p = (struct store_peer){.store = s, .node = *node, .backoff = BACKOFF_MIN_US};
}

void store_peer_fini(struct store_peer *p)
{
    struct channel *channel = p->channel;
    p->channel = NULL;
    channel_close(channel);
    store_acks_fini(p);
    if (p->down_since != 0)
        node_health_down(p->store->nodes, &p->node, false);
}

/* Loops, and coordinators, do not come back all at once: between half of the pause and the whole. */
static uint64_t with_jitter(uint64_t pause)
{
    return pause / 2 + random_u64() % (pause / 2 + 1);
}

static void peer_down(struct store_peer *p, const char *why)
{
    uint64_t now = clock_mono_us();
    if (p->down_since == 0) {
        p->down_since = now;
        p->backoff = BACKOFF_MIN_US;
        node_health_down(p->store->nodes, &p->node, true);
        log_warn("redis_down", "node=%s error=%s", p->node.name, log_quote(why));
    }
    (void)snprintf(p->why, sizeof(p->why), "%s", why);
    p->next_attempt = now + with_jitter(p->backoff);
    p->backoff = p->backoff * 2 < BACKOFF_MAX_US ? p->backoff * 2 : BACKOFF_MAX_US;
    p->ping_pending = false;
    if (p->store->route != NULL)
        store_route_lost(p->store);
}

static void peer_up(struct store_peer *p)
{
    if (p->down_since == 0)
        return;
    log_info("redis_up", "node=%s", p->node.name);
    node_health_down(p->store->nodes, &p->node, false);
    p->down_since = 0;
    p->why[0] = '\0';
}

/* Close from our side: callbacks run with NULL, and find no connection. */
static void peer_drop(struct store_peer *p, const char *why)
{
    struct channel *channel = p->channel;
    p->channel = NULL;
    node_health_failed(p->store->nodes, &p->node, why);
    peer_down(p, why);
    channel_close(channel);
}

static void drop_slow(struct store_peer *p)
{
    char why[128];
    (void)snprintf(why, sizeof(why), "no connection within the deadline: still waiting for %s",
                   channel_waits_for(p->channel));
    peer_drop(p, why);
}

static void on_ready(void *arg)
{
    struct store_peer *p = arg;
    if (p->had_one)
        node_health_reconnected(p->store->nodes, &p->node);
    p->had_one = true;
    p->lineage_at = clock_mono_us();
    peer_up(p);
}

static void on_closed(void *arg, enum err code, const char *why)
{
    (void)code;
    struct store_peer *p = arg;
    p->channel = NULL;
    peer_down(p, why);
}

static void peer_connect(struct store_peer *p)
{
    uint64_t now = clock_mono_us();
    if (p->store->closing || now < p->next_attempt)
        return;
    const struct channel_events events = {
        .ready = on_ready, .closed = on_closed, .arg = p, .replying = &p->store->replying};
    p->since = now;
    p->ping_pending = false;
    p->channel = channel_open(p->store->base, p->store->nodes, &p->node, "twinbloom-worker", &events);
    if (p->channel == NULL)
        peer_down(p, "out of memory");
}

static void on_ping(void *arg, const redisReply *reply)
{
    struct store_peer *p = arg;
    if (reply != NULL)
        p->ping_pending = false;
}

static void ask_lineage(struct store_peer *p, uint64_t now, uint64_t after_us)
{
    if (p->channel == NULL || !channel_is_ready(p->channel) || now - p->lineage_at < after_us)
        return;
    p->lineage_at = now;
    channel_ask_lineage(p->channel);
}

void store_peer_doubt(struct store_peer *p)
{
    ask_lineage(p, clock_mono_us(), DOUBT_US);
}

static void watch_connection(struct store_peer *p, uint64_t now)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    bool late = now - p->since > (uint64_t)p->store->timeout_ms * 1000;
    store_acks_tick(p, now);
    if (p->channel != NULL && channel_is_past(p->channel)) {
        peer_drop(p, "the sentinels name another master");
    } else if (p->channel == NULL && p->down_since != 0) {
        peer_connect(p);
    } else if (p->channel == NULL) {
        return;
    } else if (!channel_is_ready(p->channel)) {
        if (late)
            drop_slow(p);
    } else if (p->ping_pending) {
        if (late)
            peer_drop(p, "no reply within the deadline");
    } else if (channel_pending(p->channel) > 0) {
        p->since = now;
        p->ping_pending = channel_send(p->channel, ping, sizeof(ping) - 1, on_ping, p);
    }
}

void store_peer_tick(struct store_peer *p, uint64_t now)
{
    watch_connection(p, now);
    if (p->channel != NULL)
        ask_lineage(p, now, channel_lineage(p->channel) == 0 ? DOUBT_US : LINEAGE_US);
}

static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct store *s = arg;
    uint64_t now = clock_mono_us();
    for (unsigned i = 0; i < s->nodes->count; i++)
        store_peer_tick(&s->peer[i], now);
    if (s->route != NULL)
        store_route_tick(s, now);
}

/* --- the store --- */

struct store *store_new(struct event_base *base, const struct nodes *nodes, unsigned timeout_ms,
                        struct latency *latency)
{
    struct store *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->base = base;
    s->nodes = nodes;
    s->timeout_ms = timeout_ms;
    s->latency = latency;
    s->peer = calloc(nodes->count + 1, sizeof(*s->peer));
    if (nodes->cluster != NULL)
        s->route = store_route_new();
    for (unsigned i = 0; s->peer != NULL && i < nodes->count; i++)
        store_peer_init(&s->peer[i], s, &nodes->node[i]);
    struct timeval tick = {.tv_usec = TICK_MS * 1000};
    s->timer = event_new(base, -1, EV_PERSIST, on_tick, s);
    if (s->peer == NULL || (nodes->cluster != NULL && s->route == NULL) || s->timer == NULL ||
        event_add(s->timer, &tick) != 0) {
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
    for (unsigned i = 0; s->peer != NULL && i < s->nodes->count; i++)
        store_peer_fini(&s->peer[i]);
    if (s->route != NULL)
        store_route_free(s);
    if (s->timer != NULL)
        event_free(s->timer);
    free(s->peer);
    free(s);
}

/* --- how long Redis takes --- */

/* The command was answered, or given up: then it counts as what was waited for it. Of many short waits one
 * every interval is recorded, a long one always. */
static void on_sample(void *arg, const redisReply *reply)
{
    struct store_peer *p = arg;
    store_reply_fn *fn = p->sample_fn;
    void *fn_arg = p->sample_arg;
    uint64_t now = clock_mono_us();
    p->sampling = false;
    if (now - p->sampled_at >= LATENCY_INTERVAL_US) {
        latency_record(p->store->latency, now, now - p->sample_sent);
        node_health_took(p->store->nodes, &p->node, now - p->sample_sent);
        p->sampled_at = now;
    }
    fn(fn_arg, reply);
}

static bool send_sample(struct store_peer *p, const char *command, size_t length, store_reply_fn *fn,
                        void *arg)
{
    p->sample_fn = fn;
    p->sample_arg = arg;
    p->sample_sent = clock_mono_us();
    p->sampling = channel_send(p->channel, command, length, on_sample, p);
    return p->sampling;
}

bool store_peer_ready(struct store_peer *p)
{
    if (p->channel == NULL)
        peer_connect(p);
    /* One that is down must be up first: what is sent to it now would wait, and fail in the end. */
    return p->channel != NULL && p->down_since == 0;
}

bool store_peer_send(struct store_peer *p, const char *command, size_t length, store_reply_fn *fn, void *arg)
{
    if (p->store->latency != NULL && !p->sampling)
        return send_sample(p, command, length, fn, arg);
    return channel_send(p->channel, command, length, fn, arg);
}

unsigned store_peer_send_together(struct store_peer *p, unsigned count, const char *commands,
                                  const size_t *ends, store_reply_fn *fn, void *arg)
{
    unsigned sent = 0;
    size_t begin = 0;
    while (sent < count && store_peer_send(p, commands + begin, ends[sent] - begin, fn, arg))
        begin = ends[sent++];
    return sent;
}

unsigned store_send_together(struct store *s, unsigned where, struct slot_redirect *redirect, unsigned count,
                             const char *commands, const size_t *ends, store_reply_fn *fn, void *arg)
{
    if (where >= WHERE_SLOT)
        return store_route_send_together(s, where, redirect, count, commands, ends, fn, arg);
    assert(where < s->nodes->count);
    struct store_peer *p = &s->peer[where];
    return store_peer_ready(p) ? store_peer_send_together(p, count, commands, ends, fn, arg) : 0;
}

bool store_send(struct store *s, unsigned where, const char *command, size_t length, store_reply_fn *fn,
                void *arg)
{
    if (where >= WHERE_SLOT)
        return store_route_send(s, where, command, length, fn, arg);
    assert(where < s->nodes->count);
    struct store_peer *p = &s->peer[where];
    return store_peer_ready(p) && store_peer_send(p, command, length, fn, arg);
}

uint64_t store_replying_since(const struct store *s)
{
    return s->replying.since;
}
