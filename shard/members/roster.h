/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_ROSTER_H
#define SHARD_MEMBERS_ROSTER_H
/* The roster: which coordinators there are, as each says of itself once a second.
 *   P:coordinators           set of ids
 *   P:{P:coordinators}:<id>  hash with a TTL: the fields below, and epoch:<filter> = <incarnation>:<epoch>
 *                            of each filter whose view it holds
 * In a cluster all of it lies in one slot.
 *
 * How long ago a coordinator was there follows from the rest of its record's TTL, so that no clock but that
 * of Redis matters. A record that is lost (FLUSHALL, eviction) is whole again
 * after two beats. Nothing relies on the roster being complete: it is for people, and for what would
 * otherwise end in errors. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/link.h"
#include "shard/redis/script_call.h"

enum {
    ROSTER_KEEP_MS = 3600 * 1000, /* how long one that is gone is listed */
    ROSTER_GONE_MS = 6000,        /* after so long without a beat it counts as gone */
    ROSTER_MAX = 1024,            /* in the list */
    ROSTER_ID_MAX = 96,
    ROSTER_CHANGES_MAX = 500 /* epochs in one beat */
};

/* Fields of a record; later versions may have more, and earlier ones less. Lists have a newline between two
 * items. */
#define ROSTER_FIELDS(X)                                                                                     \
    X(ROSTER_HOST, "host")                                                                                   \
    X(ROSTER_PID, "pid")                                                                                     \
    X(ROSTER_VERSION, "version")                                                                             \
    X(ROSTER_FORMAT, "format") /* the latest format of views that it knows */                                \
    X(ROSTER_STATE, "state")   /* serving, leaving */                                                        \
    X(ROSTER_LISTEN, "listen")                                                                               \
    X(ROSTER_HTTP, "http")                                                                                   \
    X(ROSTER_UPTIME, "uptime_ms")                                                                            \
    X(ROSTER_CLIENTS, "clients")                                                                             \
    X(ROSTER_JOBS, "jobs")                     /* list: filters whose jobs it drives */                      \
    X(ROSTER_SERVES, "filters")                /* how many it holds views of */                              \
    X(ROSTER_BEHIND, "behind")                 /* of how many an older one than Redis has */                 \
    X(ROSTER_BEHIND_FILTERS, "behind_filters") /* list: some of these */                                     \
    X(ROSTER_REDIS, "redis")                   /* ok, or which nodes are away and why */                     \
    X(ROSTER_POSTGRES, "postgres")             /* the same; none: it needs none */                           \
    X(ROSTER_NODES, "nodes")                   /* list: configured, home first; or that it is a cluster */   \
    X(ROSTER_KEEP, "keep_ms")                  /* the TTL that the record is given */

enum roster_field {
#define X(field, name) field,
    ROSTER_FIELDS(X)
#undef X
        ROSTER_FIELD_COUNT
};

/* --- one's own record --- */

/* A beat that is being put together: fields first, then epochs. Zero-initialise; roster_fini() at the end. */
struct roster_beat {
    char prefix[PREFIX_MAX + 1];
    char id[ROSTER_ID_MAX];
    struct script_call call;
    size_t pairs;
    size_t gone;
    char forgotten[ROSTER_CHANGES_MAX][FILTER_NAME_MAX + 8];
};

void roster_begin(struct roster_beat *b, const char *prefix, const char *id);
void roster_text(struct roster_beat *b, enum roster_field field, const char *value);
void roster_number(struct roster_beat *b, enum roster_field field, uint64_t value);
/* @filter is escaped, as in key names. @epoch 0: it holds no view any more. At most ROSTER_CHANGES_MAX. */
void roster_epoch(struct roster_beat *b, const char *filter, uint64_t incarnation, uint64_t epoch);
/* *@whole: the record was there. If not, epochs that were written before are gone. ERR_UNREACHABLE,
 * ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err roster_write(struct roster_beat *b, struct link *l, bool *whole, struct error *e);
/* Take oneself off the roster: a clean end. */
MUST_CHECK enum err roster_leave(struct link *l, const char *prefix, const char *id, struct error *e);
void roster_fini(struct roster_beat *b);

/* --- everybody's --- */

struct roster_entry {
    const char *id;
    uint64_t age_ms; /* since its last beat */
    bool gone;
    const redisReply *values; /* by enum roster_field, then the epoch that was asked for */
    uint64_t incarnation;     /* of the filter that was asked for; 0: it holds no view of it */
    uint64_t epoch;
};

/* The value as text; "" where there is none. */
const char *roster_value(const struct roster_entry *entry, enum roster_field field);

/* The time by the Redis node that has the list, in ms since the Unix epoch. */
MUST_CHECK enum err roster_clock(struct link *l, const char *prefix, uint64_t *ms, struct error *e);

/* Called for each, by id; not for those that are forgotten. */
typedef void roster_fn(void *arg, const struct roster_entry *entry);
/* @filter: escaped; its epochs are read too. NULL: none. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err roster_read(struct link *l, const char *prefix, const char *filter, roster_fn *fn,
                                void *arg, struct error *e);

/* Every coordinator that is not gone has @g's nodes in its configuration. ERR_REFUSED names one that has not:
 * it would answer errors for the filter as soon as a view names them. */
MUST_CHECK enum err roster_knows(struct link *l, const char *prefix, const struct generation *g,
                                 struct error *e);

#endif
