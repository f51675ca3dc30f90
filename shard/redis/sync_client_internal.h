/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CLIENT_INTERNAL_H
#define SHARD_REDIS_SYNC_CLIENT_INTERNAL_H
/* What sync_client.c (connections, lists of nodes), sync_client_route.c and sync_client_map.c (clusters)
 * share. */
#include <stdbool.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/sync_connection.h"
#include "shard/filter/slots.h"

struct sync_client_command;
TAILQ_HEAD(sync_client_commands, sync_client_command);

struct sync_client_peer {
    struct node node;
    struct sync_connection *connection;
    bool had_one;
    size_t pending;                   /* number of replies that will come over this connection */
    size_t failed;                    /* number of replies that will not come: their connection broke
                                       * before */
    struct sync_client_commands sent; /* of a cluster, instead of these two: commands in the order of their
                                       * replies */
    uint64_t silent_until;            /* clock_mono_us(); connecting exceeded its deadline, so until then wait
                                       * only SILENT_MS */
};

struct sync_client_route;

struct sync_client {
    const struct nodes *nodes;
    unsigned timeout_ms;
    const char *name;
    struct buffer command;
    struct sync_client_peer *peer;   /* one for each node of the list */
    struct sync_client_route *route; /* NULL: there is no cluster */
};

/* The nodes of the map, and some that were or will be in it. */
enum { SYNC_CLIENT_PEERS_MAX = SLOT_NODES_MAX + 64 };

struct sync_client_route {
    struct slot_map map;
    uint64_t version; /* of the map; 0: there is none */
    unsigned turn;    /* the next node to ask for the map */
    struct sync_client_commands all;
    unsigned count;
    struct sync_client_peer *peer[SYNC_CLIENT_PEERS_MAX];
    struct sync_client_peer *by_node[SLOT_NODES_MAX]; /* by index in map.node; NULL: not looked up yet */
    unsigned masters;
    struct sync_client_peer *master[SLOT_NODES_MAX]; /* found by the last sync_client_masters() */
    double share[SLOT_NODES_MAX];
    uint16_t owner[SLOTS];           /* index of the slot's master; SLOT_NODES_MAX: none */
    uint16_t lowest[SLOT_NODES_MAX]; /* lowest slot of each master; SLOTS: none */
};

/* --- sync_client.c --- */
void sync_client_peer_init(struct sync_client_peer *p, const struct node *node);
/* Make sure that @p has a connection. */
MUST_CHECK enum err sync_client_peer_connect(struct sync_client *l, struct sync_client_peer *p,
                                             struct error *e);
/* Close the connection. The pending commands on it fail. */
void sync_client_peer_break(struct sync_client_peer *p);

/* --- sync_client_route.c --- */
struct sync_client_route *sync_client_route_new(void);
void sync_client_route_free(struct sync_client *l);
MUST_CHECK enum err sync_client_route_append(struct sync_client *l, unsigned where, const char *command,
                                             size_t length, struct error *e);
MUST_CHECK enum err sync_client_route_append_together(struct sync_client *l, unsigned where,
                                                      struct slot_redirect *redirect, unsigned count,
                                                      const char *commands, const size_t *ends,
                                                      struct error *e);
MUST_CHECK enum err sync_client_route_reply(struct sync_client *l, unsigned where, redisReply **out,
                                            struct error *e);
void sync_client_route_forget(struct sync_client *l);
const char *sync_client_route_name(const struct sync_client *l, unsigned where);
/* The peer with that address; made if it is new. NULL: no memory, or too many. */
struct sync_client_peer *sync_client_route_peer(struct sync_client *l, const char *host, uint16_t port);
/* Close peers that are no longer in the map. */
void sync_client_route_drop_unwanted(struct sync_client *l);

/* --- sync_client_map.c: both may drop peers --- */
/* Get a newer map, if another thread has one, or if it is time to ask. */
enum err sync_client_map_refresh(struct sync_client *l, struct error *e);
/* Make sure that there is a map, within the deadline. ERR_UNREACHABLE, ERR_REFUSED. */
MUST_CHECK enum err sync_client_map_need(struct sync_client *l, struct error *e);
MUST_CHECK enum err sync_client_route_masters(struct sync_client *l, unsigned *count, struct error *e);
#endif
