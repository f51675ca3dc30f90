/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_FOLLOW_SLOTS_H
#define EXPANSION_FOLLOW_SLOTS_H
/* The replication slots that an installation has made, and those that it needs no more. A slot whose filter
 * is configured no longer, or otherwise, has nobody who drops it, and the database keeps its log for it
 * without end.
 *
 * Each slot is noted in the hash P:slots before it is made: server, database and name, when a coordinator
 * whose configuration names it was last seen, and for which filter. Every coordinator looks at all of them
 * now and then. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/change/stream.h"
#include "shard/redis/sync_client.h"
#include "shard/redis/nodes/nodes.h"

struct slots_options {
    const struct nodes *nodes;
    const char *prefix;
    const char *dsn;          /* "": none */
    const char *const *named; /* slots that this coordinator's configuration names */
    size_t named_count;
    uint64_t grace_ms;
    uint64_t slot_wal_max;
    uint64_t watched_ms; /* since this process looked first */
    bool first; /* of this process: slots that are noted with their filters alone, by an earlier version,
                   count too */
    unsigned redis_timeout_ms;
    unsigned postgres_timeout_ms;
    const atomic_bool *stop;
};

/* Slot @slot at @place is, or is about to be, made for @filter. */
MUST_CHECK enum err slots_note(struct sync_client *l, const char *prefix, const char *place, const char *slot,
                               const char *filter, struct error *e);

/* Note that this coordinator names its own; drop those of ours that nobody reads from and that no coordinator
 * has named for
 * @grace_ms, or which hold more than @slot_wal_max; warn of the others. Blocks. */
MUST_CHECK enum err slots_reconcile(const struct slots_options *o, struct error *e);

struct slots_use {
    bool named;          /* by the configuration of this coordinator */
    uint64_t unnamed_ms; /* since one that names it, or somebody who read from it, was last seen */
    uint64_t watched_ms; /* since this process looked at slots first */
};

/* What is to become of a slot. Pure. */
enum slot_fate {
    SLOT_NEEDED, /* somebody reads from it, or may */
    SLOT_UNUSED, /* it is kept for a while yet */
    SLOT_DROP,
    SLOT_FORGET /* it is not there, or another's by now */
};
enum slot_fate slots_judge(const struct stream_slot *slot, const struct slots_use *use, uint64_t grace_ms,
                           uint64_t slot_wal_max);
#endif
