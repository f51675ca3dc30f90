/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_CLUSTER_H
#define SHARD_REDIS_NODES_CLUSTER_H
/* A Redis Cluster as all threads of this process know it: the seeds of the configuration, and the last map of
 * slots that a node gave to any of them. Each async and sync client routes by its own copy, which it patches
 * after MOVED, and takes the newer map from here. So one thread asks for a change, not every thread, and no
 * request does. Any thread may call. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"

/* The pause between two refreshes: the first value after a change, doubled up to the second one without
 * changes, plus up to half of it at random. If a thread does not finish its refresh within CLUSTER_STUCK_MS,
 * another thread may refresh. */
enum { CLUSTER_PAUSE_MIN_MS = 100, CLUSTER_PAUSE_MAX_MS = 500, CLUSTER_STUCK_MS = 10 * 1000 };

/* Parse the seeds, in the form of nodes_parse(): hosts only, all with TLS or none, only database 0, and at
 * most one login, which is used for all nodes. *@out holds them as its nodes. ERR_PARSE. */
MUST_CHECK enum err cluster_parse_seeds(struct nodes *out, const char *text, struct error *e);

/* @seeds is copied. NULL: no memory. */
struct cluster *cluster_new(const struct nodes *seeds);
void cluster_free(struct cluster *c);

/* A node of the cluster, with the login of the seeds. */
void cluster_node(const struct cluster *c, const char *host, uint16_t port, struct node *out);
/* The node to ask for the map at turn @turn: the known nodes, then the seeds. Returns the number of
 * candidates. */
unsigned cluster_candidate(struct cluster *c, unsigned turn, struct node *out);

/* Grows with every map; 0: there is no map yet. */
uint64_t cluster_version(const struct cluster *c);
/* The number of times that a slot was seen to have another master than before; and that number when @slot
 * was. */
uint32_t cluster_moves(const struct cluster *c);
uint32_t cluster_moved(const struct cluster *c, unsigned slot);
/* A node has answered MOVED: @slot has another master than the map says. */
void cluster_note_moved(struct cluster *c, unsigned slot);
/* The number of masters in the map, at least 1. */
unsigned cluster_masters(struct cluster *c);
/* The @i-th master; without a map the @i-th seed. False: there are no more. */
bool cluster_master(struct cluster *c, unsigned i, struct slot_node *out);
/* Copy the map and its version. *@out must be initialised; on ERR_NOMEM it is unchanged. */
MUST_CHECK enum err cluster_copy(struct cluster *c, struct slot_map *out, uint64_t *version);

/* True: the caller must ask a node for the map now, and then call cluster_refreshed(). False: another thread
 * is asking, or it is too early. */
bool cluster_may_refresh(struct cluster *c);
/* @m is copied; NULL: no node gave a map. */
void cluster_refreshed(struct cluster *c, const struct slot_map *m);
#endif
