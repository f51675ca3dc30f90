/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_MUTEX_H
#define EXPANSION_RECORD_MUTEX_H
/* The mutex key P:{F}:expansion_flag: a lease that one expansion job of a filter holds. Its value is
 * "<owner>/<random id, 16 hexadecimal digits>:<token>". The fencing token grows with every taking, unless its
 * node returns with older data. The value never comes twice. Every script that a job sends to its record or
 * its view compares it, or the builder's token (shard/generations/build.h). A thread renews the lease every
 * third of its TTL. Losing the lease is no danger, only a reason to stop: the scripts reject late commands.
 */
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
        *redis; /* the caller's thread's, to take and release; borrowed. NULL: the mutex makes its own */
    const char *prefix;
    const char *filter;
    size_t filter_length;
    const char *owner; /* this coordinator's name, without ':' */
    unsigned lease_ms;
    unsigned redis_timeout_ms;
};

/* While the mutex is held, wait for its release or the end of the lease, and try again, for at most @wait_ms.
 * Releases are announced on P:events, over a connection of this call; if Redis does not let this user
 * subscribe, only the end of the lease is awaited (logged once). ERR_BUSY: another owner holds it; the text
 * names the holder and the rest of the lease. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err mutex_acquire(struct mutex **out, const struct mutex_options *options, unsigned wait_ms,
                                  struct error *e);

/* The mutex as it lies in Redis. */
struct mutex_found {
    char value[160];   /* "": it is free */
    long long left_ms; /* the rest of the lease; negative: it has no end */
};
MUST_CHECK enum err mutex_read(struct sync_client *l, const struct names *names, struct mutex_found *out,
                               struct error *e);

/* Check, without taking it, whether the mutex is held: ERR_BUSY as of mutex_acquire(); ERR_UNREACHABLE,
 * ... A lease without an end gets one, in a minute: a holder that is there renews it before. */
MUST_CHECK enum err mutex_look(struct sync_client *l, const struct names *names, struct error *e);
/* Ask ahead (shard/redis/ahead.h) for what mutex_look() asks first. */
void mutex_ask_ahead(struct sync_client *l, unsigned user, const struct names *names);

const char *mutex_value(const struct mutex *m);
uint64_t mutex_token(const struct mutex *m);
/* Random, never 0: identifies this taking, and the job that begins under it. */
uint64_t mutex_id(const struct mutex *m);
/* True if @value belongs to the taking with @id. */
bool mutex_is_of(const char *value, uint64_t id);
/* True once Redis has reported that the lease is another's. */
bool mutex_lost(const struct mutex *m);
/* Stop renewing, delete the key if it is still ours, announce the release on P:events, free. NULL is fine. */
void mutex_release(struct mutex *m);
#endif
