/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_WATCHED_H
#define TESTS_INTEGRATION_WATCHED_H
/* A master, a replica, and three sentinels that watch them. Every error fails the test. */
#include "shard/redis/nodes/nodes.h"
#include "tests/lib/temp_redis.h"

enum { WATCHED_SENTINELS = 3, WATCHED_WAIT_MS = 40000 };

struct watched {
    struct temp_redis redis[2]; /* the first one starts as the master */
    struct process sentinel[WATCHED_SENTINELS];
    uint16_t port[WATCHED_SENTINELS]; /* of the sentinels */
    struct nodes nodes;               /* one node: the master, by the sentinels' name for it */
    struct sentinel_watch *watch;
    char urls[WATCHED_SENTINELS * 40]; /* of the sentinels */
    char files[PATH_MAX];
    char replica_of[8];
};

/* Start all servers and wait until they know each other; the sentinels then know the master's address. */
void watched_start(struct watched *w);
void watched_stop(struct watched *w);
/* Kill the sentinels; start them again, with what they knew. */
void watched_kill_sentinels(struct watched *w);
void watched_restart_sentinels(struct watched *w);
/* True: the sentinels name the server with this port as the master. */
bool watched_master_is(struct watched *w, uint16_t port);
#endif
