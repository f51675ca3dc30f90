/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_LINK_INTERNAL_H
#define SHARD_REDIS_LINK_INTERNAL_H
/* What link.c (connections, lists of nodes), link_route.c and link_map.c (clusters) share. */
#include <stdbool.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "shard/redis/link.h"
#include "shard/redis/node_connection.h"
#include "shard/filter/slots.h"

struct link_command;
TAILQ_HEAD(link_commands, link_command);

struct link_peer {
    struct node node;
    struct node_connection *connection;
    bool had_one;
    size_t pending;            /* replies that are still to come on this connection */
    size_t failed;             /* replies that will never come: their connection broke before them */
    struct link_commands sent; /* of a cluster, instead of the two: in the order of their replies */
    uint64_t silent_until;     /* as no connection came about within the deadline */
};

struct link_route;

struct link {
    const struct nodes *nodes;
    unsigned timeout_ms;
    const char *name;
    struct buffer command;
    struct link_peer *peer;   /* of the list of nodes */
    struct link_route *route; /* NULL: there is no cluster */
};

/* Those of the map, and some that are on their way into it or out of it. */
enum { LINK_PEERS_MAX = SLOT_NODES_MAX + 64 };

struct link_route {
    struct slot_map map;
    uint64_t version; /* of the map; 0: none */
    unsigned turn;    /* whom to ask next */
    struct link_commands all;
    unsigned count;
    struct link_peer *peer[LINK_PEERS_MAX];
    struct link_peer *by_node[SLOT_NODES_MAX]; /* of map.node; NULL: not looked up */
    unsigned masters;
    struct link_peer *master[SLOT_NODES_MAX]; /* of the last walk */
    double share[SLOT_NODES_MAX];
    uint16_t owner[SLOTS];           /* index of the master; SLOT_NODES_MAX: nobody */
    uint16_t lowest[SLOT_NODES_MAX]; /* slot; SLOTS: it holds none */
};

/* --- link.c --- */
void link_peer_init(struct link_peer *p, const struct node *node);
/* Make sure that there is a connection. */
MUST_CHECK enum err link_peer_connect(struct link *l, struct link_peer *p, struct error *e);
/* Close the connection; what was pending on it has failed. */
void link_peer_break(struct link_peer *p);

/* --- link_route.c --- */
struct link_route *link_route_new(void);
void link_route_free(struct link *l);
MUST_CHECK enum err link_route_append(struct link *l, unsigned where, const char *command, size_t length,
                                      struct error *e);
MUST_CHECK enum err link_route_append_together(struct link *l, unsigned where, struct slot_redirect *redirect,
                                               unsigned count, const char *commands, const size_t *ends,
                                               struct error *e);
MUST_CHECK enum err link_route_reply(struct link *l, unsigned where, redisReply **out, struct error *e);
void link_route_forget(struct link *l);
const char *link_route_name(const struct link *l, unsigned where);
/* The peer with that address, made where it is new. NULL: no memory, or too many. */
struct link_peer *link_route_peer(struct link *l, const char *host, uint16_t port);
/* Close those that are not in the map any more. */
void link_route_drop_unwanted(struct link *l);

/* --- link_map.c: both may drop peers --- */
/* Get a newer map, if there is one or it is time to ask. */
enum err link_map_refresh(struct link *l, struct error *e);
/* Have one at all, within the deadline. ERR_UNREACHABLE, ERR_REFUSED. */
MUST_CHECK enum err link_map_need(struct link *l, struct error *e);
MUST_CHECK enum err link_route_masters(struct link *l, unsigned *count, struct error *e);
double link_route_share(const struct link *l, unsigned i);
unsigned link_route_master_of(const struct link *l, unsigned where);
unsigned link_route_lowest(const struct link *l, unsigned i);
#endif
