/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CLIENT_INTERNAL_H
#define SHARD_REDIS_SYNC_CLIENT_INTERNAL_H
/* What sync_client.c (addresses, connections), sync_client_route.c (commands, and their way through a
 * cluster), sync_client_map.c (the cluster's map) and sync_client_ahead.c (ahead.h) share. */
#include <stdbool.h>
#include <sys/queue.h>
#include "base/buffer.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/sync_connection.h"
#include "shard/filter/slots.h"

/* What is asked ahead: a command; a peer's role, once for all users; which masters there are, likewise. */
enum sync_client_kind { ASKS_COMMAND, ASKS_ROLE, ASKS_MASTERS };
enum sync_client_command_state { COMMAND_SENT, COMMAND_ANSWERED, COMMAND_FAILED };

struct sync_client_command {
    TAILQ_ENTRY(sync_client_command) all;  /* in the order in which callers appended them */
    TAILQ_ENTRY(sync_client_command) sent; /* of one peer, in the order of replies */
    struct sync_client_peer *peer;
    unsigned where;
    unsigned user; /* for whom it is asked ahead; 0: it is not */
    enum sync_client_kind kind;
    enum sync_client_command_state state;
    enum err code;                  /* if state is COMMAND_FAILED */
    bool asking;                    /* the reply to ASKING comes first */
    struct slot_redirect *redirect; /* of commands that stay together: set by MOVED or ASK; else NULL */
    unsigned redirections;
    uint64_t deadline; /* clock_mono_us() until which the command is repeated; 0: it was not repeated yet */
    redisReply *reply;
    size_t length;
    char bytes[];
};

TAILQ_HEAD(sync_client_commands, sync_client_command);

struct sync_client_peer {
    struct node node;
    struct sync_connection *connection;
    uint64_t number;  /* of the connection; 0: there was none yet */
    bool broke;       /* since the first pin, or since ahead_begin() */
    bool is_asked;    /* something was sent to it since the first pin */
    bool is_replica;  /* the server has said that it is one: the next use connects again. Not in a cluster */
    bool wants_role;  /* ask it for its role behind all that is asked ahead: */
    redisReply *role; /* the reply to `INFO replication`; NULL: none */
    struct sync_client_commands sent; /* commands in the order of their replies */
    uint64_t silent_until;            /* clock_mono_us(); connecting exceeded its deadline, so until then wait
                                       * only SILENT_MS */
};

struct sync_client_route;

struct sync_client {
    const struct nodes *nodes;
    unsigned timeout_ms;
    const char *name;
    uint64_t connections; /* that were made */
    unsigned pins;
    struct buffer command;
    struct sync_client_commands all;      /* whose replies were not taken, in the order in which they came */
    struct {                              /* ahead.h */
        struct sync_client_commands read; /* with their replies, in the order in which they were asked for */
        unsigned asks, uses;              /* the user that is asked for, and the one that sends; 0: none */
        bool is_open;                     /* keeps connections that break from being made again, like a pin */
        bool fails;
    } ahead;
    struct sync_client_peer *peer;   /* one for each node of the list */
    struct sync_client_route *route; /* NULL: there is no cluster */
};

/* The nodes of the map, and some that were or will be in it. */
enum { SYNC_CLIENT_PEERS_MAX = SLOT_NODES_MAX + 64 };

struct sync_client_route {
    struct slot_map map;
    uint64_t version; /* of the map; 0: there is none */
    unsigned turn;    /* the next node to ask for the map */
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
/* True if replies from @where count only behind one about its role. In a cluster a replica answers MOVED to
 * commands for a slot. */
bool sync_client_is_role_asked(const struct sync_client *l, unsigned where);
/* From now on a connection that breaks is noted: close those that are stale. */
void sync_client_begin_pin(struct sync_client *l);
/* Make sure that @p has a connection. */
MUST_CHECK enum err sync_client_peer_connect(struct sync_client *l, struct sync_client_peer *p,
                                             struct error *e);

/* --- sync_client_route.c --- */
struct sync_client_route *sync_client_route_new(void);
void sync_client_route_free(struct sync_client *l);
/* A command whose reply was not taken. @bytes: kept for one that may have to be sent again, or is asked
 * ahead. NULL: no memory. */
struct sync_client_command *sync_client_command_new(struct sync_client *l, unsigned where, const char *bytes,
                                                    size_t length);
void sync_client_command_free(struct sync_client_commands *list, struct sync_client_command *c);
/* Read one reply of the connection of @p. */
enum err sync_client_read_one(struct sync_client *l, struct sync_client_peer *p, struct error *e);
/* Queue a formatted command for @where. */
MUST_CHECK enum err sync_client_queue(struct sync_client *l, unsigned where, const char *command,
                                      size_t length, struct error *e);
/* Close the connection. The commands that were sent over it fail with @code. */
void sync_client_peer_break(struct sync_client_peer *p, enum err code);
const char *sync_client_route_name(const struct sync_client *l, unsigned where);
/* The peer with that address; made if it is new. NULL: no memory, or too many. */
struct sync_client_peer *sync_client_route_peer(struct sync_client *l, const char *host, uint16_t port);
/* Close peers that are no longer in the map. */
void sync_client_route_drop_unwanted(struct sync_client *l);

/* --- sync_client_ahead.c --- */
/* True: this command was asked ahead, and its reply is now the last one of those that were not taken. Else
 * its user sends for itself from now on. */
MUST_CHECK bool sync_client_take_ahead(struct sync_client *l, unsigned where, const char *bytes,
                                       size_t length);
/* Likewise, of a cluster's masters, which then are as they were found. */
MUST_CHECK bool sync_client_take_masters_ahead(struct sync_client *l);

/* --- sync_client_map.c: both may drop peers --- */
/* Get a newer map, if another thread has one, or if it is time to ask. */
enum err sync_client_map_refresh(struct sync_client *l, struct error *e);
/* Make sure that there is a map, within the deadline. ERR_UNREACHABLE, ERR_REFUSED. */
MUST_CHECK enum err sync_client_map_need(struct sync_client *l, struct error *e);
MUST_CHECK enum err sync_client_route_masters(struct sync_client *l, unsigned *count, struct error *e);
#endif
