/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_SENTINELS_INTERNAL_H
#define SHARD_REDIS_NODES_SENTINELS_INTERNAL_H
/* What sentinels.c and the thread that asks the sentinels (sentinel_watch.c) share. */
#include <pthread.h>
#include <stdatomic.h>
#include "shard/redis/nodes/sentinels.h"

struct sentinel_master {
    char name[NODE_NAME_MAX]; /* the sentinels' name of it */
    char host[NODE_NAME_MAX]; /* "": unknown */
    uint16_t port;
    unsigned version;
};

struct sentinels {
    pthread_mutex_t lock; /* guards host, port and version of the masters */
    atomic_bool wanted;   /* somebody wanted an address since the last question */
    unsigned count;
    struct sentinel_master master[GENERATION_NODES_MAX];
};
#endif
