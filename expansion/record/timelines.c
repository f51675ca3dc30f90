/* SPDX-License-Identifier: MIT */
#include "expansion/record/timelines.h"

#include <inttypes.h>
#include <stdio.h>
#include "base/number.h"
#include "shard/redis/script_call.h"

extern const char embedded_raise[];

enum err timelines_look(struct sync_client *l, const char *prefix, const struct source_history *h, bool notes,
                        struct error *e)
{
    struct key_name key;
    uint64_t highest = 0;
    SCOPED(scope_reply) redisReply *r = NULL;
    key.length = (size_t)snprintf(key.text, sizeof(key.text), "%s:timelines", prefix);
    unsigned home = nodes_key(sync_client_nodes(l), key.text, key.length);
    enum err code = sync_client_command(l, home, &r, e, "HGET %b %" PRIu64, key.text, key.length, h->system);
    if (code != ERR_OK)
        return error_prefix(e, code, "dsn cannot be compared with %s in Redis", key.text);
    if (r->type == REDIS_REPLY_STRING)
        (void)number_u64(r->str, r->len, &highest);
    if (h->timeline < highest)
        return error_set(
            e, ERR_TIMEOUT,
            "dsn leads to a former primary (timeline %" PRIu64 "): another server was promoted (timeline "
            "%" PRIu64 "). Stop the former one; or, to give up the rows of the other one, HDEL %s %" PRIu64,
            h->timeline, highest, key.text, h->system);
    if (!notes || h->timeline == highest)
        return ERR_OK;
    SCOPED(script_fini) struct script_call call = {.text = NULL};
    long long answer;
    script_begin(&call, embedded_raise);
    script_key(&call, &key);
    script_number(&call, h->system);
    script_number(&call, h->timeline);
    return script_run(&call, l, home, &answer, e);
}
