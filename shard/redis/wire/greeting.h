/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_GREETING_H
#define SHARD_REDIS_WIRE_GREETING_H
/* How a connection to a node begins: AUTH, SELECT, CLIENT SETNAME, INFO replication; and what the replies
 * mean. Pure. */
#include <hiredis/hiredis.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct greeting {
    unsigned count;  /* number of replies to expect */
    unsigned naming; /* index of the reply to CLIENT SETNAME, if there is a name */
    bool watches;    /* the node is a sentinel, which has no replication id */
    bool cluster;    /* replicas are accepted: they too can be asked for slots */
};

/* Append the commands for @n, one of @nodes, to @out. @name (without blanks; NULL: none) is what CLIENT LIST
 * shows. */
struct greeting greeting_write(struct buffer *out, const struct nodes *nodes, const struct node *n,
                               const char *name);

/* Judge the reply to command @i. ERR_REFUSED: the connection must not be used; the text is Redis's.
 * ERR_UNREACHABLE: not now, as the node is busy, or a node of a list is a replica. A user who may not set a
 * name connects all the same. */
MUST_CHECK enum err greeting_judge(const struct greeting *g, unsigned i, const redisReply *reply,
                                   struct error *e);

/* The command that asks for the replication id, at the beginning or later, and its reply. Errors as above. */
extern const char greeting_ask_replication[];
MUST_CHECK enum err greeting_judge_replication(bool cluster, const redisReply *reply, uint64_t *replication,
                                               struct error *e);
#endif
