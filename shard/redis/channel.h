/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_CHANNEL_H
#define SHARD_REDIS_CHANNEL_H
/* One connection of an event loop to a Redis node. Commands of one turn of the loop leave together, in one
 * write; before the node has taken the login none leaves. It ends once and for all. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <event2/event.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct channel;

/* @reply is valid during the call; NULL: the connection ended before it came, and the command may have been
 * executed or not. It may do all that is done to a channel, closing it too. */
typedef void channel_reply_fn(void *arg, const redisReply *reply);

struct channel_source {
    uint64_t lineage; /* (lineage.h); 0: nobody knows */
    uint64_t since;   /* clock_mono_us(): when the connection became ready */
};

struct channel_events {
    /* Connected, logged in, its database selected, named. */
    void (*ready)(void *arg);
    /* It ended by itself, @why says of what; ERR_REFUSED: the login. What is pending is told afterwards. The
     * channel frees itself and must not be used any more. */
    void (*closed)(void *arg, enum err code, const char *why);
    void *arg;
    /* Told before each reply: where it comes from. */
    struct channel_source *replying;
};

/* Begin to connect to @n (one of @nodes; all are borrowed), to be called @name (without blanks) in CLIENT
 * LIST. No event comes from inside this call. Nothing here has a deadline. NULL: no memory. */
struct channel *channel_open(struct event_base *base, const struct nodes *nodes, const struct node *n,
                             const char *name, const struct channel_events *events);

/* Pending callbacks get NULL, from inside this call; `closed` is not called. NULL is fine. */
void channel_close(struct channel *c);

/* Send a formatted command; it is copied. False: no memory, @fn is not called. */
bool channel_send(struct channel *c, const char *command, size_t length, channel_reply_fn *fn, void *arg);

/* What it waits for until it is ready, for people. */
const char *channel_waits_for(const struct channel *c);
bool channel_is_ready(const struct channel *c);
/* The lineage that the node was of when it was last asked, which is at the beginning and by
 * channel_ask_lineage(). */
uint64_t channel_lineage(const struct channel *c);
/* Ask again. A node of a list that is a replica by now ends the channel. Nothing
 * happens where that is under way, or it is not ready. */
void channel_ask_lineage(struct channel *c);
/* The node is another server by now, as its sentinels say: whoever has it should end it. */
bool channel_is_past(const struct channel *c);
/* Commands without a reply yet. */
size_t channel_pending(const struct channel *c);
#endif
