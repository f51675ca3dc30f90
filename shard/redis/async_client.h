/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ASYNC_CLIENT_H
#define SHARD_REDIS_ASYNC_CLIENT_H
/* Asynchronous connections of one event loop to all Redis nodes. Commands of one turn of the loop leave
 * together, one write a node. Connections are made on first use and again after a failure, with backoff and
 * jitter. A node that is down costs nobody a wait: nothing is sent to it until a connection has been made
 * again.
 *
 * Commands go to addresses (nodes.h). In a cluster the store follows MOVED and ASK itself; its caller does
 * not see them. Two commands to one address run in the order in which they were sent, but where the slot
 * moves between them: async_client_redirected() tells. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include "shard/redis/nodes/latency.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"

struct async_client;

/* @nodes is borrowed. @latency, too, or NULL: the waits for replies are recorded there: one command at a
 * time on each node is measured, whenever any is under way, and one every LATENCY_INTERVAL_US is recorded.
 * @timeout_ms bounds connecting, and the wait of the oldest command for its reply: a connection that passes
 * it is dropped. */
struct async_client *async_client_new(struct event_base *base, const struct nodes *nodes, unsigned timeout_ms,
                                      struct latency *latency);
/* Pending callbacks are called with a NULL reply. */
void async_client_free(struct async_client *s);

/* @reply is valid during the call. NULL: the connection failed, or the nodes of a cluster sent the command
 * round and round: it may have been executed or not. */
typedef void async_client_reply_fn(void *arg, const redisReply *reply);

/* Send a formatted command of @length bytes; it is copied, and needs no NUL behind it. @fn gets the reply,
 * later. False: the node is not reachable now, or nobody knows which one it is; @fn is not called. */
bool async_client_send(struct async_client *s, unsigned where, const char *command, size_t length,
                       async_client_reply_fn *fn, void *arg);

/* Send @count commands, formatted in @commands and ending at @ends, over one connection and in one write.
 * Returns how many were sent; @fn is called for each of them: 0 where async_client_send() says false, fewer
 * than
 * @count where memory ended. In a cluster they are not sent on one by one: a reply MOVED or ASK is told, and
 * sets *@redirect, which lives until the last one was told. Give it to the next call, which then goes there,
 * and clears it. */
unsigned async_client_send_together(struct async_client *s, unsigned where, struct slot_redirect *redirect,
                                    unsigned count, const char *commands, const size_t *ends,
                                    async_client_reply_fn *fn, void *arg);

/* Both addresses lead to one node, or to none now: commands for the one and the other may be sent together.
 */
bool async_client_same_node(struct async_client *s, unsigned a, unsigned b);

/* Why the node is down; "" where it is not. */
const char *async_client_why(const struct async_client *s, unsigned where);
/* The node's name, for people. */
const char *async_client_name(const struct async_client *s, unsigned where);
/* Some node that is down. False: none is. */
bool async_client_any_down(const struct async_client *s, const char **name, const char **why);

/* During the call of a async_client_reply_fn: since when (clock_mono_us()) the connection is there that the
 * reply comes over. */
uint64_t async_client_replying_since(const struct async_client *s);

/* How many times a command was sent to another node than the first; grows. */
uint64_t async_client_redirected(const struct async_client *s);
#endif
