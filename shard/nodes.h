/* SPDX-License-Identifier: MIT */
#ifndef SHARD_NODES_H
#define SHARD_NODES_H
/* The Redis nodes of the configuration, and the placement of shards over the nodes that a generation names.
 */
#include <stdint.h>
#include "base/error.h"
#include "shard/generation.h"

struct node {
    char name[NODE_NAME_MAX]; /* host:port, as pinned in generations and shown to people */
    char host[NODE_NAME_MAX];
    uint16_t port;
    unsigned database;
    char user[64];      /* empty: none */
    char password[128]; /* empty: none; never logged */
};

/* nodes[0] is home: it holds views, mutexes, jobs and counts. */
struct nodes {
    unsigned count;
    struct node node[GENERATION_NODES_MAX];
};

/* Parse "redis://[[user]:password@]host[:port][/db], ...": user and password percent-encoded, IPv6 in
 * brackets, port 6379 and database 0 by default. ERR_PARSE names the part that is wrong, never a password;
 * two nodes of one host and port are refused, as their names could not be told apart. On error *@out is
 * undefined. */
MUST_CHECK enum err nodes_parse(struct nodes *out, const char *text, struct error *e);

/* Pin all configured nodes in @g. */
void nodes_pin(const struct nodes *nodes, struct generation *g);

enum { NODE_HOME = 0 };

/* A generation's pinned nodes as indices into the configured ones. */
struct placement {
    unsigned count;
    uint8_t node[GENERATION_NODES_MAX];
};

/* ERR_CONFIG: the generation names a node that is not configured. */
MUST_CHECK enum err placement_resolve(struct placement *out, const struct generation *g,
                                      const struct nodes *nodes, struct error *e);
unsigned placement_node(const struct placement *p, uint32_t shard);
#endif
