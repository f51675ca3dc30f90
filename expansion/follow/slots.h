/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_SLOTS_H
#define EXPANSION_FOLLOW_SLOTS_H
/* The replication slots of an installation, and their removal. If a slot's filter is no longer configured, or
 * configured otherwise, nothing else drops the slot, and the database keeps WAL for it without end.
 *
 * Before a slot is made, it is noted in the hash P:slots: server, database and name; when a coordinator
 * whose configuration names it was last seen; its filter. Every coordinator examines all of them now and
 * then. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "expansion/follow/follower.h"
#include "migrate/change/stream.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/nodes/nodes.h"

struct slots_options {
    const struct nodes *nodes;
    const char *prefix;
    const char *dsn;                        /* "": no Postgres */
    const char (*named)[FOLLOWER_SLOT_MAX]; /* slots in this coordinator's configuration */
    size_t named_count;
    uint64_t grace_ms;
    uint64_t slot_wal_max;
    uint64_t watched_ms; /* time since this process's first look */
    unsigned redis_timeout_ms;
    unsigned postgres_timeout_ms;
    const atomic_bool *stop;
};

/* Note that slot @slot at @place is made, or about to be made, for @filter. */
MUST_CHECK enum err slots_note(struct sync_client *l, const char *prefix, const char *place, const char *slot,
                               const char *filter, struct error *e);

/* Record that this coordinator names its own slots. Of the installation's slots that no connection reads
 * from, drop those that no coordinator has named for @grace_ms, or that retain more than @slot_wal_max bytes;
 * warn about the rest. Blocks. */
MUST_CHECK enum err slots_reconcile(const struct slots_options *o, struct error *e);

struct slots_use {
    bool named;          /* this coordinator's configuration names the slot */
    uint64_t unnamed_ms; /* time since a coordinator that names it, or a reader, was last seen */
    uint64_t watched_ms; /* since this process's first look */
};

/* What to do with a slot. Pure. */
enum slot_fate {
    SLOT_NEEDED, /* a connection reads from it, or may read */
    SLOT_UNUSED, /* unused, but kept for some time */
    SLOT_DROP,
    SLOT_FORGET /* it does not exist, or is another's now */
};
enum slot_fate slots_judge(const struct stream_slot *slot, const struct slots_use *use, uint64_t grace_ms,
                           uint64_t slot_wal_max);
#endif
