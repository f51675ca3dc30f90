/* SPDX-License-Identifier: MIT */
#include "shard/resident/dirty.h"
#include "shard/resident/resident.h"

static void add_shard(const struct bitmap *b, uint32_t shard, struct resident_status *out)
{
    enum bitmap_state state = bitmap_state(b, shard);
    uint64_t dirty = dirty_bytes(b, shard);
    out->shards++;
    out->shard_bytes += b->shard_bytes;
    out->resident += state == BITMAP_RESIDENT;
    out->loading += bitmap_is_loading(b, shard);
    out->dirty += dirty > 0;
    out->dirty_bytes += dirty;
}

void resident_status(const struct resident *r, struct resident_status *out)
{
    *out = (struct resident_status){0};
    unsigned layers = atomic_load_explicit(&r->layer_count, memory_order_acquire);
    for (unsigned l = 0; l < layers; l++) {
        const struct bitmap *b = r->layer[l];
        uint64_t resident = out->resident, loading = out->loading;
        for (uint32_t s = 0; s < b->geometry.shards; s++)
            add_shard(b, s, out);
        out->resident_bytes += (out->resident - resident) * b->shard_bytes;
        out->loading_bytes += (out->loading - loading) * b->shard_bytes;
        out->overhead_bytes += bitmap_overhead(b);
    }
    overlay_size(r->overlay, &out->overlay_keys, &out->overlay_bytes);
    blocks_size(r->blocks, &out->pinned_blocks, &out->pinned_bytes);
}

void resident_shards(const struct resident *r, resident_shard_fn *fn, void *arg)
{
    unsigned layers = atomic_load_explicit(&r->layer_count, memory_order_acquire);
    for (unsigned l = 0; l < layers; l++) {
        const struct bitmap *b = r->layer[l];
        for (uint32_t s = 0; s < b->geometry.shards; s++)
            fn(arg, &(struct resident_shard){.layer = l,
                                             .shard = s,
                                             .state = bitmap_state(b, s),
                                             .bytes = b->shard_bytes,
                                             .dirty_bytes = dirty_bytes(b, s)});
    }
}
