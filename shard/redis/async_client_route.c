/* SPDX-License-Identifier: MIT */
/* How an async client finds its way through a cluster.
 *
 * The happy path is: the map names the slot's master; the replies go to the caller. Possible failure modes
 * are: no map yet (the call sends nothing, and a node is asked), MOVED (the map is patched, a whole map is
 * wanted, the caller sends again) and ASK (the caller sends once more), a master that is gone (a map is
 * wanted until it names another master; meanwhile the call sends nothing, as for any node that is down), an
 * error that will pass (the caller gets it, and tries again until its deadline).
 *
 * One thread of the process at a time asks for a map that is wanted, with pauses (cluster.h). The others take
 * its result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "shard/redis/nodes/cluster.h"
#include "shard/redis/async_client_internal.h"

enum {
    PEERS_MAX = SLOT_NODES_MAX + 64, /* the nodes of the map, and some that were or will be in it */
    PATIENCE_MS = 300,               /* the longest wait for a map from one node */
    IDLE_US = 10 * 1000 * 1000
};

struct async_client_route {
    struct slot_map map;
    uint64_t version; /* of the map; 0: there is none */
    bool wanted;
    bool asking;               /* this client is asking for the map */
    bool complained;           /* it was logged that no node gave a map */
    bool shards;               /* ask by CLUSTER SHARDS, as CLUSTER SLOTS was refused */
    unsigned turn, turns_left; /* the next node to ask; how many more to ask */
    struct async_client_peer *asked;
    uint64_t asked_until;
    char why[160]; /* why the last node that was asked gave no map */
    unsigned count;
    struct async_client_peer *peer[PEERS_MAX];
    struct async_client_peer *by_node[SLOT_NODES_MAX]; /* by index in map.node; NULL: not looked up yet */
};

struct async_client_route *async_client_route_new(void)
{
    struct async_client_route *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    slot_map_init(&r->map);
    r->turn = (unsigned)random_u64();
    return r;
}

void async_client_route_free(struct async_client *s)
{
    struct async_client_route *r = s->route;
    for (unsigned i = 0; i < r->count; i++)
        async_client_peer_fini(r->peer[i]);
    if (r->asking)
        cluster_refreshed(s->nodes->cluster, NULL);
    for (unsigned i = 0; i < r->count; i++)
        free(r->peer[i]);
    slot_map_fini(&r->map);
    free(r);
    s->route = NULL;
}

/* --- peers --- */

/* NULL: no memory, or too many peers. */
static struct async_client_peer *peer_of(struct async_client *s, const struct node *node)
{
    struct async_client_route *r = s->route;
    for (unsigned i = 0; i < r->count; i++)
        if (strcmp(r->peer[i]->node.name, node->name) == 0)
            return r->peer[i];
    struct async_client_peer *p = r->count < PEERS_MAX ? malloc(sizeof(*p)) : NULL;
    if (p == NULL)
        return NULL;
    async_client_peer_init(p, s, node);
    p->used_at = clock_mono_us();
    r->peer[r->count++] = p;
    return p;
}

static struct async_client_peer *peer_at_address(struct async_client *s, const char *host, uint16_t port)
{
    struct node node;
    cluster_node(s->nodes->cluster, host, port, &node);
    return peer_of(s, &node);
}

/* NULL: no master holds the slot. */
static struct async_client_peer *peer_of_slot(struct async_client *s, unsigned slot)
{
    struct async_client_route *r = s->route;
    unsigned at = r->map.owner[slot];
    if (at == SLOT_UNOWNED)
        return NULL;
    if (r->by_node[at] == NULL)
        r->by_node[at] = peer_at_address(s, r->map.node[at].host, r->map.node[at].port);
    return r->by_node[at];
}

struct async_client_peer *async_client_route_each(const struct async_client *s, unsigned i)
{
    return i < s->route->count ? s->route->peer[i] : NULL;
}

static bool is_master(const struct async_client_route *r, const struct async_client_peer *p)
{
    unsigned at = slot_map_find(&r->map, p->node.host, p->node.port);
    return at < r->map.count && r->map.node[at].slots > 0;
}

/* --- the map --- */

static void ask_next(struct async_client *s);

/* Take the map that another thread got in the meantime. False: there is none newer. */
static bool adopt(struct async_client *s)
{
    struct async_client_route *r = s->route;
    if (cluster_version(s->nodes->cluster) == r->version ||
        cluster_copy(s->nodes->cluster, &r->map, &r->version) != ERR_OK)
        return false;
    memset(r->by_node, 0, sizeof(r->by_node));
    r->wanted = false;
    return true;
}

