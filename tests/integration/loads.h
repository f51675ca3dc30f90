/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOADS_H
#define TESTS_INTEGRATION_LOADS_H
/* A generation of one layer on two servers, or on a cluster, whose shards a job loads. Keys are numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdatomic.h>
#include "shard/resident/load.h"
#include "tests/lib/temp_cluster.h"

enum { NODES = 2, TAG = 0xbee5, MIX = 77, KEYS = 3000, SYNC_CLIENT_MS = 2000, GENERATION = 3 };

extern const struct geometry loads_g; /* seven pieces a shard */

extern struct loads {
    struct temp_redis redis[NODES];
    struct temp_cluster cluster;
    struct nodes seeds, nodes;
    struct trusted eras; /* replication ids of all masters when a test began */
    bool changes;        /* the first node's id changes while shards are loaded */
    struct names names;
    struct placement placement;
    struct sync_client *link;
    struct budget budget;
    struct resident *r;
    uint8_t *shards;
    struct load load;
    unsigned failures, fenced;
    uint32_t failed_shard;
    enum err code;
    char why[512];
    uint64_t applied; /* keys that were added by entries while shards were loaded */
    _Atomic bool done;
} loads;

int loads_start(void **state);
int loads_stop(void **state);
int loads_start_cluster(void **state);
int loads_stop_cluster(void **state);

/* Write all shards with the keys [0, KEYS), and accept the replication ids that the masters have now. */
void loads_prepare(void);
void loads_finish(void);
/* Load all shards and end the load. Return how many shards are in memory then. */
uint32_t loads_all(void);

struct key_hash loads_hash(uint64_t key);
uint8_t loads_look(uint64_t key);
uint32_t loads_shard_of(uint64_t key);
struct key_name loads_name(uint32_t shard);
struct header loads_header(uint32_t shard);
/* Write @shard to Redis behind the header @h, without its last @cut bytes. */
void loads_write_shard(uint32_t shard, const struct header *h, size_t cut);
/* @what has a %b for @name, and one for @bytes. */
void loads_command(unsigned where, const char *what, const struct key_name *name, const void *bytes,
                   size_t length);
void loads_first_node_does(const char *what);
/* Call @what when @piece was asked for, counted from 1. It may change the number of the connection. */
void loads_at_piece(unsigned piece, void (*what)(uint64_t *connection));
#endif
