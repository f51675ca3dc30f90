/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_CLUSTER_H
#define SHARD_REDIS_NODES_CLUSTER_H
/* A Redis Cluster as all threads of this process know it: the seeds of the configuration, and the last map of
 * slots that one of them got from a node. Each store and link routes by a copy of its own, which it patches
 * as MOVED tells it, and takes the newer map of this one when there is one: so a change is asked for once,
 * not by every thread, and never by every request. Any thread may call. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"

/* The pause between two refreshes: the first after something has changed, doubled up to the second while
 * nothing has; half as much again by chance. A refresh whose owner says nothing for CLUSTER_STUCK_MS is
 * another's to make. */
enum { CLUSTER_PAUSE_MIN_MS = 100, CLUSTER_PAUSE_MAX_MS = 500, CLUSTER_STUCK_MS = 10 * 1000 };

/* The seeds, written as nodes_parse() has it: hosts, all with TLS or none, without a database other than 0,
 * and with one login at most: that of the seeds that have one, for all nodes. *@out has them as its nodes.
 * ERR_PARSE.
 */
MUST_CHECK enum err cluster_parse_seeds(struct nodes *out, const char *text, struct error *e);

/* @seeds is copied. NULL: no memory. */
struct cluster *cluster_new(const struct nodes *seeds);
void cluster_free(struct cluster *c);

/* A node of the cluster, with the login of the seeds. */
void cluster_node(const struct cluster *c, const char *host, uint16_t port, struct node *out);
/* Whom to ask for the map, by turns: the nodes that are known, then the seeds. Returns how many there are. */
unsigned cluster_candidate(struct cluster *c, unsigned turn, struct node *out);

/* Grows with every map; 0: there is none yet. */
uint64_t cluster_version(const struct cluster *c);
/* As many as the map has, at least 1. */
unsigned cluster_masters(struct cluster *c);
/* The @i-th of them; of the seeds, while there is no map. False: there are no more. */
bool cluster_master(struct cluster *c, unsigned i, struct slot_node *out);
/* Copy the map, and its version. *@out must be initialised; on ERR_NOMEM it is as it was. */
MUST_CHECK enum err cluster_copy(struct cluster *c, struct slot_map *out, uint64_t *version, struct error *e);

/* True: whoever called must ask a node for the map now, and say how that ended. False: somebody else does, or
 * it is too early. */
bool cluster_may_refresh(struct cluster *c);
/* @m, which is copied; NULL: no node gave one. */
void cluster_refreshed(struct cluster *c, const struct slot_map *m);
#endif
