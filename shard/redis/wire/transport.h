/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_TRANSPORT_H
#define SHARD_REDIS_WIRE_TRANSPORT_H
/* Bytes to and from a Redis node, over TCP, a Unix socket or TLS. No call waits: each says what to wait for.
 * So an event loop can drive it, and so can a thread with a deadline. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct transport;

/* For a connection to @n, one of @nodes; both are borrowed. NULL: no memory. */
struct transport *transport_new(const struct nodes *nodes, const struct node *n);
/* Closes TLS properly if that takes no time. @t may be NULL. */
void transport_free(struct transport *t);

/* Continue connecting. Call it first at once, then whenever transport_fd() shows transport_events(), until
 * the transport is open or has failed. */
enum transport_state { TRANSPORT_WAITS, TRANSPORT_OPEN, TRANSPORT_FAILED };
MUST_CHECK enum transport_state transport_connect(struct transport *t, struct error *e);

/* What a transport that is not open waits for, for people: "the address of the host", "a TLS handshake",
 * ... */
const char *transport_waits_for(const struct transport *t);

/* What to wait for, in poll()'s terms. While the transport connects, each call may change the descriptor. */
int transport_fd(const struct transport *t);
short transport_events(const struct transport *t);

/* True if the sentinels name another server for this node by now. */
bool transport_is_past(const struct transport *t);

/* On an open transport. Returns the number of bytes. 0: none now; wait for transport_events() as they are
 * after this call. -1: the connection has ended, also when the server has closed its side; the text says why.
 * With TLS the process must ignore SIGPIPE. */
MUST_CHECK ssize_t transport_read(struct transport *t, void *to, size_t size, struct error *e);
MUST_CHECK ssize_t transport_write(struct transport *t, const void *from, size_t size, struct error *e);
#endif
