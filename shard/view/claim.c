/* SPDX-License-Identifier: MIT */
#include "shard/view/claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/buffer.h"
#include "base/number.h"
#include "shard/view/handle.h"
#include "shard/redis/script_call.h"

extern const char embedded_claim[];

/* --- decisions --- */

/* The next name of "a, b, c". Returns its length; 0: there is none. */
static size_t next_name(const char **at, const char **name)
{
    *name = *at + strspn(*at, ", ");
    size_t length = strcspn(*name, ", ");
    *at = *name + length;
    return length;
}

/* What is between a node's name and its database: the name has none. */
static const char *mark_of(const struct node *n)
{
    return n->path[0] != '\0' ? "?db=" : "/";
}

static void put_list(const struct nodes *nodes, struct buffer *out)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        const struct node *n = &nodes->node[i];
        buffer_printf(out, "%s%s", i == 0 ? "" : ", ", n->name);
        if (n->database != 0)
            buffer_printf(out, "%s%u", mark_of(n), n->database);
    }
}

/* True if @text, from put_list(), is that node. *@database: its database there. */
static bool is_node(const struct node *n, const char *text, uint64_t *database)
{
    size_t length = strlen(n->name), mark = strlen(mark_of(n));
    bool same =
        n->path[0] != '\0' ? strncmp(text, n->name, length) == 0 : strncasecmp(text, n->name, length) == 0;
    *database = 0;
    if (!same || text[length] == '\0')
        return same;
    const char *number = text + length + mark;
    return strncmp(text + length, mark_of(n), mark) == 0 && number_u64(number, strlen(number), database);
}

static enum err refuse(const struct nodes *nodes, const char *recorded, const char *why, struct error *e)
{
    SCOPED(buffer_fini) struct buffer ours = {0};
    put_list(nodes, &ours);
    return error_set(e, ERR_CONFIG,
                     "[redis] nodes are \"%.160s\" here, and \"%.160s\" for those who keep filters "
                     "there: %s",
                     buffer_text(&ours), recorded, why);
}

enum err claim_judge(const struct nodes *nodes, const char *recorded, bool *lacks, struct error *e)
{
    const char *at = recorded, *name;
    char one[NODE_NAME_MAX + 16];
    size_t length;
    uint64_t database = 0;
    *lacks = false;
    for (unsigned i = 0; (length = next_name(&at, &name)) > 0; i++) {
        unsigned n = 0;
        (void)snprintf(one, sizeof(one), "%.*s", (int)length, name);
        while (n < nodes->count && !is_node(&nodes->node[n], one, &database))
            n++;
        bool is_here = n < nodes->count && nodes->node[n].database == database;
        if (i == 0 && (n != NODE_HOME || !is_here))
            return refuse(nodes, recorded, "the first one is the metadata node, and must be the same", e);
        if (n < nodes->count && !is_here)
            return refuse(nodes, recorded, "their databases must be the same", e);
        *lacks |= !is_here;
    }
    return ERR_OK;
}

/* --- the nodes --- */

/* An attempt is overtaken if another coordinator has written its list meanwhile. */
enum { ATTEMPTS = 10 };

struct claim {
    struct sync_client *redis;
    struct script_call call;
    const char *prefix;
    struct buffer list;
    unsigned order[GENERATION_NODES_MAX]; /* indices of the nodes, in order of their names */
    bool answered[GENERATION_NODES_MAX];
    bool names[GENERATION_NODES_MAX]; /* the node has a set of filter names */
    char *recorded;                   /* a list with a node that ours lacks; NULL: there is none */
    char *seen[GENERATION_NODES_MAX]; /* the list that was found; NULL: none */
    bool any;                         /* some node has a list */
    bool overtaken;                   /* another list was written after ours was compared */
};

static void sort(struct claim *c, const struct nodes *nodes)
{
    for (unsigned i = 0; i < nodes->count; i++) {
        unsigned at = i;
        for (; at > 0 && strcasecmp(nodes->node[c->order[at - 1]].name, nodes->node[i].name) > 0; at--)
            c->order[at] = c->order[at - 1];
        c->order[at] = i;
    }
}

