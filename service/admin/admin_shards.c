/* SPDX-License-Identifier: MIT */
/* The fill of a filter's shards, and which are lost, as a map of at most CELLS_MAX cells per layer.
 *
 * The happy path is: read the view, then count bits in at most LOG_SHARDS_SAMPLE bytes, or in one shard
 * per layer. The answer is cached, the longer the more it cost. Possible failure modes are: Redis is away;
 * reading takes longer than DEADLINE_MS (ERR_TIMEOUT); the last survey, of any filter, took long and has just
 * ended (ERR_BUSY): a reader must not occupy the admin thread. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "service/admin/admin.h"
#include "shard/control/filters.h"
#include "service/protocol/field.h"
#include "service/filters/log_shards.h"

enum {
    CELLS_MAX = 1024,
    DEADLINE_MS = 3000,
    KEPT_MAX = 8, /* cached answers */
    KEPT_MS = 2000,
    KEPT_FACTOR = 20, /* an answer is cached for this many times its duration */
    BRIEF_MS = 100    /* a shorter survey is no load */
};

/* --- cached answers --- */

struct shards_cache {
    struct kept_answer {
        char *filter; /* NULL: unused */
        size_t length;
        uint64_t until_us;
        struct buffer reply;
    } kept[KEPT_MAX];
    uint64_t ended_us, took_us; /* end and duration of the last survey */
};

static void forget(struct kept_answer *k)
{
    free(k->filter);
    buffer_fini(&k->reply);
    *k = (struct kept_answer){0};
}

void shards_cache_free(struct shards_cache *c)
{
    for (unsigned i = 0; c != NULL && i < KEPT_MAX; i++)
        forget(&c->kept[i]);
    free(c);
}

static const struct kept_answer *find_kept(const struct shards_cache *c, const struct admin_call *call)
{
    for (unsigned i = 0; c != NULL && i < KEPT_MAX; i++) {
        const struct kept_answer *k = &c->kept[i];
        if (k->filter != NULL && k->length == call->filter_length && k->until_us > clock_mono_us() &&
            memcmp(k->filter, call->filter, k->length) == 0)
            return k;
    }
    return NULL;
}

/* Store the answer in place of the one that expires first. */
static void keep(struct admin *a, const struct admin_call *call, uint64_t ms)
{
    struct kept_answer *to = &a->shards->kept[0];
    for (unsigned i = 1; i < KEPT_MAX; i++)
        if (a->shards->kept[i].until_us < to->until_us)
            to = &a->shards->kept[i];
    forget(to);
    to->filter = buffer_copy(call->filter, call->filter_length);
    buffer_append(&to->reply, call->reply.data, call->reply.length);
    if (to->filter == NULL || buffer_failed(&to->reply)) {
        forget(to);
        return;
    }
    to->length = call->filter_length;
    to->until_us = clock_mono_us() + ms * 1000;
}

/* --- one layer --- */

struct layer_map {
    uint32_t shards, per_cell, cells;
    uint64_t keys;
    double sum[CELLS_MAX], most[CELLS_MAX]; /* fill of a cell's shards */
    uint32_t lost[CELLS_MAX];
    uint32_t resident[CELLS_MAX], loading[CELLS_MAX], dirty[CELLS_MAX]; /* shards in this coordinator */
};

struct survey {
    struct admin *a;
    const struct admin_call *call;
    uint64_t deadline_us;
    const struct generation *g;
    struct log_shards *shards;
    bool sampled;   /* one shard represents its cell */
    bool in_memory; /* this coordinator holds the generation */
    unsigned layer;
    struct layer_map map; /* of that layer */
    uint8_t bytes[LOG_SHARDS_RUN];
};

/* Limits the cells so that one shard of each cell, of all layers, fits into the sample. */
static uint32_t cells_max(const struct survey *s)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < s->g->layer_count; i++)
        bytes += geometry_shard_bytes(&s->g->layers[i].geometry);
    if (bytes <= LOG_SHARDS_SAMPLE / CELLS_MAX)
        return CELLS_MAX;
    uint64_t most = bytes == 0 ? 0 : LOG_SHARDS_SAMPLE / bytes;
    return most == 0 ? 1 : (uint32_t)most;
}

static const struct geometry *geometry_of(const struct survey *s)
{
    return &s->g->layers[s->layer].geometry;
}

static uint32_t in_cell(const struct layer_map *m, uint32_t cell)
{
    uint32_t first = cell * m->per_cell;
    return m->shards - first < m->per_cell ? m->shards - first : m->per_cell;
}

