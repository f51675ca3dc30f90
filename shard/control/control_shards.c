/* SPDX-License-Identifier: MIT */
/* Shards of a generation that this process holds: loaded into memory, some at a time. */
#include "shard/control/control_internal.h"

#include "shard/redis/nodes/cluster.h"
#include "shard/resident/load.h"

/* Limits of one load: the control does nothing else meanwhile, and each load walks through the overlay
 * once. */
enum { LOAD_SHARDS = 1024, LOAD_BYTES = 16 << 20 };

struct load_failure {
    struct log_filter *filter;
    uint64_t generation;
    unsigned layer;
    enum err code;
    struct error *e;
};

static void on_failed(void *arg, uint32_t shard, enum err code, const char *why)
{
    struct load_failure *f = arg;
    if (fold_is_lost(code))
        log_filter_lost(f->filter,
                        &(struct log_lost){.generation = f->generation, .layer = f->layer, .shard = shard});
    if (f->code == ERR_OK)
        f->code = error_set(f->e, code, "%s", why);
}

static bool is_to_load(const struct bitmap *b, uint32_t shard)
{
    enum bitmap_state state = bitmap_state(b, shard);
    return state == BITMAP_ABSENT || state == BITMAP_RELOADING;
}

static bool is_to_load_again(const struct bitmap *b, uint32_t shard)
{
    return bitmap_state(b, shard) == BITMAP_RELOADING;
}

/* Find the first run of shards at or after *@shard for which @is_so holds. Returns its length. */
static uint32_t find_run(const struct bitmap *b, bool (*is_so)(const struct bitmap *b, uint32_t shard),
                         uint32_t *shard)
{
    uint32_t n = 0, most = LOAD_BYTES / b->shard_bytes;
    most = most == 0 ? 1 : most < LOAD_SHARDS ? most : LOAD_SHARDS;
    while (*shard < b->geometry.shards && !is_so(b, *shard))
        (*shard)++;
    while (n < most && *shard + n < b->geometry.shards && is_so(b, *shard + n))
        n++;
    return n;
}

/* Read a run of shards into memory. @l has the writer and the eras. */
static enum err read_run(struct control *c, struct held *h, struct load *l, unsigned layer, uint32_t first,
                         uint32_t count, struct load_failure *failure, struct error *e)
{
    *failure =
        (struct load_failure){.filter = c->filter, .generation = h->shape.number, .layer = layer, .e = e};
    l->resident = h->resident;
    l->layer = layer;
    l->names = &c->filter->names;
    l->placement = &h->placement;
    l->generation = h->shape.number;
    l->made = h->shape.layers[layer].token;
    l->first = first;
    l->count = count;
    l->failed = on_failed;
    l->arg = failure;
    enum err code = load_begin(l, e);
    if (code == ERR_OK)
        load_and_wait(l, c->redis);
    return code;
}

/* Shards of a cluster may come to an accepted node by way of one that is not: if some have moved since all
 * masters were accepted, look at them again. */
static enum err check_way(struct control *c, const struct load *l, struct error *e)
{
    enum eras_action action = ERAS_KEEP;
    const struct cluster *cluster = sync_client_nodes(c->redis)->cluster;
    if (cluster == NULL || (!l->redirected && cluster_moves(cluster) == c->filter->moves))
        return ERR_OK;
    enum err code = control_look_at_masters(c, &action, e);
    if (code != ERR_OK || action == ERAS_KEEP)
        return code;
    log_filter_look(c->filter);
    return error_set(e, ERR_BUSY, "masters of the shards have changed while shards were loaded");
}

static enum err load_run(struct control *c, struct held *h, unsigned layer, uint32_t first, uint32_t count,
                         bool *full, struct error *e)
{
    struct load_failure failure;
    struct load l = {.writer = c->view->slot[h->shape.number % 2].writer, .eras = &c->view->eras};
    if (held_load_empty(h, layer, first, count))
        return ERR_OK;
    enum err code = read_run(c, h, &l, layer, first, count, &failure, e);
    if (code == ERR_NOMEM && count > 1)
        return load_run(c, h, layer, first, count / 2, full, e);
    *full = code == ERR_NOMEM;
    if (code != ERR_OK)
        return *full ? ERR_OK : code;
    code = check_way(c, &l, e);
    if (code == ERR_OK)
        (void)load_end(&l);
    load_cancel(&l);
    return code == ERR_OK ? failure.code : code;
}

enum err control_join(void *arg, const struct writer_token *token, struct error *e)
{
    struct control *c = arg;
    struct held *h = c->filter->slot[c->view->current];
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < h->shape.layer_count; layer++)
        for (uint32_t shard = 0, count;
             code == ERR_OK && (count = find_run(h->resident->layer[layer], is_to_load_again, &shard)) > 0;
             shard += count) {
            struct load_failure failure;
            struct load l = {.writer = *token, .eras = c->eras.now};
            code = read_run(c, h, &l, layer, shard, count, &failure, e);
            code = code == ERR_OK ? failure.code : code;
            if (code == ERR_OK)
                code = control_tend_writing(c, e);
        }
    return code;
}

/* Load the first run of shards of @layer that can be loaded. Errors of other shards are noted in *@lost. */
static enum err load_first(struct control *c, struct held *h, unsigned layer, bool *full, bool *loaded,
                           struct load_failure *lost, struct error *e)
{
    struct error why = {""};
    uint32_t shard = 0, count;
    enum err code = ERR_OK;
    while (code == ERR_OK && !*full && !*loaded &&
           (count = find_run(h->resident->layer[layer], is_to_load, &shard)) > 0) {
        code = load_run(c, h, layer, shard, count, full, &why);
        *loaded = code == ERR_OK && !*full;
        if (control_is_of_shards(code)) {
            if (lost->code == ERR_OK)
                lost->code = error_set(lost->e, code, "%s", why.text);
            code = ERR_OK;
        }
        shard += count;
    }
    return code == ERR_OK ? ERR_OK : error_set(e, code, "%s", why.text);
}

bool control_is_of_shards(enum err code)
{
    return fold_is_lost(code) || code == ERR_FENCED;
}

/* A shard that cannot be loaded does not keep others from being loaded. */
enum err control_load_some(struct control *c, struct held *h, bool *full, bool *more, struct error *e)
{
    struct error why = {""};
    struct load_failure lost = {.e = &why};
    uint64_t before = control_missing_shards(h);
    bool loaded = false;
    h->counts = h->counts && before == 0; /* shards are missing: a layer that others have begun, or shards
                                           * that are loaded again */
    enum err code = ERR_OK;
    for (unsigned layer = 0; layer < h->shape.layer_count && code == ERR_OK && !*full && !loaded; layer++)
        code = load_first(c, h, layer, full, &loaded, &lost, e);
    uint64_t missing = control_missing_shards(h);
    *more = missing > 0;
    if (missing < before)
        log_filter_changed(c->filter);
    if (code == ERR_OK && !loaded && lost.code != ERR_OK)
        return error_set(e, lost.code, "%s", why.text);
    return code;
}