static enum err judge(struct claim *c, unsigned i, const redisReply *reply, struct error *e)
{
    bool lacks;
    if (reply->type != REDIS_REPLY_STRING)
        return ERR_OK;
    c->any = true;
    if ((c->seen[i] = strdup(reply->str)) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = claim_judge(sync_client_nodes(c->redis), reply->str, &lacks, e);
    if (code == ERR_OK && lacks && c->recorded == NULL && (c->recorded = strdup(reply->str)) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    return code;
}

/* A node that does not answer is no error here. */
static enum err look_at(struct claim *c, unsigned i, struct error *e)
{
    SCOPED(scope_reply) redisReply *filters = NULL, *nodes = NULL;
    struct error ignored;
    if (sync_client_command(c->redis, i, &filters, &ignored, "EXISTS %s:filters", c->prefix) != ERR_OK)
        return ERR_OK;
    c->names[i] = filters->integer == 1;
    if (sync_client_command(c->redis, i, &nodes, &ignored, "GET %s:nodes", c->prefix) != ERR_OK)
        return ERR_OK;
    c->answered[i] = true;
    return judge(c, i, nodes, e);
}

/* In an installation without lists the set of filter names lies on the metadata node. */
static enum err find_home(const struct claim *c, struct error *e)
{
    const struct nodes *nodes = sync_client_nodes(c->redis);
    if (c->any || !c->answered[NODE_HOME] || c->names[NODE_HOME])
        return ERR_OK;
    for (unsigned i = 0; i < nodes->count; i++)
        if (c->names[i])
            return refuse(nodes, nodes->node[i].name,
                          "the names of filters lie there, and not on the first one", e);
    return ERR_OK;
}

static const char *others_list(const struct claim *c)
{
    return c->recorded != NULL ? c->recorded : "unknown";
}

/* Another coordinator knew a node that our list lacks, or its list was lost. That node may be gone, if no
 * filter has shards on it. */
static enum err look_at_filter(struct claim *c, const redisReply *name, struct view *v, struct error *e)
{
    SCOPED(handle_fini) struct handle f = {.redis = c->redis};
    struct error why;
    enum err code = names_init(&f.names, c->prefix, name->str, (size_t)name->len, &why);
    if (code == ERR_OK)
        code = handle_load_any(&f, v, &why);
    return code == ERR_CONFIG ? refuse(sync_client_nodes(c->redis), others_list(c), why.text, e) : ERR_OK;
}

static enum err look_at_filters(struct claim *c, struct error *e)
{
    SCOPED(scope_reply) redisReply *names = NULL;
    struct error ignored;
    struct view *v = malloc(sizeof(*v));
    if (v == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code =
        sync_client_command(c->redis, NODE_HOME, &names, &ignored, "SMEMBERS %s:filters", c->prefix);
    if (code != ERR_OK) {
        free(v);
        return refuse(sync_client_nodes(c->redis), others_list(c),
                      "the metadata node does not answer, so nobody knows which filters there are", e);
    }
    for (size_t i = 0; i < names->elements && code == ERR_OK; i++)
        code = look_at_filter(c, names->element[i], v, e);
    free(v);
    return code;
}

/* Replace only the list that was judged: meanwhile another coordinator may have written one, and made
 * filters. */
static enum err write_to(struct claim *c, unsigned i, struct error *e)
{
    long long written = 0;
    struct error ignored;
    struct key_name key = {.length = 0};
    if (c->seen[i] != NULL && strcmp(c->seen[i], buffer_text(&c->list)) == 0)
        return ERR_OK;
    key.length = (size_t)snprintf(key.text, sizeof(key.text), "%s:nodes", c->prefix);
    script_begin(&c->call, embedded_claim);
    script_key(&c->call, &key);
    script_text(&c->call, c->seen[i] != NULL ? c->seen[i] : "");
    script_text(&c->call, buffer_text(&c->list));
    enum err code = script_run(&c->call, c->redis, i, &written, &ignored);
    c->answered[i] = code == ERR_OK;
    c->overtaken |= code == ERR_OK && written == 0;
    return code == ERR_NOMEM ? error_set(e, ERR_NOMEM, "out of memory") : ERR_OK;
}

static void forget(struct claim *c)
{
    for (size_t i = 0; i < GENERATION_NODES_MAX; i++)
        free(c->seen[i]);
    free(c->recorded);
    script_fini(&c->call);
    buffer_fini(&c->list);
    *c = (struct claim){.redis = c->redis, .prefix = c->prefix};
}

static enum err claim_once(struct claim *c, bool *whole, struct error *e)
{
    const struct nodes *nodes = sync_client_nodes(c->redis);
    enum err code = ERR_OK;
    *whole = true;
    put_list(nodes, &c->list);
    if (buffer_failed(&c->list))
        return error_set(e, ERR_NOMEM, "out of memory");
    sort(c, nodes);
    for (unsigned i = 0; i < nodes->count && code == ERR_OK; i++) {
        code = look_at(c, i, e);
        *whole &= c->answered[i];
    }
    if (code == ERR_OK)
        code = find_home(c, e);
    if (code == ERR_OK && (c->recorded != NULL || (c->answered[NODE_HOME] && c->seen[NODE_HOME] == NULL)))
        code = look_at_filters(c, e);
    for (unsigned i = 0; i < nodes->count && code == ERR_OK && *whole && !c->overtaken; i++) {
        code = write_to(c, c->order[i], e);
        *whole = c->answered[c->order[i]];
    }
    return code;
}

enum err claim_nodes(struct sync_client *l, const char *prefix, bool *whole, struct error *e)
{
    struct claim c = {.redis = l, .prefix = prefix};
    bool overtaken = true;
    enum err code = ERR_OK;
    *whole = true;
    if (sync_client_nodes(l)->cluster != NULL)
        return ERR_OK;
    for (unsigned i = 0; i < ATTEMPTS && overtaken && code == ERR_OK; i++) {
        code = claim_once(&c, whole, e);
        overtaken = c.overtaken;
        forget(&c);
    }
    *whole &= !overtaken;
    return code;
}
