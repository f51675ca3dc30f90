/* SPDX-License-Identifier: MIT */
#ifndef TESTS_LIB_TEMP_CLUSTER_H
#define TESTS_LIB_TEMP_CLUSTER_H
/* A Redis Cluster of the test's own on loopback: masters with equal shares of the slots, replicas dealt out
 * to them in turn, short timeouts; a master that is dead takes nobody else's slots with it. */
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum { TEMP_CLUSTER_NODES_MAX = 8, TEMP_CLUSTER_SLOTS = 16384, TEMP_CLUSTER_NODE_TIMEOUT_MS = 1000 };

struct temp_cluster {
    unsigned masters, count; /* node[0 .. masters) are born as masters */
    struct temp_redis node[TEMP_CLUSTER_NODES_MAX];
    struct client client[TEMP_CLUSTER_NODES_MAX];
    char id[TEMP_CLUSTER_NODES_MAX][41];
    char bus[TEMP_CLUSTER_NODES_MAX][8];     /* port of the cluster bus */
    char seeds[TEMP_CLUSTER_NODES_MAX * 66]; /* redis://..., of all nodes; rediss:// with TLS */
    char certificates[PATH_MAX];             /* see certificates_make(); "": no TLS */
    char tls_port[TEMP_CLUSTER_NODES_MAX][8], tls_file[3][PATH_MAX + 16];
    uint64_t own_asks; /* CLUSTER SLOTS of this fixture since the counts were reset */
};

/* Start it and wait until every node knows the whole of it and every replica is in step. The first @owners
 * masters (0: all) get the slots. */
MUST_CHECK enum err temp_cluster_start(struct temp_cluster *c, unsigned masters, unsigned owners,
                                       unsigned replicas, struct error *e);
/* The same with TLS: for clients beside the plain ports (which this fixture uses), on the bus and between
 * master and replica nothing else. All @masters get slots. */
MUST_CHECK enum err temp_cluster_start_tls(struct temp_cluster *c, unsigned masters, unsigned replicas,
                                           struct error *e);
/* Fine on a zeroed struct. */
void temp_cluster_fini(struct temp_cluster *c);

/* Wait until all nodes that run name the same owner for every slot, and none of the others. */
MUST_CHECK enum err temp_cluster_agree(struct temp_cluster *c, unsigned deadline_ms, struct error *e);

/* The node that holds @slot, as node @asked says; TEMP_CLUSTER_NODES_MAX: none. */
unsigned temp_cluster_owner(struct temp_cluster *c, unsigned asked, unsigned slot);

/* Move a slot as redis-cli --cluster reshard does. In steps: open it on both sides, move at most @keys of its
 * keys
 * (*@moved: how many), give it to @to. */
MUST_CHECK enum err temp_cluster_open(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                                      struct error *e);
MUST_CHECK enum err temp_cluster_migrate(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                                         unsigned keys, unsigned *moved, struct error *e);
MUST_CHECK enum err temp_cluster_close(struct temp_cluster *c, unsigned slot, unsigned from, unsigned to,
                                       struct error *e);
/* [first, first + count), whole; with @pause_us between a slot's keys. */
MUST_CHECK enum err temp_cluster_move(struct temp_cluster *c, unsigned first, unsigned count, unsigned from,
                                      unsigned to, unsigned pause_us, struct error *e);

/* As many replicas as masters: node i and node i + masters are master and replica of each other, the other
 * way round after a failover. Which one is the master of @pair now; TEMP_CLUSTER_NODES_MAX: none. */
unsigned temp_cluster_master(struct temp_cluster *c, unsigned pair);
/* Start again what was killed, with what it saved, and wait until all is as before: one master and one
 * replica in step in each pair. */
MUST_CHECK enum err temp_cluster_mend(struct temp_cluster *c, unsigned deadline_ms, struct error *e);

/* Wait until the replica of master @i has got all that the master has written by now. */
MUST_CHECK enum err temp_cluster_in_step(struct temp_cluster *c, unsigned i, unsigned deadline_ms,
                                         struct error *e);
/* The same, and then its replica is disconnected and gets nothing any more. ERR_CONFLICT: it has none. */
MUST_CHECK enum err temp_cluster_cut_off(struct temp_cluster *c, unsigned i, unsigned deadline_ms,
                                         struct error *e);
/* Wait until a replica has taken the place of node @dead; which one. */
MUST_CHECK enum err temp_cluster_failed_over(struct temp_cluster *c, unsigned dead, unsigned deadline_ms,
                                             unsigned *heir, struct error *e);

/* CONFIG RESETSTAT everywhere; then how often CLUSTER SLOTS and CLUSTER SHARDS were asked for by others than
 * this fixture, over all nodes that run. */
void temp_cluster_reset_counts(struct temp_cluster *c);
uint64_t temp_cluster_maps_asked(struct temp_cluster *c);
/* How many commands the nodes that run have answered with MOVED or ASK since the reset. */
uint64_t temp_cluster_redirections(struct temp_cluster *c);
#endif
