/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_HEALTH_H
#define SHARD_REDIS_NODES_HEALTH_H
/* How this process fares with each Redis node: what its connections write and anybody may read, for people.
 */
#include <stdbool.h>
#include <stdint.h>
#include "base/timing.h"
#include "shard/redis/nodes/nodes.h"

/* To be put into nodes->health before the first connection. NULL: no memory. */
struct node_health *node_health_new(void);
void node_health_free(struct node_health *h);

/* Above so many nodes, one that nobody is connected to or misses gives way to a new one. */
enum { NODE_HEALTH_ROWS = 256 };

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

struct node_health_figures {
    char name[NODE_NAME_MAX];
    unsigned slots;       /* of a cluster, that it holds */
    unsigned connections; /* logged in; idle ones of threads that block count until they are used again */
    unsigned loops_down;  /* event loops without it */
    uint64_t reconnects;
    uint64_t failures;
    uint64_t error_ms; /* of the last failure, since the Unix epoch; 0: there was none */
    char error[160];
    struct timing_figures took; /* of the commands that were measured */
};

/* The @i-th node of the list, or master of the cluster (seed, while nobody has told its slots). All but the
 * name is 0 where nodes->health is NULL, and for one that nobody has tried. False: there are no more. */
bool node_health_read(const struct nodes *nodes, unsigned i, struct node_health_figures *out);
/* "up", "down" (some event loop is without it) or "unused". */
const char *node_health_state(const struct node_health_figures *f);
#endif
