/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_FOLLOWER_H
#define EXPANSION_FOLLOW_FOLLOWER_H
/* The follower: adds rows that come into a filter's tables without BF.ADD. One coordinator at a time follows
 * for a filter, by a lease: adding twice is harmless, and marks are written under it. Three modes:
 * - keyset: by ids, which must be growing integers. Reads rows above the ids seen so far, and rereads rows
 *   above the ids below which nothing can be committed any more. A row with an explicit low id, or whose key
 *   changed, is left to the next build's sweep.
 * - logical: a logical replication slot (migrate/change/stream.h): every insert and update.
 * - outbox: a table that triggers write to (migrate/change/outbox.h): every insert and update.
 *
 * Its status is in the hash P:{F}:tail, which expires with the lease. Marks, which persist, are in
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

const char *follower_mode_name(enum follower_mode mode);

/* Why rows cannot be followed by ids: the text of an error. */
#define FOLLOWER_NO_INTEGER                                                                                  \
    "the id is no single integer column; set follow_by = outbox or logical, or follow = no"

enum { FOLLOWER_SLOT_MAX = 64 };
/* The name of a filter's slot: @configured; if that is "", twinbloom_ and the filter's name with illegal
 * characters replaced. */
void follower_slot_of(char out[FOLLOWER_SLOT_MAX], const char *configured, const char *filter);

struct filters;

struct follower_options {
    const struct nodes *nodes;
    const char *prefix;
    const char *filter;
    size_t filter_length;
    const char *owner;    /* this coordinator's name */
    struct filters *logs; /* this process's filters */
    struct source_config source;
    struct pool *pool; /* provides the source's connection */
    enum follower_mode mode;
    const char *publication, *slot; /* for mode logical */
    const char *outbox;
    uint64_t slot_wal_max; /* bytes of WAL for the slot; above, it is dropped */
    bool always;           /* false: only while a job runs */
    unsigned interval_ms;  /* between rounds of mode keyset */
    unsigned lease_ms;
    unsigned redis_timeout_ms;
    unsigned postgres_timeout_ms;
    unsigned settle_timeout_ms; /* how long making a slot may wait for open transactions */
    const atomic_bool *stop;
    const atomic_bool *drop; /* whether to drop the slot when the follower stops */
};

/* Follow until @options->stop. Failures are reported in the log and the hash, and retried. */
void follower_run(const struct follower_options *options);

/* Drop the slot that a follower of the filter has left, unless a follower runs. ERR_BUSY: a connection uses
 * the slot. */
MUST_CHECK enum err follower_clean(const struct follower_options *options, struct error *e);

/* --- for jobs --- */

enum { FOLLOWER_COVERAGE_MAX = 24, FOLLOWER_TEXT_MAX = 256 };

/* The last report of a filter's follower. */
struct follower_status {
    bool exists, running;
    enum follower_mode mode;
    /* Unchanged as long as no row can have been missed that is committed on the server, and is one of the
     * rows, that it names: follower_covers(). */
    char coverage[FOLLOWER_COVERAGE_MAX];
    char error[FOLLOWER_TEXT_MAX];
    uint64_t done; /* the last request that was fulfilled */
};

/* A hash of which rows are read, and which keys of them. */
uint64_t follower_rows(const struct source *s);
/* Write a coverage: of @rows, which is follower_rows() and the server, joined by ^; told from others by
 * @number. */
void follower_coverage(uint64_t rows, uint64_t number, char out[FOLLOWER_COVERAGE_MAX]);
bool follower_covers(const struct follower_status *status, uint64_t rows);

MUST_CHECK enum err follower_look(struct sync_client *l, const struct names *names,
                                  struct follower_status *out, struct error *e);
/* Request a sign that all rows committed by now are added: it has come when status.done reaches *@request.
 * *@request 0: no follower runs. */
MUST_CHECK enum err follower_ask(struct sync_client *l, const struct names *names, uint64_t *request,
                                 struct error *e);
/* If the mark of @table is above @upto ("": the table is empty), lower it: ids went back, and a follower that
 * begins at the mark would miss those below it. */
MUST_CHECK enum err follower_lower_mark(struct sync_client *l, const struct names *names, const char *table,
                                        const char *upto, struct error *e);
#endif
