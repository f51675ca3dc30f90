/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ASYNC_CLIENT_INTERNAL_H
#define SHARD_REDIS_ASYNC_CLIENT_INTERNAL_H
/* What async_client.c (connections, lists of nodes), async_client_route.c (clusters) and async_client_state.c
 * share. */
#include "shard/redis/async_connection.h"
#include "shard/filter/slots.h"
#include "shard/redis/async_client.h"

struct async_client_route;
struct ack_line;

struct async_client_peer {
    struct async_client *async;
    struct node node;
    struct async_connection *connection; /* NULL: none */
    bool had_one;                        /* that was ready */
    bool ping_pending;
    uint64_t since;      /* start of connecting, or when the PING was sent */
    uint64_t down_since; /* 0: not down */
    uint64_t next_attempt;
    uint64_t backoff;
    uint64_t used_at;        /* of a cluster: when something was last sent */
    uint64_t replication_at; /* when it was last asked for its replication id */
    char why[160];
    /* The command whose wait is measured. */
    bool sampling;
    async_client_reply_fn *sample_fn;
    void *sample_arg;
    uint64_t sample_sent;
    uint64_t sampled_at; /* when one was last recorded */
    struct ack_line *acks;
};

struct async_client {
    struct event_base *base;
    const struct nodes *nodes;
    struct latency *latency;
    struct event *timer;
    unsigned timeout_ms;
    bool closing;
    struct async_connection_source replying; /* where the reply that is told comes from */
    struct async_client_peer *peer;          /* of the list of nodes */
    struct async_client_route *route;        /* NULL: there is no cluster */
};

/* --- async_client.c --- */
void async_client_peer_init(struct async_client_peer *p, struct async_client *s, const struct node *node);
/* What is pending is told. */
void async_client_peer_fini(struct async_client_peer *p);
/* One turn of the timer: an answer that does not come; a node that is down is tried again, whether or not
 * somebody asks for it. */
void async_client_peer_tick(struct async_client_peer *p, uint64_t now);
/* It has said that it is not who it was taken for: ask whether it is a master still. */
void async_client_peer_doubt(struct async_client_peer *p);
/* Commands may be sent: connects where that is needed, and it is time to. */
bool async_client_peer_ready(struct async_client_peer *p);
/* To one that is ready. False: no memory. */
bool async_client_peer_send(struct async_client_peer *p, const char *command, size_t length,
                            async_client_reply_fn *fn, void *arg);
/* The same for several; how many it has taken. */
unsigned async_client_peer_send_together(struct async_client_peer *p, unsigned count, const char *commands,
                                         const size_t *ends, async_client_reply_fn *fn, void *arg);

/* --- async_client_acks.c --- */
void async_client_acks_tick(struct async_client_peer *p, uint64_t now);
/* What is pending is told. */
void async_client_acks_fini(struct async_client_peer *p);

/* --- async_client_route.c --- */
struct async_client_route *async_client_route_new(void);
void async_client_route_free(struct async_client *s);
void async_client_route_tick(struct async_client *s, uint64_t now);
bool async_client_route_send(struct async_client *s, unsigned where, const char *command, size_t length,
                             async_client_reply_fn *fn, void *arg);
unsigned async_client_route_send_together(struct async_client *s, unsigned where,
                                          struct slot_redirect *redirect, unsigned count,
                                          const char *commands, const size_t *ends, async_client_reply_fn *fn,
                                          void *arg);
/* The master of a slot; NULL: nobody knows it now, and a map is wanted. */
struct async_client_peer *async_client_route_master(struct async_client *s, unsigned where);
/* By the map that is routed by. True where there is none, too: nothing can be sent to either. */
bool async_client_route_same_node(struct async_client *s, unsigned a, unsigned b);
/* A connection failed: perhaps the cluster has another master by now. */
void async_client_route_lost(struct async_client *s);
/* The peer that commands for @where go to; NULL: nobody knows, or has asked it yet; *why says so. */
const struct async_client_peer *async_client_route_peer(const struct async_client *s, unsigned where,
                                                        const char **why);
/* By number, up to the first NULL. */
struct async_client_peer *async_client_route_each(const struct async_client *s, unsigned i);
/* There has been no map though one was wanted. */
bool async_client_route_is_blind(const struct async_client *s);
#endif
