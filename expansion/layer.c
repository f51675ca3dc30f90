/* SPDX-License-Identifier: MIT */
/* The happy path is: plan a layer, make its shards, publish it as opening, fence, publish it as written,
 * fence. Possible failure modes are: the driver dies at any point (the next one finds `opening` and goes on),
 * two coordinators find the layer full at once (the second one finds it no longer full under the mutex), no
 * memory (refused before anything is made). */
#include "expansion/layer.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/log.h"
#include "expansion/memory.h"
#include "expansion/plan.h"
#include "shard/reconcile.h"

/* Of the generation's capacity, however small `growth` is: a layer must be worth its two view changes. */
static const double LEAST_SHARE = 0.25;

double layer_first_rate(double rate)
{
    return rate / 2;
}

double layer_rate_bound(const struct generation *g)
{
    double sum = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        sum += g->layers[i].error_rate;
    return sum;
}

double layer_next_rate(const struct generation *g, bool sourced)
{
    double left = (sourced ? 1.5 : 1) * g->error_rate - layer_rate_bound(g);
    unsigned to_come = GENERATION_LAYERS_MAX - g->layer_count;
    if (!(left > 0)) /* whoever made its layers has promised less than they keep: no more than a bit worse */
        return g->layers[g->layer_count - 1].error_rate / 2;
    return left / (g->layer_count < LAYER_EVEN ? 2 : to_come);
}

enum err layer_next_capacity(const struct generation *g, uint32_t expansion, uint64_t *out, struct error *e)
{
    uint32_t least = g->layer_count < LAYER_EVEN ? 1 : g->layer_count < 2 * LAYER_EVEN ? 2 : 4;
    uint64_t last = g->layers[g->layer_count - 1].capacity;
    if (__builtin_mul_overflow(last, expansion < least ? least : expansion, out))
        return error_set(e, ERR_RANGE, "the next layer's capacity is out of range");
    return ERR_OK;
}

static enum err change(const struct layer_options *o, struct view *v, struct view *next, struct error *e)
{
    uint64_t lost;
    next->epoch = v->epoch + 1;
    enum err code = fence_change(o->fence, v, next, mutex_value(o->mutex), NULL, e);
    if (code != ERR_OK)
        return code;
    *v = *next;
    log_info("view_changed",
             "filter=%s epoch=%" PRIu64 " phase=%s layers=%u opening=%d reason=\"a further layer\"",
             log_quote(o->fence->names.filter), v->epoch, phase_row(v->phase)->name,
             view_current(v)->layer_count, view_current(v)->opening);
    return fence_complete(o->fence, v, &lost, e);
}

static enum err next_capacity(const struct layer_options *o, const struct view *v, const struct generation *g,
                              uint64_t *out, struct error *e)
{
    if (v->sourced) {
        double share = o->growth - 1 > LEAST_SHARE ? o->growth - 1 : LEAST_SHARE;
        *out = (uint64_t)((double)g->capacity * share) + 1;
        return ERR_OK;
    }
    return layer_next_capacity(g, v->expansion, out, e);
}

static enum err plan_layer(const struct layer_options *o, const struct view *v, struct generation *g,
                           struct error *e)
{
    if (g->layer_count == GENERATION_LAYERS_MAX)
        return error_set(e, ERR_RANGE, "the filter has %d layers: no more can be added",
                         GENERATION_LAYERS_MAX);
    struct layer layer = {.error_rate = layer_next_rate(g, v->sourced),
                          .token = mutex_token(o->mutex),
                          .born_epoch = v->epoch + 1};
    enum err code = next_capacity(o, v, g, &layer.capacity, e);
    if (code == ERR_OK)
        code = geometry_plan(&layer.geometry, layer.capacity, layer.error_rate, o->shard_bytes, e);
    if (code != ERR_OK)
        return code;
    g->layers[g->layer_count++] = layer;
    g->capacity += layer.capacity;
    return ERR_OK;
}

/* The new layer must fit beside what there is, by what the nodes say now. */
static enum err check_memory(const struct layer_options *o, const struct generation *g, struct error *e)
{
    char warning[256];
    const struct layer *layer = &g->layers[g->layer_count - 1];
    const struct plan plan = {.capacity = layer->capacity,
                              .geometry = layer->geometry,
                              .partitions = 1,
                              .bytes = geometry_bytes(&layer->geometry),
                              .memory_new = geometry_memory(&layer->geometry)};
    return memory_fits(o->fence, g, &plan, warning, e);
}

static enum err make_shards(const struct layer_options *o, const struct generation *g, struct error *e)
{
    struct error ignored;
    enum err code = fence_create(o->fence, g, g->layer_count - 1, e);
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT &&
        fence_discard(o->fence, g, g->layer_count - 1, &ignored) != ERR_OK)
        log_warn("shards_not_deleted", "filter=%s note=\"shards that were made expire by themselves\"",
                 log_quote(o->fence->names.filter));
    return code;
}

enum err layer_complete(const struct layer_options *o, struct view *v, struct view *scratch, struct error *e)
{
    if (!view_current(v)->opening)
        return ERR_OK;
    *scratch = *v;
    scratch->slot[scratch->current].opening = false;
    if (v->phase == PHASE_OVERFLOW_OPEN)
        scratch->phase = PHASE_OVERFLOW;
    return change(o, v, scratch, e);
}

enum err layer_add(const struct layer_options *o, struct view *v, struct view *scratch, unsigned slot,
                   struct error *e)
{
    *scratch = *v;
    struct generation *g = &scratch->slot[slot];
    enum err code = plan_layer(o, v, g, e);
    if (code == ERR_OK)
        code = check_memory(o, g, e);
    if (code == ERR_OK)
        code = make_shards(o, g, e);
    if (code != ERR_OK)
        return code;
    if (slot == v->current) {
        g->opening = true;
        if (view_alternate(v) == NULL)
            scratch->phase = PHASE_OVERFLOW_OPEN;
    }
    code = change(o, v, scratch, e);
    return code == ERR_OK ? layer_complete(o, v, scratch, e) : code;
}

static enum err grow_if_full(const struct layer_options *o, struct view *v, struct view *scratch,
                             struct error *e)
{
    uint64_t items;
    const struct generation *g = view_current(v);
    unsigned newest = g->layer_count - 1;
    enum err code = fence_items(o->fence, g, newest, &items, e);
    if (code != ERR_OK || items < g->layers[newest].capacity)
        return code;
    return layer_add(o, v, scratch, v->current, e);
}

static enum err may_grow(const struct view *v, struct error *e)
{
    if (!v->sourced && v->expansion == 0)
        return error_set(e, ERR_CONFLICT, "the filter does not grow by layers");
    if (v->sourced && !view_current(v)->built)
        return error_set(e, ERR_CONFLICT, "the filter has not been built yet");
    if (view_alternate(v) != NULL)
        return error_set(e, ERR_CONFLICT, "a rebuild is running: it adds layers itself");
    return ERR_OK;
}

enum err layer_grow(const struct layer_options *o, struct view *v, struct error *e)
{
    uint64_t lost;
    enum err code = fence_load(o->fence, v, e);
    if (code == ERR_OK)
        code = fence_may_begin(o->fence, v, e);
    if (code == ERR_OK)
        code = fence_complete(o->fence, v, &lost, e);
    if (code != ERR_OK)
        return code;
    struct view *scratch = malloc(sizeof(*scratch));
    if (scratch == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    code = layer_complete(o, v, scratch, e);
    if (code == ERR_OK)
        code = may_grow(v, e);
    if (code == ERR_OK)
        code = grow_if_full(o, v, scratch, e);
    free(scratch);
    return code;
}
