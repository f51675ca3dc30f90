/* SPDX-License-Identifier: MIT */
#ifndef SHARD_STORE_H
#define SHARD_STORE_H
/* Asynchronous connections of one event loop to all Redis nodes. Commands of one turn of the loop leave
 * together, one write a node. Connections are made on first use and again after a failure, with backoff and
 * jitter. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include <hiredis/async.h>
#include "shard/latency.h"
#include "shard/nodes.h"

struct store;

/* @nodes is borrowed. @latency, too, or NULL: the waits for replies are recorded there: one command at a
 * time on each node is measured, whenever any is under way, and one every LATENCY_INTERVAL_US is recorded.
 * @timeout_ms bounds connecting, and the wait of the oldest command for its reply: a connection that passes
 * it is dropped. */
struct store *store_new(struct event_base *base, const struct nodes *nodes, unsigned timeout_ms,
                        struct latency *latency);
/* Pending callbacks are called with a NULL reply. */
void store_free(struct store *s);

/* Send a formatted command; it is copied. command[length] must be NUL: hiredis searches it with strchr(). @fn
 * gets the reply (valid during the call), or NULL where the connection failed: the command may then have been
 * executed or not. False: the node is not reachable now; @fn is not called. */
bool store_send(struct store *s, unsigned node, const char *command, size_t length, redisCallbackFn *fn,
                void *arg);

/* How long the node has been without a connection that works, in microseconds; 0 where it has one (or none
 * was tried). */
uint64_t store_down_us(const struct store *s, unsigned node);
/* Why; "" where it is not down. */
const char *store_why(const struct store *s, unsigned node);
#endif
