/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_FILTERS_H
#define TESTS_INTEGRATION_FILTERS_H
/* Filters in Redis nodes of the test, as jobs have them (shard/view/handle.h), without any daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shard/view/handle.h"
#include "shard/filter/hash.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_cluster.h"
#include "tests/lib/temp_redis.h"

/* Fail the test with the error's text unless @expression gives @code. Main thread only. */
#define gives(code, expression, e)                                                                           \
    do {                                                                                                     \
        enum err got_ = (expression);                                                                        \
        if (got_ != (code))                                                                                  \
            fail_msg("%s: %s (%s), expected %s", #expression, error_name(got_), (e).text, error_name(code)); \
    } while (0)
#define must(expression, e) gives(ERR_OK, expression, e)

#define PREFIX "test"
#define MUTEX "owner:7"

enum {
    SERVERS_MAX = 2,
    SYNC_CLIENT_MS = 2000,
    TOKEN = 7, /* the token of MUTEX */
    INCARNATION = 0xabcdef
};

/* With TWINBLOOM_TEST_CLUSTER in the environment, the servers are the CLUSTER_MASTERS masters of a cluster.
 * Then the commands below ignore @node and go to the master that holds their key. */
enum { CLUSTER_MASTERS = 3 };
struct servers {
    unsigned count;
    struct temp_cluster cluster;
    struct temp_redis redis[SERVERS_MAX];
    struct client client[SERVERS_MAX];
    struct nodes nodes;
};

/* For a CMocka group. Returns 0 if all servers run. */
int servers_start(struct servers *s, unsigned count);
int servers_stop(struct servers *s);
/* The connection to node @i; NULL: there are no more nodes. */
struct client *servers_each(struct servers *s, unsigned i);
/* FLUSHALL of all nodes. */
void servers_flush(struct servers *s);

/* The reply to a command, never NULL. The caller frees it. */
redisReply *servers_command(struct servers *s, unsigned node, const char *format, ...);
/* The integer that a command gives; anything else fails the test. */
long long servers_integer(struct servers *s, unsigned node, const char *format, ...);
/* The string or status that a command gives ("" for nil), in one of a few static buffers. */
const char *servers_text(struct servers *s, unsigned node, const char *format, ...);

/* One filter as a job sees it: with its own link, the names, and the view that this job has read. */
struct filter {
    struct servers *servers;
    struct handle handle;
    struct view view;
};

/* Set the names, and the filter's mutex key in Redis to MUTEX. Nothing else is made in Redis. */
void filter_init(struct filter *f, struct servers *s, const char *name);
void filter_fini(struct filter *f);

/* Generation @number with one layer of @shards shards over all nodes, and token TOKEN. */
struct generation filter_generation(const struct filter *f, uint64_t number, uint32_t shards);

/* The stored view, in static storage. */
const struct view *filter_stored(struct filter *f);

/* The name of a shard that is being loaded, in static storage; and the shard's node. */
const struct key_name *filter_new_shard(const struct filter *f, uint64_t generation, uint32_t shard);
unsigned filter_node(const struct filter *f, uint32_t shard);
/* The shard's address, for the filter's link. */
unsigned filter_where(const struct filter *f, const struct generation *g, uint32_t shard);
#endif
