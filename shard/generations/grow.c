/* SPDX-License-Identifier: MIT */
#include "shard/generations/grow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "shard/fold/fold.h"
#include "shard/view/view_load.h"

extern const char embedded_grow_back[], embedded_grow_begin[], embedded_grow_end[];

/* From this number on layers grow faster, and share the rest of the promised rate evenly. */
enum { LAYERS_EVEN = 8, END_TRIES = 3 };

/* --- decisions --- */

enum grow_action grow_decide(uint64_t keys, uint64_t capacity, unsigned layers, bool fixed)
{
    if (keys < capacity)
        return GROW_NOTHING;
    if (fixed)
        return GROW_FULL;
    return layers < GENERATION_LAYERS_MAX ? GROW_LAYER : GROW_NOTHING;
}

double grow_first_rate(double rate)
{
    return rate / 2;
}

static double next_rate(const struct generation *g, bool sourced)
{
    double left = (sourced ? 1.5 : 1) * g->error_rate;
    unsigned to_come = GENERATION_LAYERS_MAX - g->layer_count;
    for (unsigned i = 0; i < g->layer_count; i++)
        left -= g->layers[i].error_rate;
    if (!(left > 0)) /* earlier layers already exceed the promised rate */
        return g->layers[g->layer_count - 1].error_rate / 2;
    return left / (g->layer_count < LAYERS_EVEN ? 2 : to_come);
}

static bool next_capacity(const struct generation *g, uint32_t expansion, bool sourced, uint64_t *out)
{
    uint32_t least = g->layer_count < LAYERS_EVEN ? 1 : g->layer_count < 2 * LAYERS_EVEN ? 2 : 4;
    uint64_t last = g->layers[g->layer_count - 1].capacity;
    *out = g->capacity;
    return sourced || !__builtin_mul_overflow(last, expansion < least ? least : expansion, out);
}

enum err grow_plan(struct generation *out, const struct generation *g, uint32_t expansion, bool sourced,
                   uint32_t shard_bytes, uint64_t token, struct error *e)
{
    struct layer layer = {.token = token};
    if (g->layer_count == GENERATION_LAYERS_MAX)
        return error_set(e, ERR_RANGE, "the filter has %d layers: no more can be added",
                         GENERATION_LAYERS_MAX);
    if (!next_capacity(g, expansion, sourced, &layer.capacity))
        return error_set(e, ERR_RANGE, "the next layer's capacity is out of range");
    layer.error_rate = next_rate(g, sourced);
    enum err code = geometry_plan(&layer.geometry, layer.capacity, layer.error_rate, shard_bytes, e);
    uint64_t capacity;
    if (code == ERR_OK && __builtin_add_overflow(g->capacity, layer.capacity, &capacity))
        code = error_set(e, ERR_RANGE, "the filter's capacity is out of range");
    if (code != ERR_OK)
        return code;
    *out = *g;
    out->layers[out->layer_count++] = layer;
    out->capacity = capacity;
    return ERR_OK;
}

/* --- in Redis --- */

struct grower {
    struct sync_client *redis;
    struct names names;
    struct fold fold;
    struct log_view *view;
    struct generation next;
    bool kept; /* shards of the layer were there before, with bits */
    char was[GENERATION_TEXT_MAX], will_be[GENERATION_TEXT_MAX];
};

static enum err run(struct grower *g, const char *script, bool with_shards, struct error *e)
{
    struct script_call *call = &g->fold.call;
    long long answer = 0;
    script_begin_view(call, script, &g->names);
    script_incarnation(call, g->names.incarnation);
    script_number(call, g->fold.slot);
    script_text(call, g->was);
    script_text(call, g->will_be);
    if (with_shards) {
        script_number(call, generation_shards(&g->next));
        script_number(call, g->kept);
    }
    enum err code = script_run(call, g->redis, sync_client_home(g->redis, &g->names), &answer, e);
    if (code == ERR_REFUSED && e != NULL && strstr(e->text, "OOM command not allowed") != NULL)
        code = ERR_NOMEM;
    if (code == ERR_OK && answer != 1)
        code = error_set(e, ERR_CONFLICT, "generation %" PRIu64 " of filter %s was changed meanwhile",
                         g->next.number, g->names.filter);
    return code;
}

/* Check that the view accepts each node that holds shards; if not, its shards are being repaired. */
static enum err check_eras(struct grower *g, struct error *e)
{
    struct trusted now;
    enum err code = shards_eras(g->redis, &g->names, &g->next, &now, e);
    for (unsigned i = 0; i < now.count && code == ERR_OK; i++)
        if (!trusted_contains(&g->view->eras, now.id[i]))
            code = error_set(e, ERR_CONFLICT,
                             "a node has the replication id %016" PRIx64
                             ", which the view of filter %s does not accept yet",
                             now.id[i], g->names.filter);
    return code;
}

