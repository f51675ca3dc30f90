/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_HEALTH_H
#define SHARD_REDIS_NODES_HEALTH_H
/* The state of each Redis node as this process sees it. Connections write it; any thread may read it. For
 * people. */
#include <stdbool.h>
#include <stdint.h>
#include "base/timing.h"
#include "shard/redis/nodes/nodes.h"

/* For nodes->health, before the first connection. NULL: no memory. */
struct node_health *node_health_new(void);
void node_health_free(struct node_health *h);

/* The number of rows. Above it, a new node takes the row of an idle one. */
enum { NODE_HEALTH_ROWS = 256 };

/* Nodes are told apart by name. These functions do nothing if nodes->health is NULL. */
void node_health_opened(const struct nodes *nodes, const struct node *n);
void node_health_closed(const struct nodes *nodes, const struct node *n);
/* An attempt to connect, or a connection, failed. */
void node_health_failed(const struct nodes *nodes, const struct node *n, const char *why);
/* An event loop has no working connection to the node, or has one again. */
void node_health_down(const struct nodes *nodes, const struct node *n, bool down);
/* A connection replaced one that was lost. */
void node_health_reconnected(const struct nodes *nodes, const struct node *n);

/* The node answered a command of a request after @us. Takes a lock: not for every command. */
void node_health_took(const struct nodes *nodes, const struct node *n, uint64_t us);

struct node_health_figures {
    char name[NODE_NAME_MAX];
    unsigned slots;       /* of a cluster: number of slots that it holds */
    unsigned connections; /* logged in; idle ones of blocking threads count until their next use */
    unsigned loops_down;  /* number of event loops without a connection to it */
    bool missed;          /* the last attempt to connect failed */
    uint64_t reconnects;
    uint64_t failures;
    uint64_t error_ms; /* when the last failure was, Unix time in ms; 0: never */
    char error[160];
    struct timing_figures took; /* reply times of the commands that were measured */
};

/* The figures of the @i-th node of the list, or of the @i-th master of the cluster (the @i-th seed while
 * there is no map). All figures but the name are 0 if nodes->health is NULL, or if the node was never used.
 * False: there are no more. */
bool node_health_read(const struct nodes *nodes, unsigned i, struct node_health_figures *out);
/* Some event loop has no connection, or nobody has one and the last attempt failed. */
bool node_health_is_down(const struct node_health_figures *f);
/* "up", "down" or "unused". */
const char *node_health_state(const struct node_health_figures *f);
#endif
