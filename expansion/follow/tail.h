/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_TAIL_H
#define EXPANSION_FOLLOW_TAIL_H
/* The tail: rows that come into a filter's tables without BF.ADD follow into the filter, always. One
 * coordinator has a filter's tail at a time, by a lease without a fencing token: adding twice does no harm.
 * Three modes:
 *   keyset   by ids, which must be integers that grow: rows above the ids that were seen, and again what lies
 *            above those below which nothing can be committed any more. A row with an explicit low id, or
 * whose key changed, is left to the next build's sweep. logical  a logical replication slot
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
#include "shard/redis/link.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"

enum tail_mode { TAIL_KEYSET, TAIL_LOGICAL, TAIL_OUTBOX };

/* "keyset", ... */
const char *tail_mode_name(enum tail_mode mode);

/* Why rows cannot be followed by ids. */
#define TAIL_NO_INTEGER                                                                                      \
    "the id is no single integer column; set follow_by = outbox or logical, or follow = no"

enum { TAIL_SLOT_MAX = 64 };
/* The slot of a filter: as @configured; "": twinbloom_ and the filter's name, made legal. */
void tail_slot_of(char out[TAIL_SLOT_MAX], const char *configured, const char *filter);

struct filters;

struct tail_options {
    const struct nodes *nodes;
    const char *prefix;
    const char *filter;
    size_t filter_length;
    const char *owner;    /* names this coordinator */
    struct filters *logs; /* of this process */
    struct source_config source;
    struct pool *pool; /* that the source's connection comes from */
    enum tail_mode mode;
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
void tail_run(const struct tail_options *options);

/* Drop the slot that a tail of the filter has left, if no tail is there. ERR_BUSY: somebody uses it. */
MUST_CHECK enum err tail_clean(const struct tail_options *options, struct error *e);

/* --- for jobs --- */

enum { TAIL_COVERAGE_MAX = 24, TAIL_TEXT_MAX = 256 };

/* What a filter's tail last said. */
struct tail_status {
    bool exists, running;
    enum tail_mode mode;
    char coverage[TAIL_COVERAGE_MAX]; /* the same as long as no row can have been missed */
    char error[TAIL_TEXT_MAX];
    uint64_t done; /* the last request that was answered */
};

MUST_CHECK enum err tail_look(struct link *l, const struct names *names, struct tail_status *out,
                              struct error *e);
/* Ask for a sign that all rows that are committed now are added: status.done reaches *@request. 0: there is
 * no tail. */
MUST_CHECK enum err tail_ask(struct link *l, const struct names *names, uint64_t *request, struct error *e);
#endif
