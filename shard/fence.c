/* SPDX-License-Identifier: MIT */
/* Making, changing and fencing views.
 *
 * The happy path of a view change is fence_change(), fence_complete(). Possible failure modes are: the mutex
 * is lost (refused by the script), another driver was faster (the epoch moved on), a shard is gone (counted,
 * not an error: it reads as lost), Redis is away (the caller tries again: each step may be repeated). */
#include "shard/fence_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "shard/block.h"
#include "shard/script.h"

enum { RENAMES_IN_FLIGHT = 256, NEW_SHARD_TTL_MS = 3600 * 1000, COUNTS_AT_ONCE = 128 };

void fence_fini(struct fence *f)
{
    script_fini(&f->call);
}

uint16_t fence_tag(const struct fence *f, const struct generation *g)
{
    return hash_tag(f->names.incarnation, f->names.filter, f->names.filter_length, g->number);
}

static void tag_bytes(uint16_t tag, char out[2])
{
    out[0] = (char)(tag >> 8);
    out[1] = (char)(tag & 0xff);
}

void fence_put_event(struct fence *f)
{
    char channel[PREFIX_MAX + 8];
    (void)snprintf(channel, sizeof(channel), "%s:events", f->names.prefix);
    script_text(&f->call, channel);
    script_bytes(&f->call, f->names.filter, f->names.filter_length);
}

void fence_put_key(struct fence *f, const char *what)
{
    struct key_name name;
    names_filter_key(&f->names, what, &name);
    script_key(&f->call, &name);
}

enum err fence_parse_view(struct view *out, const redisReply *reply, struct error *e)
{
    enum { FIELDS_MAX = 64 };
    struct view_field fields[FIELDS_MAX];
    size_t count = 0;
    static const char wrong_type[] = "WRONGTYPE ";
    if (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, wrong_type, sizeof(wrong_type) - 1) == 0)
        return error_set(e, ERR_WRONG_TYPE, "%s", reply->str);
    if (reply->type != REDIS_REPLY_ARRAY)
        return error_set(e, ERR_PARSE, "view: %s",
                         reply->type == REDIS_REPLY_ERROR ? reply->str : "not a hash");
    for (size_t i = 0; i + 1 < reply->elements && count < FIELDS_MAX; i += 2)
        fields[count++] = (struct view_field){.name = reply->element[i]->str,
                                              .name_length = (size_t)reply->element[i]->len,
                                              .value = reply->element[i + 1]->str,
                                              .value_length = (size_t)reply->element[i + 1]->len};
    return view_parse(out, fields, count, e);
}

enum err fence_load_any(struct fence *f, struct view *out, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    const char *argv[] = {"HGETALL", name.text};
    names_filter_key(&f->names, "view", &name);
    const size_t lengths[] = {7, name.length};
    out->dropped = VIEW_KEPT;
    enum err code = link_append(f->link, NODE_HOME, 2, argv, lengths, e);
    if (code == ERR_OK)
        code = link_reply(f->link, NODE_HOME, &reply, e);
    if (code != ERR_OK)
        return code;
    code = fence_parse_view(out, reply, e);
    if (code == ERR_PARSE && reply->type == REDIS_REPLY_ERROR)
        code = link_refusal(f->link, NODE_HOME, reply, e);
    if (code == ERR_OK)
        f->names.incarnation = out->incarnation;
    freeReplyObject(reply);
    return code;
}

enum err fence_load(struct fence *f, struct view *out, struct error *e)
{
    enum err code = fence_load_any(f, out, e);
    if (code == ERR_OK && out->dropped == VIEW_DROP_BEGUN)
        return error_set(e, ERR_NOT_FOUND, "the filter is being deleted");
    return code;
}

enum err fence_look(struct fence *f, const struct view *v, struct error *e)
{
    struct key_name name;
    redisReply *reply;
    char incarnation[17];
    uint64_t epoch = 0;
    names_filter_key(&f->names, "view", &name);
    enum err code =
        link_command(f->link, NODE_HOME, &reply, e, "HMGET %b incarnation epoch", name.text, name.length);
    if (code != ERR_OK)
        return code;
    (void)snprintf(incarnation, sizeof(incarnation), "%016" PRIx64, v->incarnation);
    bool there = reply->elements == 2 && reply->element[0]->type == REDIS_REPLY_STRING &&
                 reply->element[1]->type == REDIS_REPLY_STRING;
    if (!there)
        code = error_set(e, ERR_FENCED, "the view is not in Redis any more");
    else if (strcmp(reply->element[0]->str, incarnation) != 0 ||
             !number_u64(reply->element[1]->str, (size_t)reply->element[1]->len, &epoch) ||
             epoch < v->epoch || epoch > v->epoch + 1)
        code = error_set(e, ERR_FENCED, "the view moved on from epoch %" PRIu64, v->epoch);
    freeReplyObject(reply);
    return code;
}

