/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ASYNC_CLIENT_INTERNAL_H
#define SHARD_REDIS_ASYNC_CLIENT_INTERNAL_H
/* What async_client.c (connections, lists of nodes), async_client_acks.c and async_client_route.c (clusters)
 * share. */
#include "shard/redis/async_connection.h"
#include "shard/filter/slots.h"
#include "shard/redis/async_client.h"

struct async_client_route;
struct ack_connection;

struct async_client_peer {
    struct async_client *async;
    struct node node;
    struct async_connection *connection; /* NULL: none */
    bool had_one;                        /* a connection was ready before */
    bool ping_pending;
    uint64_t since;      /* clock_mono_us() when connecting began, or when the PING was sent */
    uint64_t down_since; /* clock_mono_us(); 0: not down */
    bool is_reported;    /* as down, to the node's health */
    uint64_t next_attempt;
    uint64_t backoff;
    uint64_t used_at;        /* of a cluster: when a command was last sent, clock_mono_us() */
    uint64_t replication_at; /* when it was last asked whether it is a master, clock_mono_us() */
    char why[160];
    /* The command whose reply time is being measured. */
    bool sampling;
    async_client_reply_fn *sample_fn;
    void *sample_arg;
    uint64_t sample_sent;
    uint64_t sampled_at; /* when a time was last recorded, clock_mono_us() */
    struct ack_connection *acks;
};

struct async_client {
    struct event_base *base;
    const struct nodes *nodes;
    struct latency *latency;
    struct event *timer;
    unsigned timeout_ms;
    bool closing;
    uint64_t replying_since;          /* when the connection of the reply whose callback runs became ready */
    struct async_client_peer *peer;   /* one for each node of the list */
    struct async_client_route *route; /* NULL: there is no cluster */
};

/* --- async_client.c --- */
void async_client_peer_init(struct async_client_peer *p, struct async_client *s, const struct node *node);
/* Pending callbacks get NULL. */
void async_client_peer_fini(struct async_client_peer *p);
/* One turn of the timer: drop a connection that does not answer; connect again to a node that is down,
 * whether or not anybody sends to it. */
void async_client_peer_tick(struct async_client_peer *p, uint64_t now);
/* True if commands may be sent. Connects if needed, and if the backoff allows it. */
bool async_client_peer_ready(struct async_client_peer *p);
/* Send to a peer that is ready. False: no memory. */
bool async_client_peer_send(struct async_client_peer *p, const char *command, size_t length,
                            async_client_reply_fn *fn, void *arg);
/* As above, for several commands, each behind ASKING if it @asks. Returns the number that was sent. */
unsigned async_client_peer_send_together(struct async_client_peer *p, bool asks, unsigned count,
                                         const char *commands, const size_t *ends, async_client_reply_fn *fn,
                                         void *arg);

/* --- async_client_acks.c --- */
void async_client_acks_tick(struct async_client_peer *p, uint64_t now);
/* Pending waiters get ACK_BROKEN. */
void async_client_acks_fini(struct async_client_peer *p);

/* --- async_client_route.c --- */
struct async_client_route *async_client_route_new(void);
void async_client_route_free(struct async_client *s);
void async_client_route_tick(struct async_client *s, uint64_t now);
void async_client_route_rest(struct async_client *s);
unsigned async_client_route_send_together(struct async_client *s, unsigned where,
                                          struct slot_redirect *redirect, unsigned count,
                                          const char *commands, const size_t *ends, async_client_reply_fn *fn,
                                          void *arg);
/* The master of the slot @where. NULL: it is unknown now, and a map is wanted. */
struct async_client_peer *async_client_route_master(struct async_client *s, unsigned where);
/* A connection failed: the cluster may have another master by now. */
void async_client_route_lost(struct async_client *s);
/* The peer that commands for @where go to. NULL: unknown, or nothing was sent to it yet; *why says which. */
const struct async_client_peer *async_client_route_peer(const struct async_client *s, unsigned where,
                                                        const char **why);
/* The @i-th peer; NULL: there are no more. */
struct async_client_peer *async_client_route_each(const struct async_client *s, unsigned i);
/* True if a map is wanted and there never was one. */
bool async_client_route_is_blind(const struct async_client *s);
#endif
