/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_NODES_H
#define SHARD_REDIS_NODES_NODES_H
/* The Redis nodes of the configuration: a list of servers, or a cluster; the placement of shards over those
 * that a generation names; and addresses, which say where a command goes. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/filter/names.h"

struct cluster;
struct node_health;
struct sentinels;
struct tls;

struct node {
    char name[NODE_NAME_MAX]; /* host:port or a path, as pinned in generations and shown to people */
    char path[NODE_NAME_MAX]; /* of a Unix socket; empty: host and port */
    char host[NODE_NAME_MAX];
    uint16_t port;
    bool tls;
    bool sentinel; /* @host is the sentinels' name for it, and they tell its address */
    bool watches;  /* it is a sentinel itself: it holds nothing, and is of no replication id */
    unsigned database;
    char user[64];      /* empty: none */
    char password[128]; /* empty: none; never logged */
};

/* nodes[0] of a list is home: it holds views, mutexes, jobs and counts. */
struct nodes {
    unsigned count;
    struct tls *tls;            /* what connections to nodes with TLS begin with: node_tls_load(). Borrowed */
    struct node_health *health; /* see health.h. Borrowed; NULL: nobody wants to know */
    struct node node[GENERATION_NODES_MAX];
    struct sentinels *sentinels; /* borrowed; of nodes that are known by them */
    struct cluster *cluster;     /* borrowed; NULL: there is none, and count > 0 */
};

/* Where a command goes: a node of the list by its index; a slot of the cluster, whichever master holds it; or
 * one of its masters (sync_client_masters()). */
enum { NODE_HOME = 0, WHERE_SLOT = 1 << 16, WHERE_MASTER = 1 << 17 };
static inline bool where_is_slot(unsigned where)
{
    return (where & WHERE_SLOT) != 0;
}
static inline unsigned where_slot(unsigned where)
{
    return where & (WHERE_SLOT - 1);
}

/* Parse "redis://[[user]:password@]host[:port][/db], ...", with rediss:// for TLS, or
 * "unix://[[user][:password]@]/path[?db=N][&password=...]": user, password and path percent-encoded, IPv6 in
 * brackets, port 6379 and database 0 by default. ERR_PARSE names the part that is wrong, never a password;
 * two nodes of one host and port, or of one path, are refused, as their names could not be told apart. On
 * error *@out is undefined; else it has neither tls nor health nor a
 * cluster. */
MUST_CHECK enum err nodes_parse(struct nodes *out, const char *text, struct error *e);

/* True where a connection to some node speaks TLS. */
bool nodes_use_tls(const struct nodes *nodes);

/* Names of hosts are the same in small and large letters, paths are not. */
bool node_is_named(const struct node *n, const char *name);

/* Nodes that shards go to: of a cluster the masters, at least 1. */
unsigned nodes_count(const struct nodes *nodes);

/* The address of what a filter has but for its shards, and of any other key. */
unsigned nodes_home(const struct nodes *nodes, const struct names *names);
unsigned nodes_key(const struct nodes *nodes, const char *key, size_t length);
/* Of the set of the names of filters, "P:filters". */
unsigned nodes_filters(const struct nodes *nodes, const char *prefix);

/* Pin all configured nodes in @g; of a cluster, whose nodes come and go, that it is one. */
void nodes_pin(const struct nodes *nodes, struct generation *g);

struct placement;

/* Choose of @nodes those that @list names, in its order: "host:port, host, ..." (port 6379 by default), or
 * the paths of sockets; of an empty list all. ERR_CONFIG: one is not configured, or listed twice; or some are
 * listed where there is a cluster, in which slots decide. On error *@out is undefined. */
MUST_CHECK enum err placement_choose(struct placement *out, const struct nodes *nodes, const char *list,
                                     struct error *e);
/* Pin these in @g. */
void placement_pin(const struct placement *p, const struct nodes *nodes, struct generation *g);
/* The names that a generation has of them: the @i-th, or NULL where there are no more. Of a cluster there is
 * one, that it is one. */
const char *placement_name(const struct placement *p, const struct nodes *nodes, unsigned i);
/* How many nodes shards go to: of a cluster as many as it has masters, at least 1. */
unsigned placement_nodes(const struct placement *p, const struct nodes *nodes);

/* Where the shards of a generation are: its pinned nodes as indices into the configured ones, or slots. */
struct placement {
    unsigned count; /* 0: a cluster */
    uint8_t node[GENERATION_NODES_MAX];
    uint16_t crc; /* of the hash tag up to the layer */
};

/* ERR_CONFIG: the generation names a node that is not configured, or a cluster where none is. */
MUST_CHECK enum err placement_resolve(struct placement *out, const struct names *names,
                                      const struct generation *g, const struct nodes *nodes, struct error *e);
/* The address of one shard. */
unsigned placement_where(const struct placement *p, unsigned layer, uint32_t shard);
#endif
