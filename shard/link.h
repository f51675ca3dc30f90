/* SPDX-License-Identifier: MIT */
#ifndef SHARD_LINK_H
#define SHARD_LINK_H
/* Blocking, pipelined connections from one thread to all Redis nodes: for jobs and administration, never for
 * requests. Every wait has a deadline. A connection that failed is made anew at the next use; pipelined
 * commands that were on it are reported as failed to the one who reads their replies. */
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/nodes.h"

struct link;

/* @nodes is borrowed and must outlive the link. @timeout_ms bounds connecting and each reply. @name (a
 * literal without blanks; NULL: none) is what CLIENT LIST shows of the connections; a user who may not set it
 * connects all the same. */
struct link *link_new(const struct nodes *nodes, unsigned timeout_ms, const char *name);
void link_free(struct link *l);
const struct nodes *link_nodes(const struct link *l);

/* A single connection to @n, logged in, its database selected, called @name in CLIENT LIST; @timeout_ms
 * bounds connecting and each reply. The caller frees it with redisFree(). ERR_UNREACHABLE, ERR_REFUSED
 * (login). */
MUST_CHECK enum err link_connect(redisContext **out, const struct node *n, const char *name,
                                 unsigned timeout_ms, struct error *e);

/* Queue a command for @node; its reply is read by link_reply() in order. ERR_UNREACHABLE, ERR_NOMEM. */
MUST_CHECK enum err link_append(struct link *l, unsigned node, size_t argc, const char *const *argv,
                                const size_t *lengths, struct error *e);

/* The same for a command that is formatted already. */
MUST_CHECK enum err link_append_formatted(struct link *l, unsigned node, const char *command, size_t length,
                                          struct error *e);

/* Send what is queued and read the next reply of @node. The caller frees *@out with freeReplyObject(). An
 * error reply of Redis is a reply, not an error. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err link_reply(struct link *l, unsigned node, redisReply **out, struct error *e);

/* What an error reply of a node means, with its text in @e: ERR_UNREACHABLE where the node will answer later
 * (loading, busy, its master is down), else ERR_REFUSED. */
enum err link_refusal(const struct link *l, unsigned node, const redisReply *reply, struct error *e);

/* One command and its reply, from printf-like hiredis format (%s, %b with size_t). ERR_REFUSED: Redis
 * answered with an error; its text is in @e. Pipelined commands of the same node must have been read before.
 */
MUST_CHECK enum err link_command(struct link *l, unsigned node, redisReply **out, struct error *e,
                                 const char *format, ...);

/* Forget the replies that are still owed (closing their connections), so that work can start afresh after an
 * error in the middle of a pipeline. */
void link_forget(struct link *l);
#endif
