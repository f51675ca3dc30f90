/* SPDX-License-Identifier: MIT */
/* BF.CARD, BF.INFO, BF.DEBUG, TB.COUNT, MEMORY USAGE. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <strings.h>
#include "base/clock.h"
#include "base/random.h"
#include "expansion/job/memory.h"
#include "service/admin/admin.h"
#include "service/filters/log_shards.h"
#include "shard/control/key_client.h"

enum { COUNT_AGAIN_US = 5000 };

/* False: shards are being loaded or are about to be; after that the count is complete. */
static bool take_count(const struct log_status *status, uint64_t *items)
{
    bool counts = true;
    for (unsigned i = 0; i < 2; i++)
        if (status->generation[i].answers) {
            const struct log_generation_status *g = &status->generation[i];
            *items = g->keys;
            counts = g->counts || !status->loads;
        }
    return counts;
}

/* Count all keys that the lanes have now, whichever coordinator added them: the view's count may be seconds
 * old. */
static enum err count(struct admin *a, const struct admin_call *call, uint64_t *items, struct error *e)
{
    const struct service *s = a->service;
    enum { KEYS = 4 }; /* none of them exists, so that the lanes are read */
    uint64_t random[KEYS];
    const char *keys[KEYS];
    size_t lengths[KEYS];
    uint8_t answers[KEYS];
    for (unsigned i = 0; i < KEYS; i++) {
        random[i] = random_u64();
        keys[i] = (const char *)&random[i];
        lengths[i] = sizeof(random[i]);
    }
    struct log_status status;
    enum err code = admin_open_client(a, call, e);
    uint64_t until = clock_mono_us() + (uint64_t)s->redis_timeout_ms * 1000;
    bool counts = false;
    while (code == ERR_OK && !counts) {
        code = key_client_ask(a->client, false, keys, lengths, KEYS, answers, e);
        if (code != ERR_OK || !filters_status(s->logs, call->filter, call->filter_length, &status))
            break;
        counts = take_count(&status, items) || clock_mono_us() >= until;
        if (!counts)
            clock_sleep_us(COUNT_AGAIN_US);
    }
    return code;
}

enum err admin_load_items(struct admin *a, const struct admin_call *call, uint64_t *items, struct error *e)
{
    *items = 0;
    enum err code = admin_open(a, call, e);
    if (code == ERR_OK)
        code = count(a, call, items, e);
    if (code == ERR_OK)
        a->view.keys[a->view.current] = *items; /* newer than the view's */
    return code;
}

uint64_t admin_layer_keys(const struct view *v, unsigned layer)
{
    const struct generation *g = view_current(v);
    uint64_t left = v->keys[v->current];
    for (unsigned l = 0; l < layer; l++)
        left -= left < g->layers[l].capacity ? left : g->layers[l].capacity;
    bool newest = layer + 1 == g->layer_count;
    return newest || left < g->layers[layer].capacity ? left : g->layers[layer].capacity;
}

enum err admin_card(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    uint64_t items;
    enum err code = admin_load_items(a, call, &items, e);
    if (code == ERR_OK || code == ERR_NOT_FOUND)
        reply_integer(r, (int64_t)items);
    return code;
}

static const struct {
    const char *word, *title;
} info_fields[] = {
    {"CAPACITY", "Capacity"},         {"SIZE", "Size"},
    {"FILTERS", "Number of filters"}, {"ITEMS", "Number of items inserted"},
    {"EXPANSION", "Expansion rate"},
};

enum { INFO_FIELDS = sizeof(info_fields) / sizeof(info_fields[0]) };

static uint64_t total_capacity(const struct generation *g)
{
    uint64_t capacity = 0;
    for (unsigned i = 0; i < g->layer_count; i++)
        capacity += g->layers[i].capacity;
    return capacity;
}

