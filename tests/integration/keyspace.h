/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_KEYSPACE_H
#define TESTS_INTEGRATION_KEYSPACE_H
/* Two coordinators of the same filters, and clients of the Redis nodes behind them. */
#include "tests/integration/fixture.h"

enum { KEYSPACE_REPLY_MS = 20000 };

struct keyspace {
    struct fixture fixture;
    struct client redis[2]; /* the nodes themselves */
};

extern struct keyspace keyspace;

/* For a CMocka group. The filter `fixed` is configured. */
int keyspace_setup(void **state);
int keyspace_teardown(void **state);

/* The integer that a command gives. */
int64_t keyspace_integer(struct client *c, const char *command);
/* Wait until @command gives the integer @wanted. */
void keyspace_wait_integer(struct client *c, const char *command, int64_t wanted);
/* The error that a command gives, in static storage. */
const char *keyspace_refusal(struct client *c, const char *command);
/* Send a command to node 0 itself, which must not refuse it. */
void keyspace_ask_redis(const char *command);

/* Add the codes [first, first + count) by coordinator @d; count those that it reports present. */
void keyspace_add(unsigned d, const char *filter, uint64_t first, uint64_t count);
uint64_t keyspace_present(unsigned d, const char *filter, uint64_t first, uint64_t count);

/* For a filter that was deleted: wait until at most @most of the codes are reported present. A coordinator
 * may find keys of a log in memory until it learns of the deletion, within seconds. */
void keyspace_are_gone(unsigned d, const char *filter, uint64_t first, uint64_t count, uint64_t most);

/* Every shard of the filter that is left on a node must have a TTL. */
void keyspace_nothing_is_left_of(const char *filter);
#endif
