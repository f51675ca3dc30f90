/* SPDX-License-Identifier: MIT */
#include "shard/redis/sync_client_replications.h"

#include <stdio.h>

static enum err ask(struct sync_client *l, unsigned where, struct replication *out, struct error *e)
{
    redisReply *reply;
    (void)snprintf(out->node, sizeof(out->node), "%s", sync_client_name(l, where));
    enum err code = sync_client_command(l, where, &reply, e, "INFO ALL");
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT)
        return ERR_OK;
    if (code == ERR_OK) {
        code = reply->type == REDIS_REPLY_STRING ? replication_parse_info(out, reply->str, reply->len, e)
                                                 : error_set(e, ERR_PARSE, "unexpected reply to INFO");
        freeReplyObject(reply);
    }
    return code == ERR_OK ? ERR_OK : error_prefix(e, code, "Redis node %s", out->node);
}

enum err sync_client_replications(struct sync_client *l, struct replications *out, struct error *e)
{
    unsigned masters;
    out->count = 0;
    enum err code = sync_client_masters(l, &masters, e);
    for (unsigned i = 0; code == ERR_OK && i < masters; i++) {
        struct replication one = {.has_slots = sync_client_master_has_slots(l, i)};
        code = ask(l, sync_client_master(l, i), &one, e);
        if (code == ERR_OK)
            code = replications_add(out, &one, e);
    }
    return code;
}