/* Walk over shards in batches: send for each, then read for each, in order. */
struct walk {
    struct fence *f;
    const struct generation *g;
    unsigned layer;
    struct placement placement;
};

static enum err walk_begin(struct walk *w, struct fence *f, const struct generation *g, unsigned layer,
                           struct error *e)
{
    *w = (struct walk){.f = f, .g = g, .layer = layer};
    return placement_resolve(&w->placement, g, link_nodes(f->link), e);
}

static struct shard_id walk_id(const struct walk *w, uint32_t shard)
{
    return (struct shard_id){.generation = w->g->number, .layer = w->layer, .shard = shard};
}

typedef enum err walk_send_fn(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e);
typedef enum err walk_reply_fn(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e);

static enum err walk_run(struct walk *w, unsigned batch, walk_send_fn *send, walk_reply_fn *reply, void *arg,
                         struct error *e)
{
    uint32_t shards = w->g->layers[w->layer].geometry.shards;
    for (uint32_t first = 0; first < shards; first += batch) {
        uint32_t end = shards - first < batch ? shards : first + batch;
        enum err code = ERR_OK;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = send(w, i, placement_node(&w->placement, i), arg, e);
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = reply(w, i, placement_node(&w->placement, i), arg, e);
        if (code != ERR_OK) {
            link_forget(w->f->link);
            return code;
        }
    }
    return ERR_OK;
}

/* --- making shards --- */

static enum err send_create(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e)
{
    struct key_name name;
    const struct layer *l = &w->g->layers[w->layer];
    names_new_shard(&w->f->names, walk_id(w, shard), l->token, &name);
    char ttl[24];
    int n = snprintf(ttl, sizeof(ttl), "%d", NEW_SHARD_TTL_MS);
    const char *argv[] = {"SET", name.text, arg, "NX", "PX", ttl};
    const size_t lengths[] = {3, name.length, geometry_shard_bytes(&l->geometry), 2, 2, (size_t)n};
    return link_append(w->f->link, node, 6, argv, lengths, e);
}

static enum err read_any(struct link *l, unsigned node, struct error *e)
{
    redisReply *reply;
    enum err code = link_reply(l, node, &reply, e);
    if (code == ERR_OK && reply->type == REDIS_REPLY_ERROR)
        code = link_refusal(l, node, reply, e);
    freeReplyObject(reply);
    return code;
}

static enum err reply_any(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e)
{
    (void)shard;
    (void)arg;
    return read_any(w->f->link, node, e);
}

