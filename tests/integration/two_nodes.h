/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_TWO_NODES_H
#define TESTS_INTEGRATION_TWO_NODES_H
/* Two real servers: the metadata node, and another one. */
#include "shard/redis/sync_client.h"
#include "shard/view/log_view.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

/* Where the parts are: variables of the test. */
struct two_nodes {
    struct temp_redis *home, *other;
    struct client *client; /* of the metadata node */
    struct nodes *nodes;
    struct names *names; /* of the filter */
    struct sync_client **link;
    struct log_view **view; /* storage for a view */
};

/* @arguments: of the other server, ended by NULL; NULL: none. */
void two_nodes_start(const struct two_nodes *t, const char *const *arguments);
void two_nodes_stop(const struct two_nodes *t);
/* Make the filter; its lanes and shards lie on @at. */
void two_nodes_make(const struct two_nodes *t, const struct temp_redis *at, uint64_t capacity,
                    unsigned lanes);
/* The metadata node is killed, and starts with its file. */
void two_nodes_go_back(const struct two_nodes *t);
#endif
