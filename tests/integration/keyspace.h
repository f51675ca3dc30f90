/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_KEYSPACE_H
#define TESTS_INTEGRATION_KEYSPACE_H
/* Two coordinators of the same filters, and a look at the Redis nodes behind them. */
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
/* Until @command, an integer, gives @wanted. */
void keyspace_wait_integer(struct client *c, const char *command, int64_t wanted);
/* The error that a command gives, in static storage. */
const char *keyspace_refusal(struct client *c, const char *command);
/* A command to node 0 itself, which it must not refuse. */
void keyspace_ask_redis(const char *command);

/* The codes [first, first + count), by coordinator @d: added; how many are reported present. */
void keyspace_add(unsigned d, const char *filter, uint64_t first, uint64_t count);
uint64_t keyspace_present(unsigned d, const char *filter, uint64_t first, uint64_t count);

/* The same of a filter that was deleted before, until there are at most @most. Who keeps it as a log may find
 * keys in memory until it hears of that, within seconds. */
void keyspace_are_gone(unsigned d, const char *filter, uint64_t first, uint64_t count, uint64_t most);

/* No shard of the filter lies on a node without a TTL. */
void keyspace_nothing_is_left_of(const char *filter);
#endif