/* Remove the layer's shards. What cannot be removed is taken over by the next grower, or removed with the
 * filter; so are shards if some of them were there before, as others may read those. */
static void unmake_layer(struct grower *g)
{
    struct error ignored;
    if (!g->kept && shards_unmake(g->redis, &g->names, &g->next, g->next.layer_count - 1, g->fold.token,
                                  &ignored) != ERR_OK)
        sync_client_forget(g->redis);
}

static enum err make_layer(struct grower *g, struct error *e)
{
    unsigned layer = g->next.layer_count - 1;
    enum err code = check_eras(g, e);
    if (code == ERR_OK)
        code = run(g, embedded_grow_begin, false, e);
    if (code != ERR_OK)
        return code;
    code = shards_keep_or_make(g->redis, &g->names, &g->next, layer, g->fold.token, &g->kept, e);
    if (code == ERR_OK)
        code = check_eras(g, e);
    if (code != ERR_OK)
        sync_client_forget(g->redis); /* drop replies that nobody has read */
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT)
        unmake_layer(g);
    return code;
}

/* Add the layer to the generation. If a reply is lost, the script says the next time that it was done before.
 * If the first reply is that the layer is no longer wanted (for example as the filter was deleted), remove
 * its shards. */
static enum err end(struct grower *g, struct error *e)
{
    enum err code = run(g, embedded_grow_end, true, e);
    if (code == ERR_CONFLICT)
        unmake_layer(g);
    for (unsigned i = 1; i < END_TRIES && (code == ERR_UNREACHABLE || code == ERR_TIMEOUT); i++)
        code = run(g, embedded_grow_end, true, e);
    return code;
}

static enum err grow(struct grower *g, uint64_t generation, struct error *e)
{
    const struct log_view *v = g->view;
    const struct generation *shape = &v->slot[generation % 2].shape;
    const struct generation *tried = &v->slot[generation % 2].next;
    if (tried->number == 0)
        tried = shape;
    fold_init(&g->fold, g->redis, &g->names, generation);
    enum err code = fold_draw(&g->fold, generation_next_token(tried), e);
    if (code == ERR_OK)
        code = grow_plan(&g->next, shape, v->expansion, v->sourced, v->shard_bytes, g->fold.token.number, e);
    if (code != ERR_OK)
        return code;
    (void)generation_text(shape, g->was);
    (void)generation_text(&g->next, g->will_be);
    code = make_layer(g, e);
    return code == ERR_OK ? end(g, e) : code;
}

enum err log_grow(struct sync_client *l, const struct names *names, uint64_t generation, unsigned layers,
                  struct log_view *out, struct error *e)
{
    enum err code = log_view_load(l, names, out, e);
    if (code != ERR_OK)
        return code;
    const struct generation *shape = &out->slot[generation % 2].shape;
    if (out->deleting || shape->number != generation)
        return error_set(e, ERR_NOT_FOUND, "filter %s has no generation %" PRIu64, names->filter, generation);
    if (shape->layer_count > layers)
        return ERR_OK;
    struct grower *g = calloc(1, sizeof(*g));
    if (g == NULL)
        return error_set(e, ERR_NOMEM, "no memory to add a layer");
    g->redis = l;
    g->names = *names;
    g->names.incarnation = out->incarnation;
    g->view = out;
    code = grow(g, generation, e);
    fold_fini(&g->fold);
    free(g);
    return code == ERR_OK ? log_view_load(l, names, out, e) : code;
}

/* --- a view that went back --- */

bool grow_is_behind(const struct generation *g, const struct generation *known)
{
    bool same = g->number == known->number && g->layer_count < known->layer_count;
    for (unsigned l = 0; l < g->layer_count && same; l++)
        same = g->layers[l].token == known->layers[l].token;
    return same;
}

enum err log_put_back(struct sync_client *l, const struct names *names, const struct generation *g,
                      const struct generation *known, bool *done, struct error *e)
{
    char was[GENERATION_TEXT_MAX], will_be[GENERATION_TEXT_MAX];
    struct generation next = *g;
    struct script_call call = {0};
    long long answer = 0;
    memcpy(next.layers, known->layers, sizeof(next.layers));
    next.layer_count = known->layer_count;
    next.capacity = known->capacity;
    (void)generation_text(g, was);
    (void)generation_text(&next, will_be);
    script_begin_view(&call, embedded_grow_back, names);
    script_incarnation(&call, names->incarnation);
    script_number(&call, g->number % 2);
    script_text(&call, was);
    script_text(&call, will_be);
    script_number(&call, generation_shards(&next));
    enum err code = script_run_once(&call, l, names, &answer, e);
    *done = code == ERR_OK && answer == 1;
    return code;
}