static void put_figure(struct reply *r, const struct view *v, uint64_t items, int field)
{
    const struct generation *g = view_current(v);
    switch (field) {
    case 0:
        reply_integer(r, (int64_t)total_capacity(g));
        break;
    case 1:
        reply_integer(r, (int64_t)memory_of_view(v));
        break;
    case 2:
        reply_integer(r, g->layer_count);
        break;
    case 3:
        reply_integer(r, (int64_t)items);
        break;
    default:
        if (v->expansion == 0)
            reply_null(r);
        else
            reply_integer(r, v->expansion);
    }
}

enum err admin_info(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    uint64_t items;
    enum err code = admin_load_items(a, call, &items, e);
    if (code != ERR_OK)
        return code;
    if (call->field[0] == '\0') {
        reply_map(r, INFO_FIELDS);
        for (int i = 0; i < INFO_FIELDS; i++) {
            reply_simple(r, info_fields[i].title);
            put_figure(r, &a->view, items, i);
        }
        return ERR_OK;
    }
    for (int i = 0; i < INFO_FIELDS; i++)
        if (strcasecmp(call->field, info_fields[i].word) == 0) {
            if (call->protocol == 3) {
                reply_map(r, 1);
                reply_simple(r, info_fields[i].title);
            } else {
                reply_array(r, 1);
            }
            put_figure(r, &a->view, items, i);
            return ERR_OK;
        }
    reply_error(r, "Invalid information value");
    return ERR_OK;
}

/* Lines in RedisBloom's format. */
enum err admin_debug(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    uint64_t items;
    enum err code = admin_load_items(a, call, &items, e);
    const struct generation *g = view_current(&a->view);
    if (code != ERR_OK)
        return code;
    reply_array(r, 1 + g->layer_count);
    reply_printf(r, "size:%" PRIu64, items);
    for (unsigned i = 0; i < g->layer_count; i++) {
        const struct layer *l = &g->layers[i];
        uint64_t bytes = geometry_bytes(&l->geometry);
        reply_printf(r,
                     "bytes:%" PRIu64 " bits:%" PRIu64 " hashes:%" PRIu32 " hashwidth:64 capacity:%" PRIu64
                     " size:%" PRIu64 " ratio:%g",
                     bytes, bytes * 8, l->geometry.hashes, l->capacity, admin_layer_keys(&a->view, i),
                     l->error_rate);
    }
    return ERR_OK;
}

/* After a change of the view during the count, count again. */
enum { COUNT_MS = 5000, COUNT_TRIES = 3 };

/* ERR_LOST may also mean that the view has changed. */
static enum err count_once(struct admin *a, double *in_layer, struct error *e)
{
    struct log_shards *s = NULL;
    uint64_t deadline = clock_mono_us() + (uint64_t)COUNT_MS / COUNT_TRIES * 1000;
    if (!view_current(&a->view)->built)
        return error_set(e, ERR_CONFLICT, "the filter is not built yet");
    enum err code = log_shards_open(&s, a->redis, &a->handle.names, view_current(&a->view)->number, e);
    if (code == ERR_OK)
        code = log_shards_count(s, deadline, in_layer, e);
    log_shards_close(s);
    return code == ERR_CONFLICT ? ERR_LOST : code;
}

enum err admin_count(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    uint64_t items;
    double in_layer[GENERATION_LAYERS_MAX] = {0}, keys = 0;
    enum err code = ERR_LOST;
    for (int i = 0; i < COUNT_TRIES && code == ERR_LOST; i++) {
        code = admin_load_items(a, call, &items, e);
        if (code == ERR_OK)
            code = count_once(a, in_layer, e);
    }
    if (code != ERR_OK)
        return code;
    for (unsigned i = 0; i < view_current(&a->view)->layer_count; i++)
        keys += in_layer[i];
    reply_integer(r, llround(keys));
    return ERR_OK;
}

enum err admin_usage(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    uint64_t items;
    enum err code = admin_load_items(a, call, &items, e);
    if (code == ERR_OK)
        reply_integer(r, (int64_t)memory_of_view(&a->view));
    else if (code == ERR_NOT_FOUND)
        reply_null(r);
    return code;
}
