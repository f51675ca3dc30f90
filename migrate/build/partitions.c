/* SPDX-License-Identifier: MIT */
#include "migrate/build/partitions.h"

#include <inttypes.h>
#include <stdbool.h>
#include "base/number.h"

__extension__ typedef unsigned __int128 wide;

uint32_t partitions_shards_max(const struct partitions *p, const struct geometry *g)
{
    if (g->shards == p->shards)
        return p->each;
    uint64_t most = number_divide_up((uint64_t)g->shards * p->each, p->shards) + 1;
    return most < g->shards ? (uint32_t)most : g->shards;
}

static uint64_t bytes_at_once(const struct partitions *p, const struct geometry *g, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += (uint64_t)partitions_shards_max(p, &g[i]) * geometry_shard_bytes(&g[i]);
    return bytes;
}

enum err partitions_plan(struct partitions *out, const struct geometry *g, unsigned count, uint64_t memory,
                         const char *setting, struct error *e)
{
    struct partitions p = {.count = 0};
    for (unsigned i = 0; i < count; i++)
        p.shards = g[i].shards > p.shards ? g[i].shards : p.shards;
    if (p.shards == 0)
        return error_set(e, ERR_RANGE, "there are no shards");
    for (uint32_t parts = 1; parts <= PARTITIONS_MAX; parts++) {
        p.each = (uint32_t)number_divide_up(p.shards, parts);
        p.count = (uint32_t)number_divide_up(p.shards, p.each);
        if (p.each == 1 || bytes_at_once(&p, g, count) <= memory) {
            *out = p;
            return ERR_OK;
        }
    }
    return error_set(e, ERR_CONFIG,
                     "%s: %" PRIu64 " bytes are too few for bitmaps of %u shards: at least %" PRIu64
                     " are needed",
                     setting, memory, p.shards, bytes_at_once(&p, g, count));
}

/* The lowest high half of a hash that lies in shard @shard of the divided layer. */
static uint64_t lowest(const struct partitions *p, uint64_t shard)
{
    wide from = (wide)shard << 64;
    return (uint64_t)((from + p->shards - 1) / p->shards);
}

static uint32_t shard_of(const struct geometry *g, uint64_t high)
{
    return (uint32_t)(((wide)high * g->shards) >> 64);
}

void partitions_shards(const struct partitions *p, uint32_t partition, const struct geometry *g,
                       uint32_t *first, uint32_t *count)
{
    bool last = partition + 1 == p->count;
    uint64_t next = ((uint64_t)partition + 1) * p->each;
    uint32_t end = last ? g->shards - 1 : shard_of(g, lowest(p, next) - 1);
    *first = shard_of(g, lowest(p, (uint64_t)partition * p->each));
    *count = end - *first + 1;
}
