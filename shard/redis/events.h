/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_EVENTS_H
#define SHARD_REDIS_EVENTS_H
/* The channel P:events on the home node, or on any node of a cluster: "view F" after each change of a view,
 * "released F" when a mutex is given back (F is the escaped name). Messages are hints. One may be lost with
 * its connection or come twice; whoever waits for one has another end to its wait. Blocking, for one thread;
 * every wait has a deadline. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct events;

enum events_kind { EVENTS_VIEW, EVENTS_RELEASED };

/* The name belongs to the subscription and is valid until its next call. */
struct events_message {
    enum events_kind kind;
    const char *filter; /* escaped, NUL-terminated */
    size_t filter_length;
};

/* Connect and subscribe: what is published after the return is seen. @timeout_ms bounds connecting, each
 * reply, and how long a connection may be dead before that is noticed. ERR_UNREACHABLE, ERR_TIMEOUT.
 * ERR_REFUSED: Redis does not let this user subscribe. */
MUST_CHECK enum err events_open(struct events **out, const struct nodes *nodes, const char *prefix,
                                unsigned timeout_ms, struct error *e);
/* NULL is fine. */
void events_close(struct events *s);

/* The next message. ERR_TIMEOUT: none came until @deadline_us (clock_mono_us()). ERR_CANCELLED: @wake_fd (-1:
 * none) became readable; nothing is read from it. ERR_UNREACHABLE: the connection broke or is silent; of no
 * more use than to be closed. */
MUST_CHECK enum err events_next(struct events *s, int wake_fd, uint64_t deadline_us,
                                struct events_message *out, struct error *e);
#endif
