/* SPDX-License-Identifier: MIT */
/* Shards as views change: made, fenced, retired.
 *
 * The happy path of a view change is fence_change(), fence_complete(). Possible failure modes are: the mutex
 * is lost (refused by the script), another driver was faster (the epoch moved on), a shard is gone (counted,
 * not an error: it reads as lost), Redis is away (the caller tries again: each step may be repeated). */
#include "shard/fence_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "shard/block.h"
#include "shard/script.h"

enum {
    RENAMES_IN_FLIGHT = 256,
    NEW_SHARD_TTL_MS = 3600 * 1000,
    COUNTS_AT_ONCE = 128,
    CREATE_BYTES = 1 << 20
};

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

void fence_announce(struct fence *f)
{
    redisReply *reply;
    struct error ignored;
    char text[FILTER_NAME_MAX + 8];
    (void)snprintf(text, sizeof(text), "view %s", f->names.filter);
    if (link_command(f->link, fence_home(f), &reply, &ignored, "PUBLISH %s:events %s", f->names.prefix,
                     text) == ERR_OK)
        freeReplyObject(reply);
}

void fence_put_event(struct fence *f)
{
    char channel[PREFIX_MAX + 8];
    (void)snprintf(channel, sizeof(channel), "%s:events", f->names.prefix);
    script_text(&f->call, channel);
    script_bytes(&f->call, f->names.filter, f->names.filter_length);
}

void fence_tell(const struct fence *f, const struct view *v)
{
    if (f->on_view != NULL)
        f->on_view(f->on_view_arg, &f->names, v);
}

void fence_put_key(struct fence *f, const char *what)
{
    struct key_name name;
    names_filter_key(&f->names, what, &name);
    script_key(&f->call, &name);
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
    return placement_resolve(&w->placement, &f->names, g, link_nodes(f->link), e);
}

static struct shard_id walk_id(const struct walk *w, uint32_t shard)
{
    return (struct shard_id){.generation = w->g->number, .layer = w->layer, .shard = shard};
}

typedef enum err walk_send_fn(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e);
typedef enum err walk_reply_fn(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e);

static enum err walk_run(struct walk *w, unsigned batch, walk_send_fn *send, walk_reply_fn *reply, void *arg,
                         struct error *e)
{
    uint32_t shards = w->g->layers[w->layer].geometry.shards;
    for (uint32_t first = 0; first < shards; first += batch) {
        uint32_t end = shards - first < batch ? shards : first + batch;
        enum err code = ERR_OK;
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = send(w, i, placement_where(&w->placement, w->layer, i), arg, e);
        for (uint32_t i = first; i < end && code == ERR_OK; i++)
            code = reply(w, i, placement_where(&w->placement, w->layer, i), arg, e);
        if (code != ERR_OK) {
            link_forget(w->f->link);
            return code;
        }
    }
    return ERR_OK;
}

/* --- making shards --- */

static enum err send_create(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e)
{
    struct key_name name;
    const struct layer *l = &w->g->layers[w->layer];
    names_new_shard(&w->f->names, walk_id(w, shard), l->token, &name);
    char ttl[24];
    int n = snprintf(ttl, sizeof(ttl), "%d", NEW_SHARD_TTL_MS);
    const char *argv[] = {"SET", name.text, arg, "NX", "PX", ttl};
    const size_t lengths[] = {3, name.length, geometry_shard_bytes(&l->geometry), 2, 2, (size_t)n};
    return link_append(w->f->link, where, 6, argv, lengths, e);
}

static enum err read_any(struct link *l, unsigned where, struct error *e)
{
    redisReply *reply;
    enum err code = link_reply(l, where, &reply, e);
    if (code == ERR_OK && reply->type == REDIS_REPLY_ERROR)
        code = link_refusal(l, where, reply, e);
    freeReplyObject(reply);
    return code;
}

static enum err reply_any(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e)
{
    (void)shard;
    (void)arg;
    return read_any(w->f->link, where, e);
}

