/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_MUTEX_H
#define EXPANSION_RECORD_MUTEX_H
/* The mutex key P:{F}:expansion_flag: a lease that one expansion job of a filter
 * holds. Its value is "<owner>/<id of its taking, 16 hexadecimal digits>:<token>"; the fencing token grows
 * with every taking, unless its node comes back with older data, and every script on view and job compares
 * the value, which never comes twice. A thread of its own renews the lease every third of its TTL. Losing it
 * is no danger, only a reason to stop: the scripts refuse what comes late. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"

struct sync_client;

struct mutex;

struct mutex_options {
    const struct nodes *nodes; /* borrowed */
    struct sync_client
        *redis; /* of the caller's thread, to take and to release by; borrowed. NULL: one of its own */
    const char *prefix;
    const char *filter;
    size_t filter_length;
    const char *owner; /* names this coordinator; no ':' */
    unsigned lease_ms;
    unsigned redis_timeout_ms;
};

/* ERR_BUSY: somebody holds it; the text names the holder and the rest of the lease. ERR_UNREACHABLE,
 * ERR_TIMEOUT. */
MUST_CHECK enum err mutex_acquire(struct mutex **out, const struct mutex_options *options, struct error *e);
/* The same, but while somebody holds it wait for its release or the end of the holder's lease, whichever
 * comes first, and try again; for @wait_ms at most. A release is heard of by P:events, on a connection of
 * this call; where Redis does not let this user subscribe, only the end of the lease is waited for (logged
 * once). ERR_BUSY after the wait: the text names the holder. */
MUST_CHECK enum err mutex_wait(struct mutex **out, const struct mutex_options *options, unsigned wait_ms,
                               struct error *e);

/* Whether mutex_acquire() would have to wait; takes nothing. ERR_BUSY as it says it; ERR_UNREACHABLE, ... */
MUST_CHECK enum err mutex_look(struct sync_client *l, const struct names *names, struct error *e);

const char *mutex_value(const struct mutex *m);
uint64_t mutex_token(const struct mutex *m);
/* Random, never 0: of this taking, and of the job that begins under it. */
uint64_t mutex_id(const struct mutex *m);
/* @value is that of the taking with @id. */
bool mutex_is_of(const char *value, uint64_t id);
/* True once Redis has said that the lease is another's. */
bool mutex_lost(const struct mutex *m);
/* Stop renewing, delete the key if it still is ours, wake waiters by the events channel, free. NULL is fine.
 */
void mutex_release(struct mutex *m);
#endif
