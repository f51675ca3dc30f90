/* SPDX-License-Identifier: MIT */
#include "shard/redis/link_lineages.h"

#include <stdio.h>

static enum err ask(struct link *l, unsigned where, struct lineage *out, struct error *e)
{
    redisReply *reply;
    (void)snprintf(out->node, sizeof(out->node), "%s", link_name(l, where));
    enum err code = link_command(l, where, &reply, e, "INFO ALL");
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT)
        return ERR_OK;
    if (code == ERR_OK) {
        code = reply->type == REDIS_REPLY_STRING ? lineage_parse_info(out, reply->str, reply->len, e)
                                                 : error_set(e, ERR_PARSE, "unexpected reply to INFO");
        freeReplyObject(reply);
    }
    return code == ERR_OK ? ERR_OK : error_prefix(e, code, "Redis node %s", out->node);
}

enum err link_lineages(struct link *l, struct lineages *out, struct error *e)
{
    unsigned masters;
    out->count = 0;
    enum err code = link_masters(l, &masters, e);
    for (unsigned i = 0; code == ERR_OK && i < masters; i++) {
        struct lineage one = {0};
        code = ask(l, link_master(l, i), &one, e);
        if (code == ERR_OK)
            code = lineages_add(out, &one, e);
    }
    return code;
}
