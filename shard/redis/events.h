/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_EVENTS_H
#define SHARD_REDIS_EVENTS_H
/* The channel P:events, on the metadata node or any node of a cluster: "view F" after each change of a view,
 * "released F" when a mutex is given back (F is the escaped name). Messages are hints. A message may be lost
 * with its connection, or come twice; whoever waits for one must also have another way to learn of the event.
 *
 * A metadata node that becomes a replica keeps its subscribers. It repeats what its master publishes, so they
 * go on to hear. One that follows another server does not: then changes are seen as without messages. A view
 * is read once a second by a registered writer, every ten seconds by others (shard/control), the controller
 * looks at every `check_interval`, and who waits for a mutex waits until its lease ends.
 *
 * Blocking, for one thread. Every wait has a deadline. */
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct events;

enum events_kind { EVENTS_VIEW, EVENTS_RELEASED };

/* The name belongs to the subscription, and is valid until the next call on it. */
struct events_message {
    enum events_kind kind;
    const char *filter; /* escaped, NUL-terminated */
    size_t filter_length;
};

/* Connect and subscribe: messages that are published after the return are seen. @timeout_ms bounds
 * connecting, each reply, and how long a dead connection goes unnoticed. ERR_UNREACHABLE, ERR_TIMEOUT.
 * ERR_REFUSED: Redis does not let this user subscribe. */
MUST_CHECK enum err events_open(struct events **out, const struct nodes *nodes, const char *prefix,
                                unsigned timeout_ms, struct error *e);
/* @s may be NULL. */
void events_close(struct events *s);

/* The next message. ERR_TIMEOUT: none came until @deadline_us (clock_mono_us()). ERR_CANCELLED: @wake_fd (-1:
 * none) became readable; nothing is read from it. ERR_UNREACHABLE: the connection broke or is silent; close
 * the subscription. */
MUST_CHECK enum err events_next(struct events *s, int wake_fd, uint64_t deadline_us,
                                struct events_message *out, struct error *e);
#endif
