/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_SERVERS_H
#define TESTS_FAULT_LOG_SERVERS_H
/* The Redis servers of a round: one; or three, the first of which is the metadata node; or a cluster of three
 * masters, maybe with a replica each. */
#include <stdbool.h>
#include "shard/redis/nodes/nodes.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_cluster.h"
#include "tests/lib/temp_redis.h"

enum fault_layout { ONE_SERVER, THREE_SERVERS, CLUSTER_OF_THREE, CLUSTER_WITH_REPLICAS };
enum { FAULT_SERVERS_MAX = 3 };

struct fault_servers {
    enum fault_layout layout;
    unsigned count;
    struct temp_redis redis[FAULT_SERVERS_MAX]; /* unused with a cluster */
    struct client client[FAULT_SERVERS_MAX];
    struct temp_cluster cluster;
    struct nodes nodes;
};

/* Start the servers. Each acknowledges a write after it is on disk. Call fault_servers_fini() even after an
 * error. */
MUST_CHECK enum err fault_servers_start(struct fault_servers *s, enum fault_layout layout, struct error *e);
void fault_servers_fini(struct fault_servers *s);

/* The connection to server @i; NULL: there are no more servers. */
struct client *fault_servers_each(struct fault_servers *s, unsigned i);
/* Connect the client of server @i again after that server was restarted. */
MUST_CHECK enum err fault_servers_reconnect(struct fault_servers *s, unsigned i, struct error *e);
#endif