static void take_bits(struct survey *s, uint32_t shard, const uint8_t *bytes)
{
    struct layer_map *m = &s->map;
    uint32_t cell = shard / m->per_cell, stands_for = s->sampled ? in_cell(m, cell) : 1;
    double keys = log_shards_keys(geometry_of(s), bytes);
    double room = (double)s->g->layers[s->layer].capacity / m->shards, fill = room > 0 ? keys / room : 0;
    m->keys += (uint64_t)(keys * stands_for + 0.5);
    m->sum[cell] += fill * stands_for;
    m->most[cell] = fill > m->most[cell] ? fill : m->most[cell];
}

static enum err read_run(struct survey *s, uint32_t first, uint32_t count, struct error *e)
{
    uint32_t shard_bytes = geometry_shard_bytes(geometry_of(s));
    if (clock_mono_us() > s->deadline_us)
        return error_set(e, ERR_TIMEOUT, "reading the bits of %u shards took too long", s->map.shards);
    enum err code = log_shards_read(s->shards, s->layer, first, count, s->bytes, e);
    for (uint32_t i = 0; code == ERR_OK && i < count; i++)
        take_bits(s, first + i, s->bytes + (size_t)i * shard_bytes);
    return code;
}

/* Read shards one by one if some of them are lost. */
static enum err read_bits(struct survey *s, struct error *e)
{
    struct layer_map *m = &s->map;
    uint32_t shard_bytes = geometry_shard_bytes(geometry_of(s));
    uint32_t most = shard_bytes == 0 ? 0 : LOG_SHARDS_RUN / shard_bytes;
    const uint32_t per_cell = m->per_cell;
    assert(per_cell > 0);
    enum err code = ERR_OK;
    for (uint64_t at = 0; at < m->shards && code == ERR_OK; at += s->sampled ? per_cell : most) {
        uint32_t first = (uint32_t)at, left = m->shards - first, count = left < most ? left : most;
        if (s->sampled)
            count = 1;
        code = read_run(s, first, count, e);
        if (code != ERR_LOST)
            continue;
        code = ERR_OK;
        for (uint32_t i = first; i < first + count && code == ERR_OK; i++) {
            code = read_run(s, i, 1, e);
            if (code != ERR_LOST)
                continue;
            m->lost[i / per_cell]++;
            code = ERR_OK;
        }
    }
    return code;
}

static void take_shard(void *arg, const struct resident_shard *shard)
{
    struct survey *s = arg;
    struct layer_map *m = &s->map;
    if (shard->layer != s->layer || shard->shard >= m->shards)
        return;
    uint32_t cell = shard->shard / m->per_cell;
    m->resident[cell] += shard->state == BITMAP_RESIDENT;
    m->loading[cell] += shard->state == BITMAP_LOADING || shard->state == BITMAP_RELOADING;
    m->dirty[cell] += shard->dirty_bytes > 0;
}

/* Add [[cell, shards], ...] for the cells with a count. */
static void pairs_field(struct fields *f, const char *name, const struct layer_map *m, const uint32_t *counts)
{
    size_t some = 0;
    for (uint32_t i = 0; i < m->cells; i++)
        some += counts[i] > 0;
    field_array(f, name, some);
    for (uint32_t i = 0; i < m->cells; i++)
        if (counts[i] > 0) {
            reply_array(&f->reply, 2);
            reply_integer(&f->reply, i);
            reply_integer(&f->reply, counts[i]);
        }
}

/* In thousandths, which is precise enough for a map. */
static void write_map(struct reply *r, const struct survey *s)
{
    const struct layer_map *m = &s->map;
    struct fields f;
    fields_begin(&f, r->protocol);
    field_number(&f, "layer", s->layer);
    field_number(&f, "shards", m->shards);
    field_number(&f, "capacity", s->g->layers[s->layer].capacity);
    field_number(&f, "keys", m->keys);
    field_number(&f, "shards_per_cell", m->per_cell);
    field_array(&f, "fill_permille", m->cells);
    for (uint32_t i = 0; i < m->cells; i++)
        reply_integer(&f.reply, (int64_t)(m->sum[i] / in_cell(m, i) * 1000 + 0.5));
    field_array(&f, "fill_permille_max", m->per_cell > 1 ? m->cells : 0);
    for (uint32_t i = 0; m->per_cell > 1 && i < m->cells; i++)
        reply_integer(&f.reply, (int64_t)(m->most[i] * 1000 + 0.5));
    pairs_field(&f, "lost", m, m->lost);
    if (s->in_memory) {
        pairs_field(&f, "resident", m, m->resident);
        pairs_field(&f, "loading", m, m->loading);
        pairs_field(&f, "dirty", m, m->dirty);
    }
    fields_end(&f, r);
}

