/* SPDX-License-Identifier: MIT */
/* Replicas of a master that are read from.
 *
 * The happy path is: somebody wants to read, the replicas that the map of slots or the master names are
 * connected to, master and replicas are asked how far they have come, and while a replica is not older than
 * wanted commands go to it, those of one turn of the loop to the same one. Possible failure modes are: no
 * replica, or none that is fresh (false: the caller asks the master), one that breaks or is stopped (NULL, as
 * for any connection, after a fraction of the time that a master is given), one that is none any more, or
 * another's (not used from the next answer on, which comes every half second). Replies are told as they are:
 * whoever asked decides what they prove. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "shard/health.h"
#include "shard/replication.h"
#include "shard/store_internal.h"

enum {
    IDLE_US = 10 * 1000 * 1000,
    MAP_US = 5 * 1000 * 1000, /* between two wishes for another map */
    BACKOFF_MIN_US = 100 * 1000,
    BACKOFF_MAX_US = 2 * 1000 * 1000,
    PATIENCE_MIN_MS = 50,
    PATIENCE_PART = 4 /* of what a master is given */
};

struct store_replica {
    struct store_replica *next;
    struct store_replicas *of;
    struct node node;
    struct channel *channel;
    bool listed; /* by whoever names the replicas, the last time */
    bool ping_pending;
    bool warned;       /* the log has it that it is not used */
    uint64_t fresh_at; /* it has all that the master had done by then; 0: not known */
    uint64_t since;    /* start of connecting, or when the PING was sent */
    uint64_t next_attempt;
    uint64_t backoff;
    uint64_t reads; /* sent, and not yet told to health.h */
};

struct store_replicas {
    struct store_peer *master;
    struct store_replica *first;
    struct store_replica *chosen; /* for this turn; NULL: none, or nobody has asked */
    bool turning;                 /* @chosen and @now are of this turn */
    struct event *turn;
    unsigned count, round;
    uint64_t now;
    uint64_t used_at;
    uint64_t map_version;
    uint64_t map_wanted_at;
    struct replication_log log;
};

/* --- one replica --- */

static void set_fresh(struct store_replica *r, uint64_t fresh_at)
{
    r->fresh_at = fresh_at;
    uint64_t now = clock_mono_us();
    uint64_t lag_ms = fresh_at == 0 ? HEALTH_LAG_UNKNOWN : (now - fresh_at) / 1000;
    node_health_replica(r->of->master->store->nodes, &r->node, r->of->master->node.name, lag_ms, r->reads);
    r->reads = 0;
}

static void away(struct store_replica *r)
{
    r->channel = NULL;
    r->ping_pending = false;
    r->next_attempt = clock_mono_us() + r->backoff / 2 + random_u64() % (r->backoff / 2);
    r->backoff = r->backoff * 2 < BACKOFF_MAX_US ? r->backoff * 2 : BACKOFF_MAX_US;
    set_fresh(r, 0);
}

/* Callbacks run with NULL, and find it away. */
static void drop(struct store_replica *r, const char *why)
{
    struct channel *channel = r->channel;
    node_health_failed(r->of->master->store->nodes, &r->node, why);
    log_debug("replica_down", "node=%s error=%s", r->node.name, log_quote(why));
    away(r);
    channel_close(channel);
}

static void on_ready(void *arg)
{
    struct store_replica *r = arg;
    r->backoff = BACKOFF_MIN_US;
}

static void on_closed(void *arg, enum err code, const char *why)
{
    struct store_replica *r = arg;
    if (code == ERR_REFUSED && !r->warned)
        log_warn("replica_refused", "node=%s error=%s", r->node.name, log_quote(why));
    r->warned |= code == ERR_REFUSED;
    away(r);
}

/* Of a cluster: others are its replicas than the map has. Nobody says MOVED for that. */
static void doubt_map(struct store_replicas *x)
{
    uint64_t now = clock_mono_us();
    if (x->master->store->route == NULL || (x->map_wanted_at != 0 && now - x->map_wanted_at < MAP_US))
        return;
    x->map_wanted_at = now;
    store_route_lost(x->master->store);
}

