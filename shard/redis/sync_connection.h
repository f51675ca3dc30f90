/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CONNECTION_H
#define SHARD_REDIS_SYNC_CONNECTION_H
/* One blocking connection to a Redis node, for one thread. Commands are queued; they are sent while replies
 * are read, in order. A connection that broke stays broken; open another one. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct sync_connection;

/* Connect to @n, one of @nodes (both are borrowed), log in, select its database, and set @name (a literal
 * without blanks; NULL: none) for CLIENT LIST; a user who may not set it connects all the same. @connect_ms
 * bounds all of that. @timeout_ms bounds the wait for a reply while no byte goes either way. ERR_UNREACHABLE,
 * ERR_TIMEOUT, ERR_REFUSED (login), ERR_NOMEM; the text begins with the node's name. */
MUST_CHECK enum err sync_connection_open(struct sync_connection **out, const struct nodes *nodes,
                                         const struct node *n, const char *name, unsigned connect_ms,
                                         unsigned timeout_ms, struct error *e);
/* @c may be NULL. */
void sync_connection_close(struct sync_connection *c);

/* Queue a formatted command; the bytes are copied. ERR_NOMEM. */
MUST_CHECK enum err sync_connection_append(struct sync_connection *c, const char *command, size_t length,
                                           struct error *e);
/* The same for a command of @count strings. */
MUST_CHECK enum err sync_connection_append_words(struct sync_connection *c, size_t count,
                                                 const char *const *words, struct error *e);

/* Send what is queued, and read the next reply; the caller frees it (freeReplyObject()). After an error close
 * the connection: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_NOMEM. */
MUST_CHECK enum err sync_connection_reply(struct sync_connection *c, redisReply **out, struct error *e);

/* On an idle connection: true if the server has closed it, or has sent something unasked. */
bool sync_connection_is_stale(struct sync_connection *c);

/* --- for callers that also wait for other things --- */

/* As sync_connection_reply(), without waiting: *@out is NULL if no whole reply has come. */
MUST_CHECK enum err sync_connection_poll(struct sync_connection *c, redisReply **out, struct error *e);
/* What to wait for before the next call, in poll()'s terms. */
int sync_connection_fd(const struct sync_connection *c);
short sync_connection_events(const struct sync_connection *c);
/* When a byte last came (clock_mono_us()). */
uint64_t sync_connection_heard_us(const struct sync_connection *c);
#endif
