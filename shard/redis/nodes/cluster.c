/* SPDX-License-Identifier: MIT */
#include "shard/redis/nodes/cluster.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"

struct cluster {
    struct nodes seeds;
    atomic_uint_fast64_t version;
    _Atomic uint32_t moves, moved[SLOTS];
    pthread_mutex_t mutex; /* guards the fields below, and writes of those above */
    struct slot_map map;
    bool refreshing;
    uint64_t begun_at;
    uint64_t next_at;
    uint64_t pause_us;
};

enum err cluster_parse_seeds(struct nodes *out, const char *text, struct error *e)
{
    enum err code = nodes_parse(out, text, e);
    const struct node *login = NULL;
    for (unsigned i = 0; i < out->count && code == ERR_OK; i++) {
        const struct node *n = &out->node[i];
        if (n->path[0] != '\0')
            return error_set(e, ERR_PARSE, "node %u: the nodes of a cluster are reached by host and port",
                             i + 1);
        if (n->tls != out->node[0].tls)
            return error_set(e, ERR_PARSE, "node %u: all nodes of a cluster speak TLS, or none", i + 1);
        if (n->database != 0)
            return error_set(e, ERR_PARSE, "node %u: a cluster has only database 0", i + 1);
        if (n->password[0] == '\0')
            continue;
        if (login != NULL && (strcmp(login->user, n->user) != 0 || strcmp(login->password, n->password) != 0))
            return error_set(e, ERR_PARSE, "node %u: the nodes of a cluster share one login", i + 1);
        login = n;
    }
    for (unsigned i = 0; i < out->count && login != NULL && code == ERR_OK; i++) {
        struct node *n = &out->node[i];
        if (n == login)
            continue;
        memcpy(n->user, login->user, sizeof(n->user));
        memcpy(n->password, login->password, sizeof(n->password));
    }
    return code;
}

struct cluster *cluster_new(const struct nodes *seeds)
{
    struct cluster *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->seeds = *seeds;
    c->seeds.cluster = NULL;
    c->pause_us = CLUSTER_PAUSE_MIN_MS * 1000;
    slot_map_init(&c->map);
    (void)pthread_mutex_init(&c->mutex, NULL);
    return c;
}

void cluster_free(struct cluster *c)
{
    if (c == NULL)
        return;
    slot_map_fini(&c->map);
    (void)pthread_mutex_destroy(&c->mutex);
    free(c);
}

/* All settings of a seed except its address hold for all nodes. */
void cluster_node(const struct cluster *c, const char *host, uint16_t port, struct node *out)
{
    *out = c->seeds.node[0];
    out->port = port;
    (void)snprintf(out->host, sizeof(out->host), "%s", host);
    (void)snprintf(out->name, sizeof(out->name), strchr(host, ':') != NULL ? "[%.86s]:%u" : "%.88s:%u", host,
                   port);
}

unsigned cluster_candidate(struct cluster *c, unsigned turn, struct node *out)
{
    HOLD(&c->mutex);
    unsigned all = c->map.count + c->seeds.count;
    unsigned at = turn % all;
    if (at < c->map.count)
        cluster_node(c, c->map.node[at].host, c->map.node[at].port, out);
    else
        *out = c->seeds.node[at - c->map.count];
    return all;
}

uint64_t cluster_version(const struct cluster *c)
{
    return atomic_load_explicit(&c->version, memory_order_acquire);
}

uint32_t cluster_moves(const struct cluster *c)
{
    return atomic_load(&c->moves);
}

uint32_t cluster_moved(const struct cluster *c, unsigned slot)
{
    return atomic_load(&c->moved[slot]);
}

void cluster_note_moved(struct cluster *c, unsigned slot)
{
    HOLD(&c->mutex);
    atomic_store(&c->moved[slot], atomic_fetch_add(&c->moves, 1) + 1);
}

unsigned cluster_masters(struct cluster *c)
{
    HOLD(&c->mutex);
    unsigned masters = slot_map_masters(&c->map);
    return masters > 0 ? masters : 1;
}

static bool nth_master(const struct slot_map *m, unsigned n, struct slot_node *out)
{
    for (unsigned i = 0; i < m->count; i++)
        if (!m->node[i].replica && n-- == 0) {
            *out = m->node[i];
            return true;
        }
    return false;
}

bool cluster_master(struct cluster *c, unsigned i, struct slot_node *out)
{
    (void)pthread_mutex_lock(&c->mutex);
    bool known = c->map.count > 0, found = known ? nth_master(&c->map, i, out) : i < c->seeds.count;
    (void)pthread_mutex_unlock(&c->mutex);
    if (found && !known) {
        *out = (struct slot_node){.port = c->seeds.node[i].port};
        memcpy(out->name, c->seeds.node[i].name, sizeof(out->name));
        memcpy(out->host, c->seeds.node[i].host, sizeof(out->host));
    }
    return found;
}

enum err cluster_copy(struct cluster *c, struct slot_map *out, uint64_t *version)
{
    struct slot_map copy;
    HOLD(&c->mutex);
    enum err code = slot_map_copy(&copy, &c->map);
    if (code == ERR_OK) {
        slot_map_fini(out);
        *out = copy;
        *version = atomic_load(&c->version);
    }
    return code;
}

bool cluster_may_refresh(struct cluster *c)
{
    uint64_t now = clock_mono_us();
    HOLD(&c->mutex);
    bool stuck = c->refreshing && now - c->begun_at > CLUSTER_STUCK_MS * 1000u;
    bool may = stuck || (!c->refreshing && now >= c->next_at);
    if (may) {
        c->refreshing = true;
        c->begun_at = now;
    }
    return may;
}

/* Take the map even if no slot moved: a new replica is one more node to ask. Nobody routes by it before its
 * moves are noted. */
static void take_map(struct cluster *c, const struct slot_map *m)
{
    struct slot_map copy;
    unsigned moved = 0;
    if (slot_map_copy(&copy, m) != ERR_OK)
        return;
    for (unsigned i = 0; i < SLOTS; i++)
        if (slot_map_has_moved(&c->map, m, i)) {
            atomic_store(&c->moved[i], atomic_load(&c->moves) + 1);
            moved++;
        }
    if (moved > 0)
        atomic_fetch_add(&c->moves, 1);
    c->pause_us = moved > 0 ? CLUSTER_PAUSE_MIN_MS * 1000 : c->pause_us * 2;
    slot_map_fini(&c->map);
    c->map = copy;
    atomic_fetch_add(&c->version, 1);
    if (moved > 0)
        log_info("cluster_map", "masters=%u slots=%u moved=%u", slot_map_masters(m), slot_map_covered(m),
                 moved);
}

void cluster_refreshed(struct cluster *c, const struct slot_map *m)
{
    HOLD(&c->mutex);
    c->refreshing = false;
    if (m != NULL)
        take_map(c, m);
    else
        c->pause_us *= 2;
    if (c->pause_us > CLUSTER_PAUSE_MAX_MS * 1000)
        c->pause_us = CLUSTER_PAUSE_MAX_MS * 1000;
    c->next_at = clock_mono_us() + c->pause_us + random_u64() % (c->pause_us / 2);
}