static void on_told(void *arg, const redisReply *info, uint64_t asked_at)
{
    struct store_replica *r = arg;
    struct replication it;
    (void)asked_at;
    bool known = info->type == REDIS_REPLY_STRING &&
                 replication_parse(&it, info->str, (size_t)info->len, NULL) == ERR_OK;
    set_fresh(r, known ? replication_log_fresh(&r->of->log, &it) : 0);
    if (known && it.id != r->of->log.id)
        doubt_map(r->of);
}

static void connect_to(struct store_replica *r, uint64_t now)
{
    struct store *s = r->of->master->store;
    const struct channel_events events = {.ready = on_ready,
                                          .closed = on_closed,
                                          .arg = r,
                                          .replying = &s->replying,
                                          .told = on_told,
                                          .replica = true};
    if (s->closing || now < r->next_attempt)
        return;
    r->since = now;
    r->channel = channel_open(s->base, s->nodes, &r->node, "twinbloom-replica", &events);
    if (r->channel == NULL)
        away(r);
}

static void on_ping(void *arg, const redisReply *reply)
{
    struct store_replica *r = arg;
    if (reply != NULL)
        r->ping_pending = false;
}

/* A replica that does not answer costs whoever waits for it time, as nothing is lost by asking the master. */
static uint64_t patience_us(const struct store *s)
{
    unsigned ms = s->timeout_ms / PATIENCE_PART;
    return (ms < PATIENCE_MIN_MS ? PATIENCE_MIN_MS : ms) * UINT64_C(1000);
}

static void watch(struct store_replica *r, uint64_t now)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    const struct store *s = r->of->master->store;
    if (r->channel == NULL) {
        connect_to(r, now);
    } else if (!channel_is_ready(r->channel)) {
        if (now - r->since > s->timeout_ms * UINT64_C(1000))
            drop(r, "no connection within the deadline");
    } else if (r->ping_pending) {
        if (now - r->since > patience_us(s))
            drop(r, "no reply within the deadline");
    } else if (channel_pending(r->channel) > 0) {
        r->since = now;
        r->ping_pending = channel_send(r->channel, ping, sizeof(ping) - 1, on_ping, r);
    }
}

/* --- those of a master --- */

static void on_turn(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    struct store_replicas *x = arg;
    x->turning = false;
}

/* NULL: no memory. */
static struct store_replicas *replicas_of(struct store_peer *p)
{
    if (p->replicas != NULL || p->store->closing)
        return p->replicas;
    struct store_replicas *x = calloc(1, sizeof(*x));
    if (x == NULL)
        return NULL;
    x->master = p;
    x->round = (unsigned)random_u64(); /* loops begin with different ones */
    x->map_version = UINT64_MAX;
    x->turn = event_new(p->store->base, -1, 0, on_turn, x);
    if (x->turn == NULL) {
        free(x);
        return NULL;
    }
    p->replicas = x;
    if (p->channel != NULL)
        channel_ask_lineage(p->channel);
    return x;
}

static void forget(struct store_replicas *x, struct store_replica **at)
{
    struct store_replica *r = *at;
    *at = r->next;
    x->count--;
    if (x->chosen == r)
        x->chosen = NULL;
    struct channel *channel = r->channel;
    r->channel = NULL;
    set_fresh(r, 0);
    channel_close(channel); /* its callbacks send to masters, and change no list */
    node_health_replica_gone(x->master->store->nodes, &r->node);
    free(r);
}

void store_replicas_fini(struct store_peer *p)
{
    struct store_replicas *x = p->replicas;
    if (x == NULL)
        return;
    p->replicas = NULL; /* what the callbacks send goes to the master */
    while (x->first != NULL)
        forget(x, &x->first);
    event_free(x->turn);
    free(x);
}

static void list_one(struct store_replicas *x, const char *host, uint16_t port)
{
    struct store_replica *r;
    struct node node = x->master->node; /* the same login, and TLS or not */
    node.path[0] = '\0';
    node.sentinel = false;
    node.port = port;
    (void)snprintf(node.host, sizeof(node.host), "%s", host);
    (void)snprintf(node.name, sizeof(node.name), strchr(host, ':') != NULL ? "[%.86s]:%u" : "%.88s:%u", host,
                   port);
    for (r = x->first; r != NULL; r = r->next)
        if (strcmp(r->node.name, node.name) == 0) {
            r->listed = true;
            return;
        }
    r = x->count < REPLICAS_MAX ? calloc(1, sizeof(*r)) : NULL;
    if (r == NULL)
        return;
    r->of = x;
    r->node = node;
    r->listed = true;
    r->backoff = BACKOFF_MIN_US;
    r->next = x->first;
    x->first = r;
    x->count++;
}

