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
    size_t pending;                   /* replies that are still to come on this connection */
    size_t failed;                    /* replies that will never come: their connection broke before them */
    struct sync_client_commands sent; /* of a cluster, instead of the two: in the order of their replies */
    uint64_t silent_until;            /* as no connection came about within the deadline */
};

struct sync_client_route;

struct sync_client {
    const struct nodes *nodes;
    unsigned timeout_ms;
    const char *name;
    struct buffer command;
    struct sync_client_peer *peer;   /* of the list of nodes */
    struct sync_client_route *route; /* NULL: there is no cluster */
};

/* Those of the map, and some that are on their way into it or out of it. */
enum { SYNC_CLIENT_PEERS_MAX = SLOT_NODES_MAX + 64 };

struct sync_client_route {
    struct slot_map map;
    uint64_t version; /* of the map; 0: none */
    unsigned turn;    /* whom to ask next */
    struct sync_client_commands all;
    unsigned count;
    struct sync_client_peer *peer[SYNC_CLIENT_PEERS_MAX];
    struct sync_client_peer *by_node[SLOT_NODES_MAX]; /* of map.node; NULL: not looked up */
    unsigned masters;
    struct sync_client_peer *master[SLOT_NODES_MAX]; /* of the last walk */
    double share[SLOT_NODES_MAX];
    uint16_t owner[SLOTS];           /* index of the master; SLOT_NODES_MAX: nobody */
    uint16_t lowest[SLOT_NODES_MAX]; /* slot; SLOTS: it holds none */
};

/* --- sync_client.c --- */
void sync_client_peer_init(struct sync_client_peer *p, const struct node *node);
/* Make sure that there is a connection. */
MUST_CHECK enum err sync_client_peer_connect(struct sync_client *l, struct sync_client_peer *p,
                                             struct error *e);
/* Close the connection; what was pending on it has failed. */
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
/* The peer with that address, made where it is new. NULL: no memory, or too many. */
struct sync_client_peer *sync_client_route_peer(struct sync_client *l, const char *host, uint16_t port);
/* Close those that are not in the map any more. */
void sync_client_route_drop_unwanted(struct sync_client *l);

/* --- sync_client_map.c: both may drop peers --- */
/* Get a newer map, if there is one or it is time to ask. */
enum err sync_client_map_refresh(struct sync_client *l, struct error *e);
/* Have one at all, within the deadline. ERR_UNREACHABLE, ERR_REFUSED. */
MUST_CHECK enum err sync_client_map_need(struct sync_client *l, struct error *e);
MUST_CHECK enum err sync_client_route_masters(struct sync_client *l, unsigned *count, struct error *e);
double sync_client_route_share(const struct sync_client *l, unsigned i);
unsigned sync_client_route_master_of(const struct sync_client *l, unsigned where);
unsigned sync_client_route_lowest(const struct sync_client *l, unsigned i);
#endif
