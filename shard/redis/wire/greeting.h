/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_GREETING_H
#define SHARD_REDIS_WIRE_GREETING_H
/* What a connection to a node begins with: AUTH, SELECT, CLIENT SETNAME, INFO replication, and what
 * the replies mean: whether it may be used, and which replication id it talks to (replication.h). Pure. */
#include <hiredis/hiredis.h>
#include "base/buffer.h"
#include "base/error.h"
#include "shard/redis/nodes/nodes.h"

struct greeting {
    unsigned count;       /* replies that are to come */
    unsigned naming;      /* which of them is that to CLIENT SETNAME, where there is a name */
    bool watches;         /* of a sentinel, which has no replication id */
    bool cluster;         /* a replica is as good as any to be asked for slots */
    uint64_t replication; /* after the last reply; 0: it is a replica */
};

/* Append the commands to @out, for @n of @nodes. @name (without blanks; NULL: none) is what CLIENT LIST
 * shows. */
struct greeting greeting_write(struct buffer *out, const struct nodes *nodes, const struct node *n,
                               const char *name);

/* The reply to command @i. ERR_REFUSED: the connection must not be used; the text is Redis's.
 * ERR_UNREACHABLE: not now: a node of a list that is a replica, one that is busy. A name is for people: a
 * user who may not set one is no harm. */
MUST_CHECK enum err greeting_judge(struct greeting *g, unsigned i, const redisReply *reply, struct error *e);

/* The command that asks a connection for its replication id, then or later, and its reply. Errors as above.
 */
extern const char greeting_ask_replication[];
MUST_CHECK enum err greeting_judge_replication(bool cluster, const redisReply *reply, uint64_t *replication,
                                               struct error *e);
#endif