enum err fence_create(struct fence *f, const struct generation *g, unsigned layer, struct error *e)
{
    struct walk w;
    enum err code = walk_begin(&w, f, g, layer, e);
    if (code != ERR_OK)
        return code;
    uint8_t *empty = malloc(geometry_shard_bytes(&g->layers[layer].geometry));
    if (empty == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    block_fill(&g->layers[layer].geometry, fence_tag(f, g), empty);
    code = walk_run(&w, FENCE_UPLOADS, send_create, reply_any, empty, e);
    free(empty);
    return code;
}

static enum err send_discard(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e)
{
    (void)arg;
    struct key_name name;
    names_new_shard(&w->f->names, walk_id(w, shard), w->g->layers[w->layer].token, &name);
    const char *argv[] = {"UNLINK", name.text};
    const size_t lengths[] = {6, name.length};
    return link_append(w->f->link, node, 2, argv, lengths, e);
}

enum err fence_discard(struct fence *f, const struct generation *g, unsigned layer, struct error *e)
{
    struct walk w;
    enum err code = walk_begin(&w, f, g, layer, e);
    return code != ERR_OK ? code : walk_run(&w, RENAMES_IN_FLIGHT, send_discard, reply_any, NULL, e);
}

/* --- changing the view --- */

static void add_field(void *arg, const char *name, const char *value)
{
    script_text(arg, name);
    script_text(arg, value);
}

static void count_field(void *arg, const char *name, const char *value)
{
    (void)name;
    (void)value;
    *(uint64_t *)arg += 2;
}

/* Arguments that the fields of @v take. */
static uint64_t count_fields(const struct view *v)
{
    uint64_t count = 0;
    view_format(v, count_field, &count);
    return count;
}

enum err fence_publish(struct fence *f, const struct view *v, const char *mutex, struct error *e)
{
    struct script_call *c = &f->call;
    script_begin(c, embedded_publish);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    fence_put_key(f, "count");
    fence_put_key(f, "token");
    script_text(c, mutex);
    fence_put_event(f);
    view_format(v, add_field, c);
    long long answer;
    enum err code = script_run(c, f->link, NODE_HOME, &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == 0)
        return error_set(e, ERR_EXISTS, "the filter exists already");
    if (answer < 0)
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    return ERR_OK;
}

enum err fence_change(struct fence *f, const struct view *from, const struct view *to, const char *mutex,
                      const struct fence_job *job, struct error *e)
{
    static const struct fence_job nothing = {0};
    if (job == NULL)
        job = &nothing;
    if (!phase_may_follow(from->phase, to->phase))
        return error_set(e, ERR_CONFLICT, "phase %s does not lead to %s", phase_row(from->phase)->name,
                         phase_row(to->phase)->name);
    struct script_call *c = &f->call;
    script_begin(c, embedded_change);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    fence_put_key(f, "job");
    script_text(c, mutex);
    fence_put_event(f);
    script_incarnation(c, from->incarnation);
    script_number(c, from->epoch);
    script_number(c, job->reset ? 1 : 0);
    script_text(c, job->guard == NULL ? "" : job->guard);
    script_number(c, count_fields(to));
    view_format(to, add_field, c);
    for (size_t i = 0; i < job->count; i++)
        script_text(c, job->pairs[i]);
    long long answer;
    enum err code = script_run(c, f->link, NODE_HOME, &answer, e);
    if (code != ERR_OK)
        return code;
    switch (answer) {
    case 1:
        return ERR_OK;
    case -1:
        return error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    case -3:
        return error_set(e, ERR_CONFLICT, "epoch %" PRIu64 " is not fenced yet", from->epoch);
    case -4:
        return error_set(e, ERR_CANCELLED, "an operator asked for something else");
    default:
        return error_set(e, ERR_FENCED, "the view moved on from epoch %" PRIu64, from->epoch);
    }
}

/* --- fencing --- */

struct rename {
    const struct view *view;
    uint64_t *lost;
    char tag[2];
};

void fence_rename_call(struct script_call *c, const struct names *names, const struct view *v,
                       const struct generation *g, unsigned layer, uint32_t shard, uint16_t tag,
                       uint64_t tombstone_ms)
{
    struct key_name from, to;
    struct shard_id id = {.generation = g->number, .layer = layer, .shard = shard};
    const struct layer *l = &g->layers[layer];
    if (l->born_epoch == v->epoch)
        names_new_shard(names, id, l->token, &from);
    else
        names_shard(names, id, v->epoch - 1, &from);
    names_shard(names, id, v->epoch, &to);
    char bytes[2];
    tag_bytes(tag, bytes);
    script_begin(c, embedded_rename);
    script_key(c, &from);
    script_key(c, &to);
    script_bytes(c, bytes, 2);
    script_number(c, tombstone_ms);
}

static enum err send_rename(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e)
{
    struct rename *r = arg;
    fence_rename_call(&w->f->call, &w->f->names, r->view, w->g, w->layer, shard, fence_tag(w->f, w->g),
                      w->f->tombstone_ms);
    return script_send(&w->f->call, w->f->link, node, e);
}

static enum err reply_rename(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e)
{
    (void)shard;
    struct rename *r = arg;
    long long answer;
    enum err code = script_reply(w->f->link, node, &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == -2)
        return error_set(e, ERR_FENCED, "epoch %" PRIu64 " is over", r->view->epoch);
    if (answer == -1)
        ++*r->lost;
    return ERR_OK;
}

enum err fence_complete(struct fence *f, struct view *v, uint64_t *lost, struct error *e)
{
    struct rename r = {.view = v, .lost = lost};
    *lost = 0;
    if (v->fenced_epoch == v->epoch)
        return ERR_OK;
    for (unsigned s = 0; s < 2; s++)
        for (unsigned layer = 0; v->slot[s].number != 0 && layer < v->slot[s].layer_count; layer++) {
            struct walk w;
            enum err code = walk_begin(&w, f, &v->slot[s], layer, e);
            if (code == ERR_OK)
                code = walk_run(&w, RENAMES_IN_FLIGHT, send_rename, reply_rename, &r, e);
            if (code != ERR_OK)
                return code;
        }
    struct script_call *c = &f->call;
    script_begin(c, embedded_fenced);
    fence_put_key(f, "view");
    script_incarnation(c, v->incarnation);
    script_number(c, v->epoch);
    long long answer;
    enum err code = script_run(c, f->link, NODE_HOME, &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == 0)
        return error_set(e, ERR_FENCED, "epoch %" PRIu64 " is over", v->epoch);
    v->fenced_epoch = v->epoch;
    return ERR_OK;
}

/* --- retiring --- */

static enum err send_tombstone(struct walk *w, uint32_t shard, unsigned node, void *arg, struct error *e)
{
    const uint64_t *epoch = arg;
    struct key_name name;
    names_shard(&w->f->names, walk_id(w, shard), *epoch, &name);
    script_begin(&w->f->call, embedded_tombstone);
    script_key(&w->f->call, &name);
    script_number(&w->f->call, w->f->tombstone_ms);
    return script_send(&w->f->call, w->f->link, node, e);
}

enum err fence_put_tombstones(struct fence *f, const struct generation *g, unsigned layer, uint64_t epoch,
                              struct error *e)
{
    struct walk w;
    enum err code = walk_begin(&w, f, g, layer, e);
    return code != ERR_OK ? code : walk_run(&w, RENAMES_IN_FLIGHT, send_tombstone, reply_any, &epoch, e);
}

/* Delete the counts of one layer. Not in one script: with 10,000 shards it would hold up Redis. Numbers of
 * generations are never used again, so that no token has to guard this. */
static enum err forget_counts(struct fence *f, const struct generation *g, unsigned layer, struct error *e)
{
    struct key_name name;
    const char *argv[2 + COUNTS_AT_ONCE] = {"HDEL", name.text};
    size_t lengths[2 + COUNTS_AT_ONCE] = {4};
    char field[COUNTS_AT_ONCE][64];
    names_filter_key(&f->names, "count", &name);
    lengths[1] = name.length;
    uint32_t shards = g->layers[layer].geometry.shards;
    for (uint32_t next = 0; next <= shards;) { /* the last is the layer's total */
        size_t n = 0;
        for (; n < COUNTS_AT_ONCE && next <= shards; n++, next++) {
            int length =
                next < shards
                    ? snprintf(field[n], sizeof(field[n]), "%" PRIu64 ".%u.%" PRIu32, g->number, layer, next)
                    : snprintf(field[n], sizeof(field[n]), "%" PRIu64 ".%u", g->number, layer);
            argv[2 + n] = field[n];
            lengths[2 + n] = (size_t)length;
        }
        enum err code = link_append(f->link, NODE_HOME, 2 + n, argv, lengths, e);
        if (code == ERR_OK)
            code = read_any(f->link, NODE_HOME, e);
        if (code != ERR_OK)
            return code;
    }
    return ERR_OK;
}

enum err fence_retire(struct fence *f, struct view *v, const char *mutex, struct error *e)
{
    if (v->retiring_epoch == 0)
        return ERR_OK;
    for (unsigned layer = 0; layer < v->retiring.layer_count; layer++) {
        enum err code = fence_put_tombstones(f, &v->retiring, layer, v->retiring_epoch, e);
        if (code == ERR_OK)
            code = forget_counts(f, &v->retiring, layer, e);
        if (code != ERR_OK)
            return code;
    }
    struct script_call *c = &f->call;
    script_begin(c, embedded_retired);
    fence_put_key(f, "view");
    fence_put_key(f, "expansion_flag");
    script_text(c, mutex);
    script_incarnation(c, v->incarnation);
    script_number(c, v->retiring_epoch);
    long long answer;
    enum err code = script_run(c, f->link, NODE_HOME, &answer, e);
    if (code == ERR_OK && answer == -1)
        code = error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    if (code == ERR_OK) {
        v->retiring_epoch = 0;
        v->retiring = (struct generation){0};
    }
    return code;
}
