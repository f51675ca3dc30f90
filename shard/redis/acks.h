/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_ACKS_H
#define SHARD_REDIS_ACKS_H
/* Adds that are acknowledged only once replicas, or disks, have them.
 *
 * WAIT blocks its connection. So it goes over an ack connection: a second connection to the node, one for
 * each kind of need. All callers that join while one WAIT is under way share the next one.
 *
 * WAIT counts the replicas that have what its own connection wrote. So a small key is written before every
 * WAIT: a replica that has this write has all that the node did before it. */
#include "shard/redis/async_client.h"

struct ack_need {
    unsigned replicas;
    bool fsync;          /* also wait for the disks of the node and of @replicas replicas: WAITAOF */
    unsigned timeout_ms; /* of WAIT, ms */
};

static inline bool ack_wanted(const struct ack_need *n)
{
    return n->replicas > 0 || n->fsync;
}

enum ack_outcome {
    ACK_GIVEN,
    ACK_SHORT,   /* too few replicas acknowledged in time */
    ACK_REFUSED, /* the node does not know the command, is a replica now, ... */
    ACK_BROKEN   /* the connection broke, or the era was not the one that was wanted */
};

/* @why is for people and valid during the call. It is NULL for ACK_GIVEN and ACK_BROKEN. */
typedef void async_client_ack_fn(void *arg, enum ack_outcome outcome, const char *why);

/* Wait until replicas, or disks, of the node of @where have all that the node did before this call. @key is a
 * key of that node, with a hash tag. Acknowledgements count only under @era, the node's replication id as
 * info_id() gives it (0: any): under another one, or if the node is no master, the outcome is ACK_BROKEN.
 * @acked is called once, not from inside this call. False: the node is not reachable now, and @acked is not
 * called. */
bool async_client_await_acks(struct async_client *s, unsigned where, const char *key, size_t length,
                             uint64_t era, const struct ack_need *need, async_client_ack_fn *acked,
                             void *arg);

/* Judge the reply to WAIT or WAITAOF. @e gets a text unless the outcome is ACK_GIVEN. Pure. */
enum ack_outcome ack_judge(const struct ack_need *need, const redisReply *reply, struct error *e);
#endif
