/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_STORE_INTERNAL_H
#define SHARD_REDIS_STORE_INTERNAL_H
/* What store.c (connections, lists of nodes), store_route.c (clusters) and store_state.c share. */
#include "shard/redis/channel.h"
#include "shard/filter/slots.h"
#include "shard/redis/store.h"

struct store_route;
struct ack_line;

struct store_peer {
    struct store *store;
    struct node node;
    struct channel *channel; /* NULL: none */
    bool had_one;            /* that was ready */
    bool ping_pending;
    uint64_t since;      /* start of connecting, or when the PING was sent */
    uint64_t down_since; /* 0: not down */
    uint64_t next_attempt;
    uint64_t backoff;
    uint64_t used_at;    /* of a cluster: when something was last sent */
    uint64_t lineage_at; /* when it was last asked for its lineage */
    char why[160];
    /* The command whose wait is measured. */
    bool sampling;
    store_reply_fn *sample_fn;
    void *sample_arg;
    uint64_t sample_sent;
    uint64_t sampled_at; /* when one was last recorded */
    struct ack_line *acks;
};

struct store {
    struct event_base *base;
    const struct nodes *nodes;
    struct latency *latency;
    struct event *timer;
    unsigned timeout_ms;
    bool closing;
    struct channel_source replying; /* where the reply that is told comes from */
    struct store_peer *peer;        /* of the list of nodes */
    struct store_route *route;      /* NULL: there is no cluster */
};

/* --- store.c --- */
void store_peer_init(struct store_peer *p, struct store *s, const struct node *node);
/* What is pending is told. */
void store_peer_fini(struct store_peer *p);
/* One turn of the timer: an answer that does not come; a node that is down is tried again, whether or not
 * somebody asks for it. */
void store_peer_tick(struct store_peer *p, uint64_t now);
/* It has said that it is not who it was taken for: ask whether it is a master still. */
void store_peer_doubt(struct store_peer *p);
/* Commands may be sent: connects where that is needed, and it is time to. */
bool store_peer_ready(struct store_peer *p);
/* To one that is ready. False: no memory. */
bool store_peer_send(struct store_peer *p, const char *command, size_t length, store_reply_fn *fn, void *arg);
/* The same for several; how many it has taken. */
unsigned store_peer_send_together(struct store_peer *p, unsigned count, const char *commands,
                                  const size_t *ends, store_reply_fn *fn, void *arg);

/* --- store_acks.c --- */
void store_acks_tick(struct store_peer *p, uint64_t now);
/* What is pending is told. */
void store_acks_fini(struct store_peer *p);

/* --- store_route.c --- */
struct store_route *store_route_new(void);
void store_route_free(struct store *s);
void store_route_tick(struct store *s, uint64_t now);
bool store_route_send(struct store *s, unsigned where, const char *command, size_t length, store_reply_fn *fn,
                      void *arg);
unsigned store_route_send_together(struct store *s, unsigned where, struct slot_redirect *redirect,
                                   unsigned count, const char *commands, const size_t *ends,
                                   store_reply_fn *fn, void *arg);
/* The master of a slot; NULL: nobody knows it now, and a map is wanted. */
struct store_peer *store_route_master(struct store *s, unsigned where);
/* By the map that is routed by. True where there is none, too: nothing can be sent to either. */
bool store_route_same_node(struct store *s, unsigned a, unsigned b);
/* A connection failed: perhaps the cluster has another master by now. */
void store_route_lost(struct store *s);
/* The peer that commands for @where go to; NULL: nobody knows, or has asked it yet; *why says so. */
const struct store_peer *store_route_peer(const struct store *s, unsigned where, const char **why);
/* By number, up to the first NULL. */
struct store_peer *store_route_each(const struct store *s, unsigned i);
/* There has been no map though one was wanted. */
bool store_route_is_blind(const struct store *s);
#endif
