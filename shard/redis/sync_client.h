/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SYNC_CLIENT_H
#define SHARD_REDIS_SYNC_CLIENT_H
/* Blocking, pipelined connections from one thread to all Redis nodes: for jobs and administration, never for
 * requests. Every wait has a deadline. A connection that failed is made again at the next use; pipelined
 * commands that were on it are reported as failed to the one who reads their replies. After a node has let
 * the deadline pass without a connection, it is waited for a moment only, for as long again.
 *
 * Commands go to addresses (nodes.h). In a cluster, one that is sent elsewhere by the node (MOVED, ASK) goes
 * there, and one that will be taken soon (TRYAGAIN, CLUSTERDOWN, ...) is sent again with pauses, for
 * @timeout_ms; so two commands that are pipelined to one address may run in the other order, and the second
 * without the first. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"

struct sync_client;

/* @nodes is borrowed and must outlive the link. @timeout_ms bounds connecting and each reply. @name (a
 * literal without blanks; NULL: none) is what CLIENT LIST shows of the connections; a user who may not set it
 * connects all the same. */
struct sync_client *sync_client_new(const struct nodes *nodes, unsigned timeout_ms, const char *name);
void sync_client_free(struct sync_client *l);
const struct nodes *sync_client_nodes(const struct sync_client *l);

/* Addresses: of what a filter has but for its shards; of the set of filters' names. */
unsigned sync_client_home(const struct sync_client *l, const struct names *names);
unsigned sync_client_filters(const struct sync_client *l, const char *prefix);
/* For people: the node's name, or that of the master that holds the slot. Valid until the next call with @l.
 */
const char *sync_client_name(const struct sync_client *l, unsigned where);

/* All nodes that hold keys: those of the list, or the masters of the cluster at this time, also those that
 * get their first slots now. Their addresses are valid until the next call; a reply of a master that is gone
 * is ERR_UNREACHABLE. ERR_TIMEOUT, ERR_REFUSED. */
MUST_CHECK enum err sync_client_masters(struct sync_client *l, unsigned *count, struct error *e);
unsigned sync_client_master(const struct sync_client *l, unsigned i);
/* The part of all shards that it is likely to get. */
double sync_client_master_share(const struct sync_client *l, unsigned i);
/* Which of them @where was on, an address of a shard or of another key, when they were asked for; their
 * number, or more, where it was on none. */
unsigned sync_client_master_of(const struct sync_client *l, unsigned where);
/* The lowest slot that it holds; SLOTS where that is none, or there is no cluster. */
unsigned sync_client_master_slot(const struct sync_client *l, unsigned i);
/* Where a key of names_on_master() with that slot is. Commands on it follow a slot that moves; those for the
 * master fail then. */
unsigned link_master_keys(const struct sync_client *l, unsigned i);
/* Keys may lie there: not so on a master of a cluster that has no slots. */
bool sync_client_master_has_slots(const struct sync_client *l, unsigned i);

/* Queue a command for @where; its reply is read by sync_client_reply() in order. ERR_UNREACHABLE, ERR_NOMEM.
 */
MUST_CHECK enum err sync_client_append(struct sync_client *l, unsigned where, size_t argc,
                                       const char *const *argv, const size_t *lengths, struct error *e);

/* The same for a command that is formatted already. */
MUST_CHECK enum err sync_client_append_formatted(struct sync_client *l, unsigned where, const char *command,
                                                 size_t length, struct error *e);

/* Queue @count commands, formatted in @commands and ending at @ends, that go over one connection together;
 * each has a reply by sync_client_reply(). In a cluster they are not sent on one by one: a reply MOVED or ASK
 * is a reply, and sets
 * *@redirect, which lives until the last of them is read or forgotten. Give it to the next call, which then
 * goes there, and clears it. On error nothing is queued. */
MUST_CHECK enum err sync_client_append_together(struct sync_client *l, unsigned where,
                                                struct slot_redirect *redirect, unsigned count,
                                                const char *commands, const size_t *ends, struct error *e);

/* Send what is queued and read the next reply of @where. The caller frees *@out with freeReplyObject(). An
 * error reply of Redis is a reply, not an error. ERR_UNREACHABLE, ERR_TIMEOUT. */
MUST_CHECK enum err sync_client_reply(struct sync_client *l, unsigned where, redisReply **out,
                                      struct error *e);

/* What an error reply of a node means, with its text in @e: ERR_UNREACHABLE where the node will answer later
 * (loading, busy, its master is down), else ERR_REFUSED. */
enum err sync_client_refusal(const struct sync_client *l, unsigned where, const redisReply *reply,
                             struct error *e);

/* One command and its reply, from printf-like hiredis format (%s, %b with size_t). ERR_REFUSED: Redis
 * answered with an error; its text is in @e. Pipelined commands of the same address must have been read
 * before.
 */
MUST_CHECK enum err sync_client_command(struct sync_client *l, unsigned where, redisReply **out,
                                        struct error *e, const char *format, ...);

/* Forget the replies that are still owed (closing their connections), so that work can start afresh after an
 * error in the middle of a pipeline. */
void sync_client_forget(struct sync_client *l);

/* As sync_client_command(), for the filter's key P:{F}:<what>; @command has one %b, which becomes the key. */
MUST_CHECK enum err sync_client_filter_command(struct sync_client *l, const struct names *names,
                                               const char *what, const char *command, redisReply **out,
                                               struct error *e);
#endif
