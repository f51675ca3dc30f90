/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ACKS_H
#define SHARD_REDIS_ACKS_H
/* Adds that are not acknowledged before replicas, or disks, have them.
 *
 * WAIT blocks its connection. So it goes to a node by a line of its own: a second connection, one for each
 * kind of need. All that join while one WAIT is under way share the next one.
 *
 * WAIT counts the replicas that have what its own connection wrote. So a small key is written ahead of every
 * WAIT: what a replica has of this write, it has of all that the node did before. */
#include "shard/redis/async_client.h"

struct ack_need {
    unsigned replicas;
    bool fsync;          /* and the disks of the node and of so many replicas have it: WAITAOF */
    unsigned timeout_ms; /* of WAIT */
};

static inline bool ack_wanted(const struct ack_need *n)
{
    return n->replicas > 0 || n->fsync;
}

enum ack_outcome {
    ACK_GIVEN,
    ACK_SHORT,   /* too few, in time */
    ACK_REFUSED, /* the node does not know the command, or is a replica now, ... */
    ACK_BROKEN   /* the connection */
};

/* @why is for people; valid during the call, NULL where it was given or the connection broke. */
typedef void async_client_ack_fn(void *arg, enum ack_outcome outcome, const char *why);

/* Ask the node of @where whether replicas, or disks, have what it had done before this call. @key is one of
 * its keys, with a hash tag. It counts only under @era, the replication id of the node as info_id() has it
 * (ACK_BROKEN: it is another one, or the node is no master). @acked is called once, not from inside this
 * call. False: the node is not reachable now; @acked is not called. */
bool async_client_await_acks(struct async_client *s, unsigned where, const char *key, size_t length,
                             uint64_t era, const struct ack_need *need, async_client_ack_fn *acked,
                             void *arg);

/* What the reply to WAIT or WAITAOF means; the text goes to @e but for ACK_GIVEN. Pure. */
enum ack_outcome ack_judge(const struct ack_need *need, const redisReply *reply, struct error *e);
#endif