/* How many empty shards are on their way at once: a few large ones, many small ones. */
static unsigned create_batch(const struct geometry *g)
{
    unsigned fit = CREATE_BYTES / geometry_shard_bytes(g);
    return fit < FENCE_UPLOADS ? FENCE_UPLOADS : fit < RENAMES_IN_FLIGHT ? fit : RENAMES_IN_FLIGHT;
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
    code = walk_run(&w, create_batch(&g->layers[layer].geometry), send_create, reply_any, empty, e);
    free(empty);
    return code;
}

static enum err send_discard(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e)
{
    (void)arg;
    struct key_name name;
    names_new_shard(&w->f->names, walk_id(w, shard), w->g->layers[w->layer].token, &name);
    const char *argv[] = {"UNLINK", name.text};
    const size_t lengths[] = {6, name.length};
    return link_append(w->f->link, where, 2, argv, lengths, e);
}

enum err fence_discard(struct fence *f, const struct generation *g, unsigned layer, struct error *e)
{
    struct walk w;
    enum err code = walk_begin(&w, f, g, layer, e);
    return code != ERR_OK ? code : walk_run(&w, RENAMES_IN_FLIGHT, send_discard, reply_any, NULL, e);
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
    if (view_is_anew(v, g, layer, shard)) {
        fence_anew_call(c, names, v, id, tag, tombstone_ms);
        return;
    }
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

static enum err send_rename(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e)
{
    struct rename *r = arg;
    fence_rename_call(&w->f->call, &w->f->names, r->view, w->g, w->layer, shard, fence_tag(w->f, w->g),
                      w->f->tombstone_ms);
    return script_send(&w->f->call, w->f->link, where, e);
}

static enum err reply_rename(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e)
{
    (void)shard;
    struct rename *r = arg;
    long long answer;
    enum err code = script_reply(w->f->link, where, &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == -2)
        return error_set(e, ERR_FENCED, "epoch %" PRIu64 " is no longer current", r->view->epoch);
    if (answer == -1)
        ++*r->lost;
    return ERR_OK;
}

enum err fence_complete(struct fence *f, struct view *v, uint64_t *lost, struct error *e)
{
    struct rename r = {.view = v, .lost = lost};
    *lost = 0;
    if (v->fenced_epoch == v->epoch) /* as of a log */
        return ERR_OK;
    if (v->recovery == RECOVERY_DUE)
        return error_set(e, ERR_FENCED, "the view in Redis is outdated, and is not restored yet");
    if (v->recovery == RECOVERY_FENCE) {
        enum err code = fence_gather(f, v, e);
        if (code == ERR_OK)
            code = fence_count_lost(f, v, view_current(v), lost, e);
        if (code != ERR_OK)
            return code;
    }
    for (unsigned s = 0; s < 2 && v->recovery != RECOVERY_FENCE; s++)
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
    enum err code = script_run(c, f->link, fence_home(f), &answer, e);
    if (code != ERR_OK)
        return code;
    if (answer == 0)
        return error_set(e, ERR_FENCED, "epoch %" PRIu64 " is no longer current", v->epoch);
    v->fenced_epoch = v->epoch;
    v->recovery = RECOVERY_NONE;
    return ERR_OK;
}

/* --- retiring --- */

static enum err send_tombstone(struct walk *w, uint32_t shard, unsigned where, void *arg, struct error *e)
{
    const uint64_t *epoch = arg;
    struct key_name name;
    names_shard(&w->f->names, walk_id(w, shard), *epoch, &name);
    script_begin(&w->f->call, embedded_tombstone);
    script_key(&w->f->call, &name);
    script_number(&w->f->call, w->f->tombstone_ms);
    return script_send(&w->f->call, w->f->link, where, e);
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
        enum err code = link_append(f->link, fence_home(f), 2 + n, argv, lengths, e);
        if (code == ERR_OK)
            code = read_any(f->link, fence_home(f), e);
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
    enum err code = script_run(c, f->link, fence_home(f), &answer, e);
    if (code == ERR_OK && answer == -1)
        code = error_set(e, ERR_MUTEX_LOST, "the mutex %s was lost", mutex);
    if (code == ERR_OK) {
        v->retiring_epoch = 0;
        v->retiring = (struct generation){0};
    }
    return code;
}
