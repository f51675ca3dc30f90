/* SPDX-License-Identifier: MIT */
#include "migrate/build_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- what depends on the layer --- */

static void layer_fini(struct build_layer *l)
{
    bitmaps_free(l->bitmaps);
    spill_free(l->spill);
    free(l->uploads.bits);
    free(l->counted);
    free(l->flushed);
    *l = (struct build_layer){0};
}

static enum err make_parts(struct build_layer *l, const struct build_options *o, struct error *e)
{
    bool spills = l->partitions.count > 1;
    size_t shards = l->geometry.shards;
    l->counted = calloc(shards, sizeof(*l->counted));
    l->flushed = calloc(shards, sizeof(*l->flushed));
    if (!spills)
        l->uploads.bits = calloc(BUILD_OUTPUT_MAX, geometry_shard_bytes(&l->geometry));
    if (l->counted == NULL || l->flushed == NULL || (!spills && l->uploads.bits == NULL))
        return error_set(e, ERR_NOMEM, "build: out of memory");
    enum err code = bitmaps_new(&l->bitmaps, &l->geometry, l->partitions.each, spills ? 1 : o->writers, e);
    return code == ERR_OK && spills ? spill_new(&l->spill, o->spill_dir, l->partitions.count, o->writers, e)
                                    : code;
}

static enum err layer_init(struct build_layer *l, const struct build_options *o, unsigned number,
                           struct error *e)
{
    *l = (struct build_layer){.number = number, .geometry = o->generation->layers[number].geometry};
    enum err code = partitions_plan(&l->partitions, &l->geometry, 1, o->memory, "build_memory", e);
    if (code != ERR_OK)
        return code;
    if (l->partitions.count > 1 && (o->spill_dir == NULL || o->spill_dir[0] == '\0' || o->spill_bytes == 0))
        return error_set(e, ERR_CONFIG,
                         "bitmaps of %" PRIu64 " bytes do not fit into build_memory (%" PRIu64
                         "), and there is no spill_dir",
                         geometry_bytes(&l->geometry), o->memory);
    code = make_parts(l, o, e);
    if (code != ERR_OK)
        layer_fini(l);
    return code;
}

static void put_in_place(struct build *b, const struct build_layer *l)
{
    b->layer = *l;
    if (build_spills(b))
        bitmaps_writer_init(&b->keys, l->bitmaps, 0);
    for (unsigned i = 0; i < b->o.writers; i++) {
        struct build_writer *w = &b->writers[i];
        memset(w, 0, sizeof(*w));
        w->build = b;
        if (build_spills(b))
            w->spill = spill_writer(l->spill, i);
        else
            bitmaps_writer_init(&w->keys, l->bitmaps, i);
    }
}

/* --- making it --- */

enum err build_new(struct build **out, const struct build_options *o, struct error *e)
{
    if (o->writers == 0 || o->writers > BUILD_WRITERS_MAX)
        return error_set(e, ERR_RANGE, "%u writers are not between 1 and %d", o->writers, BUILD_WRITERS_MAX);
    struct build_layer l;
    enum err code = layer_init(&l, o, o->layer, e);
    if (code != ERR_OK)
        return code;
    struct build *b = calloc(1, sizeof(*b));
    struct build_writer *writers =
        aligned_alloc(_Alignof(struct build_writer), o->writers * sizeof(*writers));
    if (b == NULL || writers == NULL) {
        layer_fini(&l);
        free(writers);
        free(b);
        return error_set(e, ERR_NOMEM, "build: out of memory");
    }
    b->o = *o;
    b->pulse = (struct pulse){.output = o->output, .fn = o->poll, .arg = o->poll_arg};
    b->writers = writers;
    put_in_place(b, &l);
    *out = b;
    return ERR_OK;
}

void build_free(struct build *b)
{
    if (b == NULL)
        return;
    layer_fini(&b->layer);
    free(b->writers);
    free(b);
}

enum err build_relayer(struct build *b, unsigned layer, struct error *e)
{
    bool told = true;
    for (uint32_t i = 0; i < b->layer.geometry.shards && told; i++)
        told = build_added(b, i) == b->layer.counted[i];
    if (!told || !build_is_flushed(b))
        return error_set(e, ERR_CONFLICT, "layer %u still has keys that are not %s", b->layer.number,
                         told ? "flushed" : "counted");
    struct build_layer l;
    enum err code = layer_init(&l, &b->o, layer, e);
    if (code != ERR_OK)
        return code;
    layer_fini(&b->layer);
    put_in_place(b, &l);
    return ERR_OK;
}

/* --- writers --- */

struct build_writer *build_writer(struct build *b, unsigned index)
{
    return &b->writers[index];
}

void build_put(struct build_writer *w, struct key_hash h)
{
    if (w->spill == NULL) {
        bitmaps_put(&w->keys, h);
    } else {
        w->put++;
        spill_put(w->spill, partitions_of(&w->build->layer.partitions, h), h);
    }
}

enum err build_page_end(struct build_writer *w, struct error *e)
{
    if (w->spill == NULL)
        bitmaps_apply(&w->keys);
    __atomic_store_n(&w->arrived, w->spill == NULL ? w->keys.total : w->put, __ATOMIC_RELEASE);
    return w->spill == NULL ? ERR_OK : spill_page_end(w->spill, e);
}

/* --- figures --- */

uint64_t build_spilled_bytes(const struct build *b)
{
    return build_spills(b) ? spill_bytes(b->layer.spill) : 0;
}

bool build_wants_flush(const struct build *b)
{
    return build_spills(b) && build_spilled_bytes(b) > b->o.spill_bytes / 2;
}

bool build_is_full(const struct build *b)
{
    return build_spills(b) && build_spilled_bytes(b) >= b->o.spill_bytes;
}

uint32_t build_partitions(const struct build *b)
{
    return b->layer.partitions.count;
}

void build_take_counts(struct build *b, build_count_fn *fn, void *arg)
{
    for (uint32_t i = 0; i < b->layer.geometry.shards; i++) {
        uint64_t n = build_added(b, i) - b->layer.counted[i];
        if (n == 0)
            continue;
        b->layer.counted[i] += n;
        b->layer.told += n;
        fn(arg, i, n);
    }
}

uint64_t build_pending(const struct build *b)
{
    const struct build_layer *l = &b->layer;
    uint64_t arrived = 0;
    for (unsigned i = 0; i < b->o.writers; i++)
        arrived += __atomic_load_n(&b->writers[i].arrived, __ATOMIC_ACQUIRE);
    uint64_t gone = l->drained + l->told;
    return arrived + l->drained_new > gone ? arrived + l->drained_new - gone : 0;
}
