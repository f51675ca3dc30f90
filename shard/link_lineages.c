/* SPDX-License-Identifier: MIT */
#include "shard/link_lineages.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/info.h"
#include "base/number.h"
#include "shard/slots.h"

/* --- all masters --- */

/* *@reply is a string, which the caller frees. */
static enum err ask_info(struct link *l, unsigned where, const char *section, redisReply **reply,
                         struct error *e)
{
    enum err code = link_command(l, where, reply, e, "INFO %s", section);
    if (code != ERR_OK || (*reply)->type == REDIS_REPLY_STRING)
        return code;
    freeReplyObject(*reply);
    return error_set(e, ERR_PARSE, "unexpected reply to INFO");
}

/* What little can be another now: its role and its keys. False: it is not the one that @was. */
static enum err ask_little(struct link *l, unsigned where, const struct lineage *was, struct lineage *out,
                           bool *same, struct error *e)
{
    redisReply *reply;
    struct lineage now = {0};
    enum err code = ask_info(l, where, "replication", &reply, e);
    if (code != ERR_OK)
        return code;
    code = lineage_parse_info(&now, reply->str, reply->len, e);
    freeReplyObject(reply);
    *same = code == ERR_OK && now.id != 0 && now.id == was->id;
    if (!*same)
        return code;
    *out = *was;
    out->promoted = now.promoted;
    if (link_nodes(l)->cluster == NULL)
        return ERR_OK;
    code = ask_info(l, where, "keyspace", &reply, e);
    if (code == ERR_OK) {
        out->empty = strstr(reply->str, "\ndb") == NULL;
        freeReplyObject(reply);
    }
    return code;
}

static enum err ask_all(struct link *l, unsigned where, struct lineage *out, struct error *e)
{
    redisReply *reply;
    enum err code = ask_info(l, where, "ALL", &reply, e);
    if (code != ERR_OK)
        return code;
    code = lineage_parse_info(out, reply->str, reply->len, e);
    freeReplyObject(reply);
    return code;
}

static enum err ask(struct link *l, unsigned where, const struct lineages *known, struct lineage *out,
                    struct error *e)
{
    enum err code = ERR_OK;
    bool same = false;
    (void)snprintf(out->node, sizeof(out->node), "%s", link_name(l, where));
    const struct lineage *was = known == NULL ? NULL : lineages_of_node(known, out->node);
    if (was != NULL && was->run != 0)
        code = ask_little(l, where, was, out, &same, e);
    if (code == ERR_OK && !same)
        code = ask_all(l, where, out, e);
    if (code == ERR_OK && out->id == 0)
        code = error_set(e, ERR_UNREACHABLE, "it is a replica");
    if (code != ERR_OK)
        code = error_prefix(e, code, "Redis node %s", out->node);
    return code;
}

struct asking {
    bool (*matters)(const void *arg, const struct lineage *one);
    const void *arg;
    bool keep; /* one that cannot be asked, with the id 0 */
    const struct lineages *known;
};

static enum err take(struct link *l, unsigned i, const struct asking *asking, struct lineages *out,
                     struct error *e)
{
    struct lineage one = {0};
    bool cluster = link_nodes(l)->cluster != NULL;
    unsigned slots = cluster ? (unsigned)(link_master_share(l, i) * SLOTS + 0.5) : 0;
    enum err code = ask(l, link_master(l, i), asking->known, &one, e);
    one.slots = slots;
    one.idle = cluster && slots == 0;
    if (code == ERR_UNREACHABLE || code == ERR_TIMEOUT) {
        one.id = 0;
        if (!asking->keep && (asking->matters == NULL || asking->matters(asking->arg, &one)))
            return code;
        if (!asking->keep)
            return ERR_OK;
    } else if (code != ERR_OK) {
        return code;
    }
    return lineages_add(out, &one, e);
}

static enum err take_all(struct link *l, const struct asking *asking, struct lineages *out, struct error *e)
{
    unsigned masters;
    out->count = 0;
    enum err code = link_masters(l, &masters, e);
    for (unsigned i = 0; code == ERR_OK && i < masters; i++)
        code = take(l, i, asking, out, e);
    return code;
}

enum err link_lineages(struct link *l, bool (*matters)(const void *arg, const struct lineage *one),
                       const void *arg, struct lineages *out, struct error *e)
{
    return take_all(l, &(struct asking){.matters = matters, .arg = arg}, out, e);
}

enum err link_look_at_lineages(struct link *l, const struct lineages *known, struct lineages *out,
                               struct error *e)
{
    return take_all(l, &(struct asking){.keep = true, .known = known}, out, e);
}
