/* SPDX-License-Identifier: MIT */
/* The happy path is: fenced, full, plan a layer, make its shards, OVERFLOW_OPEN, fence, OVERFLOW, fence.
 * Possible failure modes are: the driver dies at any point (the next one finds the phase and goes on), two
 * coordinators find the layer full at once (the second one finds it no longer full under the mutex). */
#include "expansion/overflow.h"

#include <inttypes.h>
#include <stdlib.h>
#include "base/log.h"
#include "expansion/memory.h"
#include "expansion/plan.h"

double overflow_first_rate(double rate)
{
    return rate / 2;
}

static enum err change(struct fence *f, struct view *v, struct view *next, struct mutex *mutex,
                       struct error *e)
{
    uint64_t lost;
    next->epoch = v->epoch + 1;
    enum err code = fence_change(f, v, next, mutex_value(mutex), false, NULL, 0, e);
    if (code != ERR_OK)
        return code;
    *v = *next;
    log_info("view_changed", "filter=%s epoch=%" PRIu64 " phase=%s layers=%u", log_quote(f->names.filter),
             v->epoch, phase_row(v->phase)->name, view_current(v)->layer_count);
    return fence_complete(f, v, &lost, e);
}

static enum err plan_layer(struct generation *g, const struct view *v, uint64_t token, uint32_t shard_bytes,
                           struct error *e)
{
    const struct layer *last = &g->layers[g->layer_count - 1];
    uint64_t capacity;
    if (g->layer_count == GENERATION_LAYERS_MAX)
        return error_set(e, ERR_RANGE, "the filter has %d layers: no more can be added",
                         GENERATION_LAYERS_MAX);
    if (__builtin_mul_overflow(last->capacity, v->expansion, &capacity))
        return error_set(e, ERR_RANGE, "the next layer's capacity is out of range");
    struct layer layer = {
        .capacity = capacity, .error_rate = last->error_rate / 2, .token = token, .born_epoch = v->epoch + 1};
    enum err code = geometry_plan(&layer.geometry, capacity, layer.error_rate, shard_bytes, e);
    if (code != ERR_OK)
        return code;
    g->layers[g->layer_count++] = layer;
    return ERR_OK;
}

/* The new layer must fit beside what there is, by what the nodes say now. */
static enum err check_memory(struct fence *f, const struct generation *g, struct error *e)
{
    struct plan_node nodes[GENERATION_NODES_MAX];
    char warning[256];
    const struct layer *layer = &g->layers[g->layer_count - 1];
    const struct plan plan = {.capacity = layer->capacity,
                              .geometry = layer->geometry,
                              .passes = 1,
                              .bytes = geometry_bytes(&layer->geometry),
                              .memory_new = geometry_memory(&layer->geometry)};
    enum err code = memory_of_nodes(f->link, nodes, e);
    return code == ERR_OK ? plan_fits(&plan, nodes, link_nodes(f->link)->count, warning, e) : code;
}

static enum err open_layer(struct fence *f, struct view *v, struct view *next, struct mutex *mutex,
                           uint32_t shard_bytes, struct error *e)
{
    *next = *v;
    struct generation *g = &next->slot[next->current];
    enum err code = plan_layer(g, v, mutex_token(mutex), shard_bytes, e);
    if (code == ERR_OK)
        code = check_memory(f, g, e);
    if (code != ERR_OK)
        return code;
    code = fence_create(f, g, g->layer_count - 1, e);
    struct error ignored;
    if (code != ERR_OK && code != ERR_UNREACHABLE && code != ERR_TIMEOUT &&
        fence_discard(f, g, g->layer_count - 1, &ignored) != ERR_OK)
        log_warn("leftover", "filter=%s note=\"shards that were made expire by themselves\"",
                 log_quote(f->names.filter));
    if (code != ERR_OK)
        return code;
    g->capacity += g->layers[g->layer_count - 1].capacity;
    next->phase = PHASE_OVERFLOW_OPEN;
    return change(f, v, next, mutex, e);
}

static enum err grow(struct fence *f, struct view *v, struct view *next, struct mutex *mutex,
                     uint32_t shard_bytes, struct error *e)
{
    uint64_t items;
    const struct generation *g = view_current(v);
    enum err code = ERR_OK;
    if (v->phase != PHASE_OVERFLOW_OPEN) {
        unsigned newest = g->layer_count - 1;
        code = fence_items(f, g, newest, &items, e);
        if (code != ERR_OK || items < g->layers[newest].capacity)
            return code;
        code = open_layer(f, v, next, mutex, shard_bytes, e);
    }
    if (code != ERR_OK)
        return code;
    *next = *v;
    next->phase = PHASE_OVERFLOW;
    return change(f, v, next, mutex, e);
}

enum err overflow_grow(struct fence *f, struct view *scratch, struct mutex *mutex, uint32_t shard_bytes,
                       struct error *e)
{
    uint64_t lost;
    enum err code = fence_load(f, scratch, e);
    if (code == ERR_OK)
        code = fence_complete(f, scratch, &lost, e);
    if (code == ERR_OK && (scratch->sourced || scratch->expansion == 0))
        code = error_set(e, ERR_CONFLICT, "the filter does not grow by layers");
    if (code != ERR_OK)
        return code;
    struct view *next = malloc(sizeof(*next));
    if (next == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    code = grow(f, scratch, next, mutex, shard_bytes, e);
    free(next);
    return code;
}