/* --- generations --- */

static enum err generation_fields(struct fields *f, struct survey *s, struct error *e)
{
    enum err code = ERR_OK;
    field_number(f, "generation", s->g->number);
    field_bool(f, "built", s->g->built);
    field_number(f, "node_count", s->g->node_count);
    field_array(f, "layers", s->g->layer_count);
    s->sampled = generation_bytes(s->g) > LOG_SHARDS_SAMPLE;
    for (s->layer = 0; code == ERR_OK && s->layer < s->g->layer_count; s->layer++) {
        uint32_t shards = geometry_of(s)->shards, most = cells_max(s), per_cell = (shards + most - 1) / most;
        s->map = (struct layer_map){
            .shards = shards, .per_cell = per_cell, .cells = (shards + per_cell - 1) / per_cell};
        code = read_bits(s, e);
        if (code != ERR_OK)
            return code;
        s->in_memory = filters_shards(s->a->service->logs, s->call->filter, s->call->filter_length,
                                      s->g->number, take_shard, s);
        write_map(&f->reply, s);
    }
    return code;
}

static enum err write_generation(struct reply *r, struct survey *s, const struct generation *g,
                                 struct error *e)
{
    s->g = g;
    enum err code = log_shards_open(&s->shards, s->a->redis, &s->a->handle.names, g->number, e);
    if (code != ERR_OK)
        return code;
    SCOPED(fields_drop) struct fields f;
    fields_begin(&f, r->protocol);
    code = generation_fields(&f, s, e);
    log_shards_close(s->shards);
    if (code == ERR_OK)
        fields_end(&f, r);
    return code;
}

/* The generation in use, then the one that is being built or may be rolled back to. Shards that are being
 * built are not read: the builder has most of their keys in memory. */
static enum err survey_filter(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    struct fields f;
    enum err code = admin_open(a, call, e);
    if (code != ERR_OK)
        return code;
    const struct generation *other = view_alternate(&a->view);
    bool two = other != NULL && other->built;
    struct survey *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    s->a = a;
    s->call = call;
    s->deadline_us = clock_mono_us() + (uint64_t)DEADLINE_MS * 1000;
    SCOPED(fields_drop) struct fields both;
    fields_begin(&both, r->protocol);
    both.count = two ? 2 : 1;
    code = write_generation(&both.reply, s, view_current(&a->view), e);
    if (code == ERR_OK && two)
        code = write_generation(&both.reply, s, other, e);
    free(s);
    if (code != ERR_OK)
        return code;
    fields_begin(&f, r->protocol);
    field_bytes(&f, "filter", call->filter, call->filter_length);
    field_text(&f, "phase", phase_name(a->view.phase));
    field_list(&f, "generations", &both);
    fields_end(&f, r);
    return ERR_OK;
}

static enum err survey(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    uint64_t began = clock_mono_us();
    if (a->shards == NULL && (a->shards = calloc(1, sizeof(*a->shards))) == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    struct shards_cache *c = a->shards;
    /* At least half of the time must be left for others. */
    if (c->took_us > (uint64_t)BRIEF_MS * 1000 && began - c->ended_us < c->took_us)
        return error_set(e, ERR_BUSY,
                         "the shards of a filter were read just now, for %llu ms; ask again later",
                         (unsigned long long)(c->took_us / 1000));
    enum err code = survey_filter(a, call, r, e);
    c->ended_us = clock_mono_us();
    c->took_us = c->ended_us - began;
    return code;
}

enum err admin_shards(struct admin *a, struct admin_call *call, struct reply *r, struct error *e)
{
    const struct kept_answer *kept = find_kept(a->shards, call);
    if (kept != NULL) {
        buffer_append(&call->reply, kept->reply.data, kept->reply.length);
        return ERR_OK;
    }
    enum err code = survey(a, call, r, e);
    if (code != ERR_OK) {
        buffer_clear(&call->reply);
        return code;
    }
    uint64_t ms = a->shards->took_us / 1000 * KEPT_FACTOR;
    if (!buffer_failed(&call->reply))
        keep(a, call, ms > KEPT_MS ? ms : KEPT_MS);
    return ERR_OK;
}