/* End the search for a map. @m is the map that a node gave, or NULL: none of the nodes gave one. */
static void end_query(struct async_client *s, const struct slot_map *m)
{
    struct async_client_route *r = s->route;
    r->asking = false;
    r->asked = NULL;
    cluster_refreshed(s->nodes->cluster, m);
    if (m != NULL)
        (void)adopt(s);
    else if (!r->complained)
        log_warn("cluster_map_failed", "error=%s", log_quote(r->why));
    r->complained = m == NULL;
}

static void on_map(void *arg, const redisReply *answer)
{
    struct async_client_peer *p = arg;
    struct async_client *s = p->async;
    struct async_client_route *r = s->route;
    struct slot_map map;
    struct error e = {.text = ""};
    if (s->closing || !r->asking)
        return;
    if (answer == NULL) {
        if (p == r->asked)
            ask_next(s);
        return;
    }
    enum err code = slot_map_parse(&map, answer, p->node.host, p->node.tls, &e);
    if (code == ERR_OK && slot_map_covered(&map) > 0) {
        end_query(s, &map);
        slot_map_fini(&map);
        return;
    }
    (void)snprintf(r->why, sizeof(r->why), "%s: %.60s", p->node.name,
                   code == ERR_OK ? "it has no slots" : e.text);
    slot_map_fini(&map);
    if (answer->type == REDIS_REPLY_ERROR)
        r->shards = !r->shards;
    if (p == r->asked)
        ask_next(s);
}

static bool ask_peer(struct async_client_peer *p)
{
    static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    static const char shards[] = "*2\r\n$7\r\nCLUSTER\r\n$6\r\nSHARDS\r\n";
    struct async_client_route *r = p->async->route;
    const char *text = r->shards ? shards : slots;
    p->used_at = clock_mono_us();
    return async_client_peer_ready(p) && async_client_peer_send(p, text, strlen(text), on_map, p);
}

/* The next node to ask: a connected one, by turns; else a known one, or a seed. */
static struct async_client_peer *choose(struct async_client *s)
{
    struct async_client_route *r = s->route;
    struct node node;
    unsigned turn = r->turn++;
    for (unsigned i = 0; i < r->count; i++) {
        struct async_client_peer *p = r->peer[(turn + i) % r->count];
        if (p->connection != NULL && async_connection_is_ready(p->connection) && p != r->asked)
            return p;
    }
    (void)cluster_candidate(s->nodes->cluster, turn, &node);
    return peer_of(s, &node);
}

static void ask_next(struct async_client *s)
{
    struct async_client_route *r = s->route;
    unsigned patience = s->timeout_ms < PATIENCE_MS ? s->timeout_ms : PATIENCE_MS;
    while (r->turns_left > 0) {
        r->turns_left--;
        struct async_client_peer *p = choose(s);
        if (p == NULL)
            break;
        r->asked = p; /* set first: a connection that fails at once calls back from inside ask_peer() */
        r->asked_until = clock_mono_us() + patience * 1000u;
        if (p->down_since != 0)
            (void)snprintf(r->why, sizeof(r->why), "%s: %.60s", p->node.name, p->why);
        if (ask_peer(p))
            return;
    }
    end_query(s, NULL);
}

static void want_map(struct async_client *s)
{
    struct async_client_route *r = s->route;
    struct node ignored;
    if (s->closing)
        return;
    r->wanted = true;
    if (r->asking || adopt(s) || !cluster_may_refresh(s->nodes->cluster))
        return;
    r->asking = true;
    r->turns_left = cluster_candidate(s->nodes->cluster, 0, &ignored) + 1;
    ask_next(s);
}

void async_client_route_lost(struct async_client *s)
{
    s->route->wanted =
        true; /* the timer asks for it: callers of this function are in the middle of something */
}

/* Drop peers that are not in the map, and to which nothing was sent for IDLE_US. */
static void drop_idle(struct async_client *s, uint64_t now)
{
    struct async_client_route *r = s->route;
    for (unsigned i = 0; i < r->count;) {
        struct async_client_peer *p = r->peer[i];
        bool busy = p->connection != NULL && async_connection_pending(p->connection) > 0;
        if (p == r->asked || is_master(r, p) || busy || now - p->used_at < IDLE_US) {
            i++;
            continue;
        }
        r->peer[i] = r->peer[--r->count];
        for (unsigned k = 0; k < r->map.count; k++)
            if (r->by_node[k] == p)
                r->by_node[k] = NULL;
        async_client_peer_fini(p);
        free(p);
    }
}

