/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_FOLLOWER_H
#define EXPANSION_FOLLOW_FOLLOWER_H
/* The follower: rows that come into a filter's tables without BF.ADD follow into the filter, always. One
 * coordinator has a filter's follower at a time, by a lease without a fencing token: adding twice does no
 * harm. Three modes: keyset   by ids, which must be integers that grow: rows above the ids that were seen,
 * and again what lies above those below which nothing can be committed any more. A row with an explicit low
 * id, or whose key changed, is left to the next build's sweep. logical  a logical replication slot
 * (migrate/change/stream.h): every insert and update. outbox   a table that triggers write into
 * (migrate/change/outbox.h): the same.
 *
 * How it fares is in the hash P:{F}:tail, which expires with the lease. Marks, which last, are in
 * P:{F}:marks. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/source/pool.h"
#include "migrate/source/source.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"

enum follower_mode { FOLLOWER_KEYSET, FOLLOWER_LOGICAL, FOLLOWER_OUTBOX };

/* "keyset", ... */
const char *follower_mode_name(enum follower_mode mode);

/* Why rows cannot be followed by ids. */
#define FOLLOWER_NO_INTEGER                                                                                  \
    "the id is no single integer column; set follow_by = outbox or logical, or follow = no"

enum { FOLLOWER_SLOT_MAX = 64 };
/* The slot of a filter: as @configured; "": twinbloom_ and the filter's name, made legal. */
void follower_slot_of(char out[FOLLOWER_SLOT_MAX], const char *configured, const char *filter);

struct filters;

struct follower_options {
    const struct nodes *nodes;
    const char *prefix;
    const char *filter;
    size_t filter_length;
    const char *owner;    /* names this coordinator */
    struct filters *logs; /* of this process */
    struct source_config source;
    struct pool *pool; /* that the source's connection comes from */
    enum follower_mode mode;
    const char *publication, *slot; /* of logical */
    const char *outbox;
    uint64_t slot_wal_max; /* bytes that the server may keep for the slot; then it is dropped */
    bool always;           /* not only while a job runs */
    unsigned interval_ms;  /* of keyset */
    unsigned lease_ms;
    unsigned redis_timeout_ms;
    unsigned postgres_timeout_ms;
    unsigned settle_timeout_ms; /* how long a slot's making may wait for open transactions */
    const atomic_bool *stop;
    const atomic_bool *drop; /* whether a slot is to be dropped when it stops */
};

/* Follow until @options->stop. What fails is said in the log and the hash, and tried again. */
void follower_run(const struct follower_options *options);

/* Drop the slot that a follower of the filter has left, if no follower is there. ERR_BUSY: somebody uses it.
 */
MUST_CHECK enum err follower_clean(const struct follower_options *options, struct error *e);

/* --- for jobs --- */

enum { FOLLOWER_COVERAGE_MAX = 24, FOLLOWER_TEXT_MAX = 256 };

/* What a filter's follower last said. */
struct follower_status {
    bool exists, running;
    enum follower_mode mode;
    char coverage[FOLLOWER_COVERAGE_MAX]; /* the same as long as no row can have been missed */
    char error[FOLLOWER_TEXT_MAX];
    uint64_t done; /* the last request that was answered */
};

MUST_CHECK enum err follower_look(struct sync_client *l, const struct names *names,
                                  struct follower_status *out, struct error *e);
/* Ask for a sign that all rows that are committed now are added: status.done reaches *@request. 0: there is
 * no follower. */
MUST_CHECK enum err follower_ask(struct sync_client *l, const struct names *names, uint64_t *request,
                                 struct error *e);
#endif
