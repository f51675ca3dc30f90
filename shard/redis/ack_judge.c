/* SPDX-License-Identifier: MIT */
#include <string.h>
#include "shard/redis/acks.h"

static bool is_pair(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
           reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[1]->type == REDIS_REPLY_INTEGER;
}

static enum ack_outcome refused(const struct ack_need *need, const char *text, struct error *e)
{
    if (need->fsync && strncmp(text, "ERR unknown command", strlen("ERR unknown command")) == 0)
        (void)error_set(e, ERR_REFUSED,
                        "the node lacks WAITAOF, which add_fsync = yes needs; upgrade it to Redis 7.2, or "
                        "set add_fsync = no");
    else
        (void)error_set(e, ERR_REFUSED, "the node refuses %s: %.200s", need->fsync ? "WAITAOF" : "WAIT",
                        text);
    return ACK_REFUSED;
}

enum ack_outcome ack_judge(const struct ack_need *need, const redisReply *reply, struct error *e)
{
    long long replicas;
    if (reply->type == REDIS_REPLY_ERROR)
        return refused(need, reply->str, e);
    if (need->fsync ? !is_pair(reply) : reply->type != REDIS_REPLY_INTEGER)
        return refused(need, "its answer has not the form that is expected", e);
    if (need->fsync && reply->element[0]->integer < 1) {
        (void)error_set(e, ERR_TIMEOUT, "the node's own disk has not acknowledged within %u ms",
                        need->timeout_ms);
        return ACK_SHORT;
    }
    replicas = need->fsync ? reply->element[1]->integer : reply->integer;
    if (replicas >= (long long)need->replicas)
        return ACK_GIVEN;
    (void)error_set(e, ERR_TIMEOUT, "%lld of %u replicas acknowledged within %u ms", replicas, need->replicas,
                    need->timeout_ms);
    return ACK_SHORT;
}