void async_client_route_tick(struct async_client *s, uint64_t now)
{
    struct async_client_route *r = s->route;
    if (cluster_version(s->nodes->cluster) != r->version)
        (void)adopt(s);
    for (unsigned i = 0; i < r->count; i++) {
        struct async_client_peer *p = r->peer[i];
        if (p->connection != NULL || is_master(r, p))
            async_client_peer_tick(p, now);
        if (p->down_since != 0 && is_master(r, p))
            r->wanted = true;
    }
    if (r->asking && now > r->asked_until) {
        (void)snprintf(r->why, sizeof(r->why), "%s: no answer within the deadline", r->asked->node.name);
        ask_next(s);
    }
    if (r->wanted && !r->asking)
        want_map(s);
    drop_idle(s, now);
}

/* Nobody takes the answer before the loop runs again: let another thread ask for the map. */
void async_client_route_rest(struct async_client *s)
{
    struct async_client_route *r = s->route;
    if (r->asking)
        cluster_refreshed(s->nodes->cluster, NULL);
    r->asking = false;
    r->asked = NULL;
}

/* --- commands --- */

/* Where to send commands that were redirected. NULL: nowhere. */
static struct async_client_peer *redirected(struct async_client *s, const struct slot_redirect *to)
{
    struct async_client_route *r = s->route;
    if (s->closing)
        return NULL;
    if (!to->ask) {
        cluster_note_moved(s->nodes->cluster, to->slot);
        want_map(s);
        (void)slot_map_patch(&r->map, to->slot, to->host, to->port); /* if that fails, the next command
                                                                      * gets MOVED again */
    }
    return peer_at_address(s, to->host, to->port);
}

struct async_client_peer *async_client_route_master(struct async_client *s, unsigned where)
{
    struct async_client_peer *p = NULL;
    if (s->route->version != 0 || adopt(s))
        p = peer_of_slot(s, where_slot(where));
    if (p == NULL)
        want_map(s);
    return p;
}

bool async_client_same_node(struct async_client *s, unsigned a, unsigned b)
{
    const struct async_client_route *r = s->route;
    if (a == b || !where_is_slot(a) || !where_is_slot(b))
        return a == b;
    return (r->version == 0 && !adopt(s)) || r->map.owner[where_slot(a)] == r->map.owner[where_slot(b)];
}

struct async_client_group {
    struct async_client_peer *peer;
    struct slot_redirect *redirect;
    async_client_reply_fn *fn;
    void *arg;
    unsigned awaited;
};

static void on_grouped(void *arg, const redisReply *reply)
{
    struct async_client_group *g = arg;
    struct slot_redirect to;
    if (reply != NULL && reply->type == REDIS_REPLY_ERROR) {
        if (slots_parse_redirect(&to, reply->str, (size_t)reply->len, g->peer->node.host))
            *g->redirect = to;
        else if (slots_error_wants_map(reply->str))
            g->peer->async->route->wanted = true;
    }
    bool last = --g->awaited == 0;
    g->fn(g->arg, reply);
    if (last)
        free(g);
}

unsigned async_client_route_send_together(struct async_client *s, unsigned where,
                                          struct slot_redirect *redirect, unsigned count,
                                          const char *commands, const size_t *ends, async_client_reply_fn *fn,
                                          void *arg)
{
    const struct slot_redirect to = *redirect;
    *redirect = (struct slot_redirect){0};
    struct async_client_peer *p = to.port == 0 ? async_client_route_master(s, where) : redirected(s, &to);
    if (p == NULL || !async_client_peer_ready(p))
        return 0;
    struct async_client_group *g = malloc(sizeof(*g));
    if (g == NULL)
        return 0;
    *g = (struct async_client_group){.peer = p, .redirect = redirect, .fn = fn, .arg = arg};
    p->used_at = clock_mono_us();
    g->awaited =
        async_client_peer_send_together(p, to.port != 0 && to.ask, count, commands, ends, on_grouped, g);
    unsigned sent = g->awaited;
    if (sent == 0)
        free(g);
    return sent;
}

/* --- for people --- */

bool async_client_route_is_blind(const struct async_client *s)
{
    return s->route->version == 0 && s->route->wanted;
}

const struct async_client_peer *async_client_route_peer(const struct async_client *s, unsigned where,
                                                        const char **why)
{
    const struct async_client_route *r = s->route;
    unsigned at = r->map.owner[where_slot(where)];
    if (r->version == 0) {
        *why = r->why[0] != '\0' ? r->why : "no node has told its slots yet";
        return NULL;
    }
    if (at == SLOT_UNOWNED) {
        *why = "the slot has no master";
        return NULL;
    }
    for (unsigned i = 0; i < r->count; i++)
        if (r->peer[i]->node.port == r->map.node[at].port &&
            strcmp(r->peer[i]->node.host, r->map.node[at].host) == 0)
            return r->peer[i];
    *why = "nobody has asked it yet";
    return NULL;
}
