/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOG_CLUSTER_H
#define TESTS_INTEGRATION_LOG_CLUSTER_H
/* A Redis Cluster for tests of a filter that is a log, with what two processes know of it. */
#include "shard/view/log_view.h"
#include "tests/integration/log_members.h"
#include "tests/lib/temp_cluster.h"

struct log_cluster {
    struct temp_cluster cluster;
    struct nodes seeds, nodes, other_nodes; /* @other_nodes: of another process */
    struct sync_client *link;
    struct names names;    /* of the filter; set by the test */
    struct log_view *view; /* storage for a view that a test loads */
};
extern struct log_cluster at;

/* The first @owners of @masters share the slots; all masters have a replica each, or none. */
void log_cluster_start(unsigned masters, unsigned owners, bool has_replicas);
void log_cluster_stop(void);
/* The node that holds the key's slot, by the first node. */
unsigned log_cluster_owner(const struct key_name *key);
#endif
