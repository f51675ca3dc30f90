/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ASYNC_CONNECTION_H
#define SHARD_REDIS_ASYNC_CONNECTION_H
/* One connection of an event loop to a Redis node. Commands of one turn of the loop leave together, in one
 * write. No command leaves before the node has accepted the login. A connection that has ended does not come
 * back. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct async_connection;

/* @reply is valid during the call. NULL: the connection ended before the reply came; the command may have
 * been executed or not. The callback may do anything with the connection, including closing it. */
typedef void async_connection_reply_fn(void *arg, const redisReply *reply);

struct async_connection_events {
    /* The connection is ready: connected, logged in, its database selected, named. May be NULL. */
    void (*ready)(void *arg);
    /* The connection ended by itself, for the reason @why. ERR_REFUSED: the login was refused. Pending
     * callbacks run after this. The connection frees itself and must not be used any more. */
    void (*closed)(void *arg, enum err code, const char *why);
    void *arg;
    /* Set before each reply: when its connection became ready, clock_mono_us(). Borrowed. */
    uint64_t *replying_since;
};

/* Begin to connect to @n, one of @nodes; all are borrowed. @name (without blanks) is what CLIENT LIST shows.
 * No event comes from inside this call. Nothing here has a deadline. NULL: no memory. */
struct async_connection *async_connection_open(struct event_base *base, const struct nodes *nodes,
                                               const struct node *n, const char *name,
                                               const struct async_connection_events *events);

/* Pending callbacks get NULL, from inside this call; `closed` is not called. @c may be NULL. */
void async_connection_close(struct async_connection *c);

/* Send a formatted command; the bytes are copied. False: no memory, and @fn is not called. */
bool async_connection_send(struct async_connection *c, const char *command, size_t length,
                           async_connection_reply_fn *fn, void *arg);

/* What a connection that is not ready waits for, for people. */
const char *async_connection_waits_for(const struct async_connection *c);
bool async_connection_is_ready(const struct async_connection *c);
/* Ask whether the node is still a master. If a node of a list has become a replica, the connection ends. Does
 * nothing if the connection is not ready, or is already asking. */
void async_connection_ask_replication(struct async_connection *c);
/* True if the sentinels name another server for this node by now: the owner should close the connection. */
bool async_connection_is_past(const struct async_connection *c);
/* The number of commands without a reply. */
size_t async_connection_pending(const struct async_connection *c);
#endif
