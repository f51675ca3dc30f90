/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_MEMBERS_H
#define SHARD_MEMBERS_MEMBERS_H
/* The list of members: which coordinators there are, as each says of itself once a second.
 *   P:coordinators           set of ids
 *   P:{P:coordinators}:<id>  hash with a TTL: the fields below, and epoch:<filter> = <incarnation>:<epoch>
 *                            of each filter whose view the coordinator holds
 * In a cluster all of it lies in one slot.
 *
 * The rest of a record's TTL says how long ago the coordinator's last heartbeat was, so only the clock of
 * Redis matters. A record that is lost (FLUSHALL, eviction) is complete again with the next one. Nothing
 * relies on the list being complete: it is for people, and avoids some errors. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/script_call.h"

enum {
    MEMBERS_KEEP_MS = 3600 * 1000, /* how long one that is gone stays in the list */
    MEMBERS_GONE_MS = 6000,        /* without a heartbeat for so long it counts as gone */
    MEMBERS_MAX = 1024,            /* in the list */
    MEMBERS_ID_MAX = 96,
    MEMBERS_CHANGES_MAX = 500 /* epochs in one heartbeat */
};

/* Fields of a record; later versions may have more, earlier ones fewer. Items of a list are separated by
 * newlines. */
#define MEMBERS_FIELDS(X)                                                                                    \
    X(MEMBERS_HOST, "host")                                                                                  \
    X(MEMBERS_PID, "pid")                                                                                    \
    X(MEMBERS_VERSION, "version")                                                                            \
    X(MEMBERS_FORMAT, "format") /* the latest format of views that it knows */                               \
    X(MEMBERS_STATE, "state")   /* serving, leaving */                                                       \
    X(MEMBERS_LISTEN, "listen")                                                                              \
    X(MEMBERS_HTTP, "http")                                                                                  \
    X(MEMBERS_UPTIME, "uptime_ms")                                                                           \
    X(MEMBERS_CLIENTS, "clients")                                                                            \
    X(MEMBERS_JOBS, "jobs")                     /* list: filters whose jobs it drives */                     \
    X(MEMBERS_SERVES, "filters")                /* number of filters whose views it holds */                 \
    X(MEMBERS_BEHIND, "behind")                 /* number of those whose view is older than in Redis */      \
    X(MEMBERS_BEHIND_FILTERS, "behind_filters") /* list: some of those */                                    \
    X(MEMBERS_REDIS, "redis")                   /* ok, or which nodes are down and why */                    \
    X(MEMBERS_POSTGRES, "postgres")             /* likewise; none: it needs none */                          \
    X(MEMBERS_NODES, "nodes")                   /* list: the configured nodes, the metadata node first; or   \
                                                 * that it is a cluster */                                   \
    X(MEMBERS_KEEP, "keep_ms")                  /* the TTL of the record */

enum members_field {
#define X(field, name) field,
    MEMBERS_FIELDS(X)
#undef X
        MEMBERS_FIELD_COUNT
};

/* --- the own record --- */

/* A heartbeat that is being put together: fields first, then epochs. Zero-initialise it, and call
 * members_fini() at the end. */
struct members_heartbeat {
    char prefix[PREFIX_MAX + 1];
    char id[MEMBERS_ID_MAX];
    struct script_call call;
    size_t pairs;
    size_t gone;
    char forgotten[MEMBERS_CHANGES_MAX][FILTER_NAME_MAX + 8];
};

void members_begin(struct members_heartbeat *b, const char *prefix, const char *id);
void members_text(struct members_heartbeat *b, enum members_field field, const char *value);
void members_number(struct members_heartbeat *b, enum members_field field, uint64_t value);
/* @filter is escaped, as in key names. @epoch 0: the coordinator no longer holds a view of it. At most
 * MEMBERS_CHANGES_MAX calls. */
void members_epoch(struct members_heartbeat *b, const char *filter, uint64_t incarnation, uint64_t epoch);
/* *@whole: the record was there. If not, epochs of former heartbeats are lost. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED. */
MUST_CHECK enum err members_write(struct members_heartbeat *b, struct sync_client *l, bool *whole,
                                  struct error *e);
/* Leave the list, at a clean end. */
MUST_CHECK enum err members_leave(struct sync_client *l, const char *prefix, const char *id, struct error *e);
void members_fini(struct members_heartbeat *b);

/* --- all records --- */

struct members_entry {
    const char *id;
    uint64_t age_ms; /* since the last heartbeat */
    bool gone;
    const redisReply *values; /* by enum members_field, then the epoch that was asked for */
    uint64_t incarnation;     /* of the filter that was asked for; 0: the coordinator holds no view of it */
    uint64_t epoch;
};

/* A field's value as text; "" if there is none. */
const char *members_value(const struct members_entry *entry, enum members_field field);
/* A field's value as a number that fits into an int64_t; 0 if there is none. */
uint64_t members_figure(const struct members_entry *entry, enum members_field field);
/* Write the names of @nodes as they stand in MEMBERS_NODES. */
void members_list_nodes(const struct nodes *nodes, struct buffer *out);

/* The time of the Redis node that has the list, Unix time in ms. */
MUST_CHECK enum err members_clock(struct sync_client *l, const char *prefix, uint64_t *ms, struct error *e);

/* Called for each member, in order of ids, except those that are dropped from the list. */
typedef void members_fn(void *arg, const struct members_entry *entry);
/* @filter: an escaped name, whose epochs are read, too; NULL: none. ERR_UNREACHABLE, ERR_TIMEOUT,
 * ERR_REFUSED. */
MUST_CHECK enum err members_read(struct sync_client *l, const char *prefix, const char *filter,
                                 members_fn *fn, void *arg, struct error *e);

/* Check that every coordinator which is not gone has the nodes of @g in its configuration. ERR_REFUSED names
 * one that does not: it would return errors for the filter as soon as a view names these nodes. */
MUST_CHECK enum err members_knows(struct sync_client *l, const char *prefix, const struct generation *g,
                                  struct error *e);

#endif
