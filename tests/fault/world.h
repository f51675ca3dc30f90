/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_WORLD_H
#define TESTS_FAULT_WORLD_H
/* Redis nodes or a Redis Cluster, Postgres and coordinators. A proxy is between coordinators and servers, but
 * not before a cluster, whose nodes tell clients their own addresses. The tests themselves talk to the
 * servers directly. Main thread only, but for world_status(). */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/proxy.h"
#include "tests/lib/temp_cluster.h"
#include "tests/lib/temp_postgres.h"
#include "tests/lib/temp_redis.h"

#define WORLD_FILTER "short-link"
#define WORLD_TABLE "short_link"
#define WORLD_VIEW "twinbloom:{" WORLD_FILTER "}:view"

enum {
    WORLD_NODES = 2,
    WORLD_PAIRS = 3,
    WORLD_COORDINATORS_MAX = 3,
    WORLD_STATUS_MAX = 1500,
    WORLD_REPLY_MS = 3000
};

struct world;

/* Lines of the coordinators' configuration. */
struct world_options {
    unsigned coordinators;
    const char *service, *redis, *postgres, *expansion, *filter;
    const char *settings;             /* of Postgres; NULL: none */
    bool (*prepare)(struct world *w); /* called when the table is there; NULL: nothing is */
    bool cluster;    /* WORLD_PAIRS masters, each with a replica; else WORLD_NODES nodes behind the proxy */
    bool fake_clock; /* world_clock() works */
    bool state_file; /* all coordinators share one */
    bool keep;       /* leave the directories behind */
};

struct world {
    unsigned coordinators;
    bool keep;
    bool clustered;
    struct temp_redis redis[WORLD_NODES]; /* unless @clustered */
    struct temp_cluster cluster;          /* if @clustered */
    unsigned home_slot;
    struct temp_postgres postgres;
    struct proxy *proxy;
    unsigned redis_route[WORLD_NODES], postgres_route;
    struct daemon daemon[WORLD_COORDINATORS_MAX];
    bool runs[WORLD_COORDINATORS_MAX];
    bool hit[WORLD_COORDINATORS_MAX]; /* a fault of this coordinator is in force */
    char directory[PATH_MAX];         /* of this world: users of Redis, clocks */
    char users[PATH_MAX + 16];        /* the ACL file; a restarted Redis reads it again */
    char *clock_words[WORLD_COORDINATORS_MAX][5];
    int clock[WORLD_COORDINATORS_MAX]; /* file descriptors; 0: none */
    PGconn *db;                        /* a session of the superuser */
    char failed[200];                  /* what a fault has found that must not be; "": nothing */
    uint64_t shards_hit; /* the last generation when a fault had taken or changed shards; 0: none has */
    unsigned unclean;    /* how often a coordinator was asked to end and did not end cleanly */
    struct client order; /* the connection of the last rebuild that was ordered */
};

/* Everything runs, the table is there and empty, the filter is configured. */
MUST_CHECK enum err world_start(struct world *w, const struct world_options *o, struct error *e);

/* End all processes. False: a coordinator did not end cleanly. */
bool world_stop(struct world *w);

/* The number of targets for faults of Redis: nodes, or pairs of a master and its replica. */
unsigned world_targets(const struct world *w);

/* The node @target, or the present master of the pair @target; NULL: there is none. */
struct temp_redis *world_node(struct world *w, unsigned target);

/* The node that holds the filter's view; NULL: no node of the cluster answers for its slot now. */
struct temp_redis *world_home(struct world *w);

/* The name of coordinator @i's user at the servers and the proxy. */
const char *world_user(unsigned i);

MUST_CHECK enum err world_launch(struct world *w, unsigned i, struct error *e);
void world_kill(struct world *w, unsigned i);
bool world_end(struct world *w, unsigned i); /* SIGTERM; false: not cleanly */

/* Coordinator @i's wall clock is off by so many seconds from now on. Needs fake_clock. */
void world_clock(struct world *w, unsigned i, int64_t seconds);

/* How often a line with @text and @more is in the logs of all coordinators. */
uint64_t world_logged(const struct world *w, const char *text, const char *more);

/* For PQsetNoticeProcessor(), which would print the notices of a server that ends to standard error. Any
 * thread. */
void world_ignore_notice(void *arg, const char *message);

/* Run SQL. False: it failed. */
bool world_sql(struct world *w, const char *format, ...) PRINTF_LIKE(2, 3);

/* --- the filter --- */

/* The number of the generation that was made last; 0: not known. */
uint64_t world_generation(struct world *w);

/* Order a rebuild, and do not wait for the answer. */
void world_order_rebuild(struct world *w, unsigned i);

/* Whether the filter is at rest by the data in Redis: one generation, no mutex, no job. @text describes its
 * state. */
bool world_is_at_rest(struct world *w, char text[WORLD_STATUS_MAX]);
MUST_CHECK enum err world_wait_rest(struct world *w, unsigned deadline_ms, struct error *e);

/* The coordinator that holds the mutex; WORLD_COORDINATORS_MAX: none. */
unsigned world_driver(struct world *w);

/* Whether coordinator @i says "no" to keys that were never added; else its "yes" proves nothing. */
bool world_discerns(struct world *w, unsigned i);

/* Wait until the filter is at rest and every coordinator that runs discerns; order rebuilds meanwhile.
 * *@rebuilds, which may be NULL, counts them. */
MUST_CHECK enum err world_heal(struct world *w, unsigned deadline_ms, unsigned *rebuilds, struct error *e);

/* Rebuild through coordinator @i, which must succeed. */
MUST_CHECK enum err world_rebuild(struct world *w, unsigned i, unsigned deadline_ms, struct error *e);

/* All of TB.STATUS in one line. Any thread. */
void world_status(struct client *client, char out[WORLD_STATUS_MAX]);
#endif
