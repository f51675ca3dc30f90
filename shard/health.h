/* SPDX-License-Identifier: MIT */
#ifndef SHARD_HEALTH_H
#define SHARD_HEALTH_H
/* How this process fares with each Redis node: what its connections write and anybody may read, for people.
 */
#include <stdbool.h>
#include <stdint.h>
#include "base/timing.h"
#include "shard/nodes.h"

/* To be put into nodes->health before the first connection. NULL: no memory. */
struct node_health *node_health_new(void);
void node_health_free(struct node_health *h);

/* Nodes are told apart by their names. Nothing happens where nodes->health is NULL. */
void node_health_opened(const struct nodes *nodes, const struct node *n);
void node_health_closed(const struct nodes *nodes, const struct node *n);
/* An attempt to connect, or a connection. */
void node_health_failed(const struct nodes *nodes, const struct node *n, const char *why);
/* An event loop has no connection that works, or has one again. */
void node_health_down(const struct nodes *nodes, const struct node *n, bool down);
/* A connection was made in the place of one that was lost. */
void node_health_reconnected(const struct nodes *nodes, const struct node *n);

/* It answered a command of a request after @us. A lock is taken: not for every command. */
void node_health_took(const struct nodes *nodes, const struct node *n, uint64_t us);

/* A replica of @master that is read from: how many ms it lags behind at the most, and how many more reads
 * went to it. It is none of @master any more, or not read from. */
#define HEALTH_LAG_UNKNOWN UINT64_MAX
void node_health_replica(const struct nodes *nodes, const struct node *n, const char *master, uint64_t lag_ms,
                         uint64_t reads);
void node_health_replica_gone(const struct nodes *nodes, const struct node *n);
/* So many reads that went to replicas were asked of masters again. */
void node_health_reasked(const struct nodes *nodes, uint64_t reads);

struct node_health_figures {
    char name[NODE_NAME_MAX];
    unsigned slots;       /* of a cluster, that it holds */
    unsigned connections; /* logged in; idle ones of threads that block count until they are used again */
    unsigned loops_down;  /* event loops without it */
    uint64_t reconnects;
    uint64_t failures;
    uint64_t error_ms; /* of the last failure, since the Unix epoch; 0: there was none */
    char error[160];
    /* Of a replica that is read from; else "". */
    char master[NODE_NAME_MAX];
    uint64_t lag_ms;    /* HEALTH_LAG_UNKNOWN: it is not used */
    uint64_t lag_at_ms; /* when that was, since the Unix epoch */
    uint64_t reads;
    struct timing_figures took; /* of the commands that were measured */
};

/* Of all of them, since the process began. */
struct node_health_reads {
    uint64_t replicas; /* sent to some replica */
    uint64_t reasked;  /* of these, asked of the master again */
};
struct node_health_reads node_health_reads(const struct nodes *nodes);
/* The @i-th replica that is read from. False: there are no more. */
bool node_health_read_replica(const struct nodes *nodes, unsigned i, struct node_health_figures *out);

/* The @i-th node of the list, or master of the cluster (seed, while nobody has told its slots). All but the
 * name is 0 where nodes->health is NULL, and for one that nobody has tried. False: there are no more. */
bool node_health_read(const struct nodes *nodes, unsigned i, struct node_health_figures *out);
/* "up", "down" (some event loop is without it) or "unused". */
const char *node_health_state(const struct node_health_figures *f);
#endif
