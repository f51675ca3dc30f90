/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_TRANSPORT_H
#define SHARD_REDIS_WIRE_TRANSPORT_H
/* Bytes to and from a Redis node, over TCP, a Unix socket or TLS. No call waits: each says what to wait for,
 * so an event loop and a thread with a deadline can drive it. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct transport;

/* For a connection to @n, which is one of @nodes; both are borrowed. NULL: no memory. */
struct transport *transport_new(const struct nodes *nodes, const struct node *n);
/* Says farewell where that takes no time. NULL is fine. */
void transport_free(struct transport *t);

/* Go on with connecting: from the first call on, again whenever transport_fd() shows transport_events(),
 * until it is open, or has failed. */
enum transport_state { TRANSPORT_WAITS, TRANSPORT_OPEN, TRANSPORT_FAILED };
MUST_CHECK enum transport_state transport_connect(struct transport *t, struct error *e);

/* What is waited for until it is open, for people: "the address of the host", "a TLS handshake", ... */
const char *transport_waits_for(const struct transport *t);

/* What to wait for, as poll() says it; while it connects the descriptor may be another one after each call.
 */
int transport_fd(const struct transport *t);
short transport_events(const struct transport *t);

/* The node is another server by now, as its sentinels say. */
bool transport_is_past(const struct transport *t);

/* On one that is open: so many bytes; 0: none now, wait for transport_events() as they are after this very
 * call; -1: the connection is over, the text says why. Reading is over, too, where the server has closed its
 * end. With TLS the process must ignore SIGPIPE. */
MUST_CHECK ssize_t transport_read(struct transport *t, void *to, size_t size, struct error *e);
MUST_CHECK ssize_t transport_write(struct transport *t, const void *from, size_t size, struct error *e);
#endif
