/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_TEMP_CLUSTER_H
#define TESTS_LIB_TEMP_CLUSTER_H
/* A test's own Redis Cluster on loopback. The slots are shared equally among the masters, replicas are
 * assigned to masters in turn, and timeouts are short. If a master is dead, the slots of the others stay
 * available. */
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum { TEMP_CLUSTER_NODES_MAX = 8, TEMP_CLUSTER_SLOTS = 16384, TEMP_CLUSTER_NODE_TIMEOUT_MS = 1000 };

struct temp_cluster {
    unsigned masters, count; /* node[0 .. masters) start as masters */
    struct temp_redis node[TEMP_CLUSTER_NODES_MAX];
    struct client client[TEMP_CLUSTER_NODES_MAX];
    char id[TEMP_CLUSTER_NODES_MAX][41];
    char bus[TEMP_CLUSTER_NODES_MAX][8];     /* port of the cluster bus */
    char seeds[TEMP_CLUSTER_NODES_MAX * 66]; /* redis://... of all nodes, or rediss:// with TLS */
    char certificates[PATH_MAX];             /* see certificates_make(); "": no TLS */
    char tls_port[TEMP_CLUSTER_NODES_MAX][8], tls_file[3][PATH_MAX + 16];
    uint64_t own_asks; /* CLUSTER SLOTS that this fixture sent since the counts were reset */
};

/* Start the cluster, and wait until every node knows all others and every replica is in step. The first
 * @owners masters get the slots (0: all masters). */
MUST_CHECK enum err temp_cluster_start(struct temp_cluster *c, unsigned masters, unsigned owners,
                                       unsigned replicas, struct error *e);
/* As temp_cluster_start(), with TLS. Clients can use TLS or the plain ports, which this fixture uses. The bus
 * and replication use TLS only. All @masters get slots. */
MUST_CHECK enum err temp_cluster_start_tls(struct temp_cluster *c, unsigned masters, unsigned replicas,
                                           struct error *e);
/* A zeroed struct is fine. */
void temp_cluster_fini(struct temp_cluster *c);

/* Wait until all running nodes name the same owner for every slot, and the owner runs. */
MUST_CHECK enum err temp_cluster_agree(struct temp_cluster *c, unsigned deadline_ms, struct error *e);

/* The node that holds @slot, according to node @asked; TEMP_CLUSTER_NODES_MAX: none. */
unsigned temp_cluster_owner(struct temp_cluster *c, unsigned asked, unsigned slot);

/* Move a slot in the steps of redis-cli --cluster reshard: open it on both sides, move at most @keys of its
 * keys (*@moved: how many were moved), give it to @to. */
MUST_CHECK enum err temp_cluster_open(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                                      struct error *e);
MUST_CHECK enum err temp_cluster_migrate(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                                         unsigned keys, unsigned *moved, struct error *e);
MUST_CHECK enum err temp_cluster_close(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                                       struct error *e);
/* Move the slots [first, first + count) completely, with a pause of @pause_us between the keys of a slot. */
MUST_CHECK enum err temp_cluster_move(struct temp_cluster *c, unsigned first, unsigned count, unsigned from,
                                      unsigned to, unsigned pause_us, struct error *e);

/* For a cluster with as many replicas as masters: node i and node i + masters are a pair of master and
 * replica, in either order after a failover. Returns which one is the master of @pair now;
 * TEMP_CLUSTER_NODES_MAX: none. */
unsigned temp_cluster_master(struct temp_cluster *c, unsigned pair);
/* Start the killed nodes again with the data that they saved, and wait until each pair has one master and one
 * replica in step. */
MUST_CHECK enum err temp_cluster_mend(struct temp_cluster *c, unsigned deadline_ms, struct error *e);

/* Wait until the replica of master @i has received everything that the master has written so far. */
MUST_CHECK enum err temp_cluster_in_step(struct temp_cluster *c, unsigned i, unsigned deadline_ms,
                                         struct error *e);
/* As temp_cluster_in_step(); then the replica is disconnected and receives nothing more. ERR_CONFLICT: the
 * master has no replica. */
MUST_CHECK enum err temp_cluster_cut_off(struct temp_cluster *c, unsigned i, unsigned deadline_ms,
                                         struct error *e);
/* Wait until a replica has taken the place of node @dead. Returns which one. */
MUST_CHECK enum err temp_cluster_failed_over(struct temp_cluster *c, unsigned dead, unsigned deadline_ms,
                                             unsigned *heir, struct error *e);

/* temp_cluster_reset_counts(): CONFIG RESETSTAT on all nodes. The other function: how often other clients
 * than this fixture have asked for CLUSTER SLOTS and CLUSTER SHARDS since, over all running nodes. */
void temp_cluster_reset_counts(struct temp_cluster *c);
uint64_t temp_cluster_maps_asked(struct temp_cluster *c);
/* How many commands the running nodes have answered with MOVED or ASK since the reset. */
uint64_t temp_cluster_redirections(struct temp_cluster *c);
#endif
