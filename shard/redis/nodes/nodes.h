/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_NODES_H
#define SHARD_REDIS_NODES_NODES_H
/* The Redis nodes of the configuration: a list of servers, or a cluster; the placement of shards on the nodes
 * that a generation names; addresses, which say where a command goes. */
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
    char name[NODE_NAME_MAX]; /* host:port or a path; generations and people know the node by it */
    char path[NODE_NAME_MAX]; /* of a Unix socket; empty: the node has host and port */
    char host[NODE_NAME_MAX];
    uint16_t port;
    bool tls;
    bool sentinel; /* @host is the sentinels' name of the node; its address comes from them */
    bool watches;  /* the node is a sentinel itself: it holds no keys, and has no replication id */
    unsigned database;
    char user[64];      /* empty: no user */
    char password[128]; /* empty: no password; never logged */
};

/* nodes[0] of a list is the metadata node: it holds views, mutexes and jobs. */
struct nodes {
    unsigned count;
    struct tls *tls;            /* for connections with TLS: node_tls_load(). Borrowed */
    struct node_health *health; /* see health.h. Borrowed; NULL: health is not recorded */
    struct node node[GENERATION_NODES_MAX];
    struct sentinels *sentinels; /* borrowed; for nodes with sentinel == true */
    struct cluster *cluster;     /* borrowed; NULL: there is no cluster, and count > 0 */
};

/* Where a command goes: a node of the list by its index; a slot of the cluster, whichever master holds it; or
 * a master by its index (sync_client_masters()). */
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
 * brackets, port 6379 and database 0 by default. ERR_PARSE names the part that is wrong, never a password.
 * Two nodes with one host and port, or with one path, are refused, as they would have one name. On error
 * *@out is undefined; else its tls, health and cluster are NULL. */
MUST_CHECK enum err nodes_parse(struct nodes *out, const char *text, struct error *e);

/* True if a node uses TLS. */
bool nodes_use_tls(const struct nodes *nodes);

/* Compare host names without regard to case, and paths with it. */
bool node_is_named(const struct node *n, const char *name);

/* The number of nodes for shards; of a cluster the number of masters, at least 1. */
unsigned nodes_count(const struct nodes *nodes);

/* The address of all keys of a filter except its shards; the address of any other key. */
unsigned nodes_home(const struct nodes *nodes, const struct names *names);
unsigned nodes_key(const struct nodes *nodes, const char *key, size_t length);
/* The address of the set of filter names, "P:filters". */
unsigned nodes_filters(const struct nodes *nodes, const char *prefix);

/* Name all configured nodes in @g; for a cluster, whose nodes come and go, name only that it is a cluster. */
void nodes_pin(const struct nodes *nodes, struct generation *g);

struct placement;

/* Choose the nodes of @list, in its order: "host:port, host, ..." (port 6379 by default), or paths of
 * sockets; an empty list means all nodes. ERR_CONFIG: a node is not configured, or is listed twice, or there
 * is a cluster, in which slots decide. On error *@out is undefined. */
MUST_CHECK enum err placement_choose(struct placement *out, const struct nodes *nodes, const char *list,
                                     struct error *e);
/* Name these nodes in @g. */
void placement_pin(const struct placement *p, const struct nodes *nodes, struct generation *g);
/* The @i-th name that a generation has for these nodes; NULL: there are no more. For a cluster there is one
 * name, which says that it is one. */
const char *placement_name(const struct placement *p, const struct nodes *nodes, unsigned i);
/* The number of nodes for shards; of a cluster the number of masters, at least 1. */
unsigned placement_nodes(const struct placement *p, const struct nodes *nodes);

/* Where the shards of a generation lie: indices of configured nodes, or slots. */
struct placement {
    unsigned count; /* 0: the shards lie in a cluster */
    uint8_t node[GENERATION_NODES_MAX];
    uint16_t crc; /* of the hash tag up to the layer */
};

/* ERR_CONFIG: the generation names a node that is not configured, or a cluster, and none is configured. */
MUST_CHECK enum err placement_resolve(struct placement *out, const struct names *names,
                                      const struct generation *g, const struct nodes *nodes, struct error *e);
/* The address of one shard. */
unsigned placement_where(const struct placement *p, unsigned layer, uint32_t shard);
#endif
