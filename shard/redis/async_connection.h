/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ASYNC_CONNECTION_H
#define SHARD_REDIS_ASYNC_CONNECTION_H
/* One connection of an event loop to a Redis node. Commands of one turn of the loop leave together, in one
 * write; before the node has taken the login none leaves. It ends once and for all. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct async_connection;

/* @reply is valid during the call; NULL: the connection ended before it came, and the command may have been
 * executed or not. It may do all that is done to a channel, closing it too. */
typedef void async_connection_reply_fn(void *arg, const redisReply *reply);

struct async_connection_source {
    uint64_t replication; /* (replication.h); 0: nobody knows */
    uint64_t since;       /* clock_mono_us(): when the connection became ready */
};

struct async_connection_events {
    /* Connected, logged in, its database selected, named. */
    void (*ready)(void *arg);
    /* It ended by itself, @why says of what; ERR_REFUSED: the login. What is pending is told afterwards. The
     * channel frees itself and must not be used any more. */
    void (*closed)(void *arg, enum err code, const char *why);
    void *arg;
    /* Told before each reply: where it comes from. */
    struct async_connection_source *replying;
};

/* Begin to connect to @n (one of @nodes; all are borrowed), to be called @name (without blanks) in CLIENT
 * LIST. No event comes from inside this call. Nothing here has a deadline. NULL: no memory. */
struct async_connection *async_connection_open(struct event_base *base, const struct nodes *nodes,
                                               const struct node *n, const char *name,
                                               const struct async_connection_events *events);

/* Pending callbacks get NULL, from inside this call; `closed` is not called. NULL is fine. */
void async_connection_close(struct async_connection *c);

/* Send a formatted command; it is copied. False: no memory, @fn is not called. */
bool async_connection_send(struct async_connection *c, const char *command, size_t length,
                           async_connection_reply_fn *fn, void *arg);

/* What it waits for until it is ready, for people. */
const char *async_connection_waits_for(const struct async_connection *c);
bool async_connection_is_ready(const struct async_connection *c);
/* The replication id that the node was of when it was last asked, which is at the beginning and by
 * async_connection_ask_replication(). */
uint64_t async_connection_replication(const struct async_connection *c);
/* Ask again. A node of a list that is a replica by now ends the channel. Nothing
 * happens where that is under way, or it is not ready. */
void async_connection_ask_replication(struct async_connection *c);
/* The node is another server by now, as its sentinels say: whoever has it should end it. */
bool async_connection_is_past(const struct async_connection *c);
/* Commands without a reply yet. */
size_t async_connection_pending(const struct async_connection *c);
#endif
