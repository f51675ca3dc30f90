/* SPDX-License-Identifier: MIT */
#include "migrate/builder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "shard/block.h"

/* Keys that wait for their block to come from memory: enough of them to hide its latency. */
enum { AHEAD = 16 };

struct builder {
    struct fence *fence;
    const struct view *view;
    const struct generation *generation;
    struct geometry geometry;
    unsigned layer;
    uint64_t token;
    uint64_t page; /* number of the next upload */
    uint32_t shard_bytes;
    uint32_t per_pass;     /* shards held at a time */
    uint32_t first, count; /* shards of this pass */
    uint8_t *bitmaps;      /* per_pass * shard_bytes */
    bool *dirty;           /* of the shards held */
    uint64_t *added;       /* of all shards */
    uint64_t pending;      /* their sum */
    unsigned waiting_count;
    struct key_place waiting[AHEAD];
};

enum err builder_new(struct builder **out, struct fence *f, const struct view *v, const struct generation *g,
                     unsigned layer, uint64_t token, uint64_t memory, struct error *e)
{
    struct builder *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return error_set(e, ERR_NOMEM, "builder: out of memory");
    *b = (struct builder){.fence = f,
                          .view = v,
                          .generation = g,
                          .geometry = g->layers[layer].geometry,
                          .layer = layer,
                          .token = token};
    b->shard_bytes = geometry_shard_bytes(&b->geometry);
    uint64_t fit = memory / b->shard_bytes;
    uint32_t most = fit < 1 ? 1 : fit < b->geometry.shards ? (uint32_t)fit : b->geometry.shards;
    uint32_t passes = (b->geometry.shards + most - 1) / most;
    b->per_pass = (b->geometry.shards + passes - 1) / passes;
    size_t bytes = (size_t)b->per_pass * b->shard_bytes;
    b->dirty = calloc(b->per_pass, sizeof(*b->dirty));
    b->added = calloc(b->geometry.shards, sizeof(*b->added));
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    b->bitmaps = map == MAP_FAILED ? NULL : map;
    if (b->dirty == NULL || b->added == NULL || b->bitmaps == NULL) {
        builder_free(b);
        return error_set(e, ERR_NOMEM, "builder: no memory for %zu bytes of bitmaps; lower build_memory",
                         bytes);
    }
    (void)madvise(b->bitmaps, bytes, MADV_HUGEPAGE); /* one random access a key: fewer TLB misses */
    builder_begin(b, 0);
    *out = b;
    return ERR_OK;
}

void builder_free(struct builder *b)
{
    if (b == NULL)
        return;
    if (b->bitmaps != NULL)
        (void)munmap(b->bitmaps, (size_t)b->per_pass * b->shard_bytes);
    free(b->dirty);
    free(b->added);
    free(b);
}

unsigned builder_passes(const struct builder *b)
{
    return (b->geometry.shards + b->per_pass - 1) / b->per_pass;
}

void builder_begin(struct builder *b, unsigned pass)
{
    b->waiting_count = 0;
    b->first = pass * b->per_pass;
    b->count = b->geometry.shards - b->first < b->per_pass ? b->geometry.shards - b->first : b->per_pass;
    for (uint32_t i = 0; i < b->per_pass; i++)
        if (b->dirty[i]) {
            memset(b->bitmaps + (size_t)i * b->shard_bytes, 0, b->shard_bytes);
            b->dirty[i] = false;
        }
}

static uint8_t *bitmap_of(struct builder *b, uint32_t shard)
{
    return b->bitmaps + (size_t)(shard - b->first) * b->shard_bytes;
}

static void apply(struct builder *b)
{
    for (unsigned i = 0; i < b->waiting_count; i++) {
        const struct key_place *place = &b->waiting[i];
        if (block_set(&b->geometry, place, bitmap_of(b, place->shard))) {
            b->added[place->shard]++;
            b->pending++;
            b->dirty[place->shard - b->first] = true;
        }
    }
    b->waiting_count = 0;
}

void builder_add(struct builder *b, const char *key, size_t length)
{
    enum { LINE = 64 };
    struct key_place *place = &b->waiting[b->waiting_count];
    hash_place(&b->geometry, hash_key(b->generation->seed, key, length), place);
    if (place->shard < b->first || place->shard - b->first >= b->count)
        return;
    size_t block_bytes = b->geometry.block_bits / 8;
    const uint8_t *block = bitmap_of(b, place->shard) + place->block * block_bytes;
    for (size_t i = 0; i < block_bytes; i += LINE)
        __builtin_prefetch(block + i, 1);
    if (++b->waiting_count == AHEAD)
        apply(b);
}

enum err builder_flush(struct builder *b, struct error *e)
{
    enum err code = ERR_OK;
    apply(b);
    for (uint32_t i = 0; i < b->count && code == ERR_OK; i++)
        if (b->dirty[i])
            code = fence_upload(b->fence, b->view, b->generation, b->layer, b->first + i, b->token, b->page++,
                                b->bitmaps + (size_t)i * b->shard_bytes, e);
    if (code == ERR_OK)
        code = fence_upload_wait(b->fence, 0, e);
    if (code != ERR_OK)
        return code;
    for (uint32_t i = 0; i < b->count; i++)
        if (b->dirty[i]) {
            memset(b->bitmaps + (size_t)i * b->shard_bytes, 0, b->shard_bytes);
            b->dirty[i] = false;
        }
    return ERR_OK;
}

uint64_t builder_pending(const struct builder *b)
{
    return b->pending;
}

void builder_take_counts(struct builder *b, builder_count_fn *fn, void *arg)
{
    for (uint32_t i = 0; i < b->geometry.shards; i++)
        if (b->added[i] != 0) {
            fn(arg, i, b->added[i]);
            b->added[i] = 0;
        }
    b->pending = 0;
}
