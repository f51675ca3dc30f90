/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ASYNC_CLIENT_H
#define SHARD_REDIS_ASYNC_CLIENT_H
/* Asynchronous connections of one event loop to all Redis nodes. Commands of one turn of the loop leave
 * together, in one write to each node. Connections are made on first use, and again after a failure, with
 * backoff and jitter. While a node is down nothing is sent to it, so nobody waits for it.
 *
 * Commands go to addresses (nodes.h). Two commands to one address run in the order in which they were sent,
 * except when the slot moves between them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include "shard/redis/nodes/latency.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"

struct async_client;

/* @nodes and @latency are borrowed. @latency (NULL: none) records how long replies take: of each node one
 * command at a time is measured, and one every LATENCY_INTERVAL_US is recorded. @timeout_ms bounds
 * connecting, and the time that the oldest command waits for its reply: a connection that exceeds it is
 * dropped. */
struct async_client *async_client_new(struct event_base *base, const struct nodes *nodes, unsigned timeout_ms,
                                      struct latency *latency);
/* Pending callbacks get a NULL reply. */
void async_client_free(struct async_client *s);
/* Call it when the loop will not run for some time, so that nobody makes connections again: in the health of
 * nodes, those that are down are as ones that the loop has not needed yet; and another thread may ask a
 * cluster for its map. */
void async_client_rest(struct async_client *s);

/* @reply is valid during the call. NULL: the connection failed; the command may have been executed or not. */
typedef void async_client_reply_fn(void *arg, const redisReply *reply);

/* Send @count commands over one connection and in one write. @commands holds them, formatted; they are
 * copied.
 * @ends holds their ends. Returns the number that was sent, for each of which @fn is called later: 0 if the
 * node is not reachable now, or the slot's master is unknown; less than @count if memory ended. In a cluster
 * nothing is redirected unseen: a reply MOVED or ASK goes to @fn, and sets *@redirect. Pass *@redirect to the
 * next call, which goes there (behind ASKING, if that is what the node asks for) and clears it. *@redirect
 * must live until the last reply. */
unsigned async_client_send_together(struct async_client *s, unsigned where, struct slot_redirect *redirect,
                                    unsigned count, const char *commands, const size_t *ends,
                                    async_client_reply_fn *fn, void *arg);

/* True if both addresses lead to one node, or to none now: commands for both may be sent together. */
bool async_client_same_node(struct async_client *s, unsigned a, unsigned b);

/* Why the node is down; "" if it is not. */
const char *async_client_why(const struct async_client *s, unsigned where);
/* The node's name, for people. */
const char *async_client_name(const struct async_client *s, unsigned where);
const struct nodes *async_client_nodes(const struct async_client *s);
/* The name of some node that is down, and why. False: no node is down. */
bool async_client_any_down(const struct async_client *s, const char **name, const char **why);

/* During a call of async_client_reply_fn: when the reply's connection became ready (clock_mono_us()). */
uint64_t async_client_replying_since(const struct async_client *s);

#endif
