/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_WATCHED_H
#define TESTS_INTEGRATION_WATCHED_H
/* A master, a replica, and three sentinels that watch them. Anything that goes wrong fails the test. */
#include "shard/redis/nodes/nodes.h"
#include "tests/lib/temp_redis.h"

enum { WATCHED_SENTINELS = 3, WATCHED_WAIT_MS = 40000 };

struct watched {
    struct temp_redis redis[2]; /* the first is born as the master */
    struct process sentinel[WATCHED_SENTINELS];
    uint16_t port[WATCHED_SENTINELS]; /* of the sentinels */
    struct nodes nodes;               /* one: the master, by the sentinels' name for it */
    struct sentinel_watch *watch;
    char files[PATH_MAX];
    char replica_of[8];
};

/* All of them know each other, and the nodes have been told where the master is. */
void watched_start(struct watched *w);
void watched_stop(struct watched *w);
/* The server that the sentinels name as the master has this port. */
bool watched_master_is(struct watched *w, uint16_t port);
#endif
