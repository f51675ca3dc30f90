/* SPDX-License-Identifier: MIT */
#include "shard/redis/wire/greeting.h"

#include <stdio.h>
#include <string.h>
#include "shard/redis/wire/replication.h"
#include "shard/filter/slots.h"

const char greeting_ask_replication[] = "*2\r\n$4\r\nINFO\r\n$11\r\nreplication\r\n";

struct greeting greeting_write(struct buffer *out, const struct nodes *nodes, const struct node *n,
                               const char *name)
{
    struct greeting g = {.watches = n->watches, .cluster = nodes->cluster != NULL};
    if (n->password[0] != '\0' && n->user[0] != '\0') {
        buffer_command(out, 3, (const char *const[]){"AUTH", n->user, n->password}, NULL);
        g.count++;
    } else if (n->password[0] != '\0') {
        buffer_command(out, 2, (const char *const[]){"AUTH", n->password}, NULL);
        g.count++;
    }
    if (n->database != 0) {
        char number[16];
        (void)snprintf(number, sizeof(number), "%u", n->database);
        buffer_command(out, 2, (const char *const[]){"SELECT", number}, NULL);
        g.count++;
    }
    g.naming = g.count;
    if (name != NULL) {
        buffer_command(out, 3, (const char *const[]){"CLIENT", "SETNAME", name}, NULL);
        g.count++;
    }
    if (!g.watches) {
        buffer_puts(out, greeting_ask_replication);
        g.count++;
    }
    return g;
}

enum err greeting_judge_replication(bool cluster, const redisReply *reply, uint64_t *replication,
                                    struct error *e)
{
    struct replication one = {0};
    if (reply->type == REDIS_REPLY_ERROR && slots_error_passes(reply->str))
        return error_set(e, ERR_UNREACHABLE, "%s", reply->str);
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOPERM", 6) == 0)
        return error_set(e, ERR_REFUSED, "%s (Twinbloom needs INFO to notice failovers: give the user +info)",
                         reply->str);
    if (reply->type == REDIS_REPLY_ERROR)
        return error_set(e, ERR_REFUSED, "%s", reply->str);
    if (reply->type != REDIS_REPLY_STRING ||
        replication_parse_info(&one, reply->str, reply->len, NULL) != ERR_OK)
        return error_set(e, ERR_REFUSED, "INFO replication has no replication id");
    *replication = one.id;
    if (one.id == 0 && !cluster)
        return error_set(e, ERR_UNREACHABLE, "it is a replica of another server");
    return ERR_OK;
}

enum err greeting_judge(const struct greeting *g, unsigned i, const redisReply *reply, struct error *e)
{
    uint64_t id;
    if (i + 1 == g->count && !g->watches)
        return greeting_judge_replication(g->cluster, reply, &id, e);
    if (reply->type != REDIS_REPLY_ERROR)
        return ERR_OK;
    /* A refused name does no harm; but without a login nothing else is allowed either. */
    if (i == g->naming && strncmp(reply->str, "NOAUTH", 6) != 0)
        return ERR_OK;
    return error_set(e, ERR_REFUSED, "%s", reply->str);
}