/* Those that were not listed since the last call are forgotten. */
static void end_list(struct store_replicas *x)
{
    for (struct store_replica **at = &x->first; *at != NULL;)
        if ((*at)->listed) {
            (*at)->listed = false;
            at = &(*at)->next;
        } else {
            forget(x, at);
        }
}

/* Of a cluster: those of the map, where that is another one. */
static void list_by_map(struct store_replicas *x)
{
    struct store_peer *p = x->master;
    const struct slot_node *n;
    uint64_t version = store_route_version(p->store);
    if (version == x->map_version || version == 0)
        return;
    x->map_version = version;
    for (unsigned i = 0; (n = store_route_replica(p->store, &p->node, i)) != NULL; i++)
        list_one(x, n->host, n->port);
    end_list(x);
}

void store_replicas_told(struct store_peer *p, const redisReply *info, uint64_t asked_at)
{
    struct store_replicas *x = p->replicas;
    struct replication it;
    if (x == NULL || info->type != REDIS_REPLY_STRING ||
        replication_parse(&it, info->str, (size_t)info->len, NULL) != ERR_OK)
        return;
    replication_log_add(&x->log, &it, asked_at);
    for (unsigned i = 0; p->store->route == NULL && i < it.count; i++)
        list_one(x, it.replica[i].host, it.replica[i].port);
    if (p->store->route == NULL)
        end_list(x);
    else if (it.count != x->count)
        doubt_map(x);
    for (struct store_replica *r = x->first; r != NULL; r = r->next)
        if (r->channel != NULL)
            channel_ask_lineage(r->channel);
}

void store_replicas_tick(struct store_peer *p, uint64_t now)
{
    struct store_replicas *x = p->replicas;
    if (x == NULL)
        return;
    if (now - x->used_at > IDLE_US) {
        store_replicas_fini(p);
        return;
    }
    if (p->store->route != NULL)
        list_by_map(x);
    for (struct store_replica *r = x->first; r != NULL; r = r->next)
        watch(r, now);
}

/* --- reads --- */

static bool is_usable(const struct store_replicas *x, const struct store_replica *r, unsigned max_age_ms)
{
    return r->channel != NULL && channel_is_ready(r->channel) && r->fresh_at != 0 &&
           x->now - r->fresh_at <= max_age_ms * UINT64_C(1000);
}

/* By turns; NULL: none is fresh enough. */
static struct store_replica *choose(struct store_replicas *x, unsigned max_age_ms)
{
    unsigned usable = 0;
    for (const struct store_replica *r = x->first; r != NULL; r = r->next)
        usable += is_usable(x, r, max_age_ms);
    unsigned wanted = usable > 0 ? x->round++ % usable : 0;
    for (struct store_replica *r = x->first; r != NULL; r = r->next)
        if (is_usable(x, r, max_age_ms) && wanted-- == 0)
            return r;
    return NULL;
}

bool store_send_replica(struct store *s, unsigned where, unsigned max_age_ms, const char *command,
                        size_t length, store_reply_fn *fn, void *arg)
{
    struct store_peer *p = where >= WHERE_SLOT ? store_route_master(s, where) : &s->peer[where];
    struct store_replicas *x = p == NULL ? NULL : replicas_of(p);
    if (x == NULL)
        return false;
    if (!x->turning) {
        x->turning = true;
        event_active(x->turn, EV_TIMEOUT, 0);
        x->now = x->used_at = p->used_at = clock_mono_us();
        (void)store_peer_ready(p); /* it tells how far it has come */
        x->chosen = choose(x, max_age_ms);
    }
    struct store_replica *r = x->chosen;
    if (r == NULL || !is_usable(x, r, max_age_ms) || !channel_send(r->channel, command, length, fn, arg))
        return false;
    r->reads++;
    return true;
}
