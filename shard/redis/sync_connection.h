/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CONNECTION_H
#define SHARD_REDIS_SYNC_CONNECTION_H
/* One blocking connection to a Redis node, for one thread: commands are queued, then sent while their replies
 * are read, in order. It breaks once and for all; whoever wants to go on makes another one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct sync_connection;

/* Connect to @n (one of @nodes; both are borrowed), log in, select its database, take @name (a literal
 * without blanks; NULL: none) for CLIENT LIST; a user who may not set it connects all the same. All of it
 * within
 * @connect_ms. @timeout_ms bounds how long a reply is waited for without a byte going either way.
 * ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED (login), ERR_NOMEM; the text begins with the node's name. */
MUST_CHECK enum err sync_connection_open(struct sync_connection **out, const struct nodes *nodes,
                                         const struct node *n, const char *name, unsigned connect_ms,
                                         unsigned timeout_ms, struct error *e);
/* NULL is fine. */
void sync_connection_close(struct sync_connection *c);

/* Queue a formatted command; it is copied. ERR_NOMEM. */
MUST_CHECK enum err sync_connection_append(struct sync_connection *c, const char *command, size_t length,
                                           struct error *e);

/* Send what is queued, and read the next reply; the caller frees it (freeReplyObject()). After an error the
 * connection is of no more use: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_NOMEM. */
MUST_CHECK enum err sync_connection_reply(struct sync_connection *c, redisReply **out, struct error *e);

/* While no reply is owed: true where the server has closed it, or sent what nobody asked for. */
bool sync_connection_is_stale(struct sync_connection *c);

/* --- for whoever also waits for other things --- */

/* As sync_connection_reply(), but without waiting: NULL in *@out where no whole reply has come. */
MUST_CHECK enum err sync_connection_poll(struct sync_connection *c, redisReply **out, struct error *e);
/* What to wait for before the next call, as poll() says it. */
int sync_connection_fd(const struct sync_connection *c);
short sync_connection_events(const struct sync_connection *c);
/* When anything came last, by clock_mono_us(). */
uint64_t sync_connection_heard_us(const struct sync_connection *c);
#endif
