/* SPDX-License-Identifier: MIT */
#include "expansion/decide/estimate.h"

#include <assert.h>
#include <math.h>

#include "base/number.h"
#include "shard/filter/generation.h"

enum { AT_ONCE = 4 }; /* shards written concurrently; shards in order lie on different nodes */

static uint64_t shard_memory(const struct geometry *g)
{
    assert(g->shards > 0);
    return geometry_memory_log(g) / g->shards;
}

/* Shards on the fullest of @nodes nodes. */
static uint64_t share(const struct geometry *g, uint64_t nodes)
{
    return number_divide_up(g->shards, nodes) * shard_memory(g);
}

static uint64_t during(const struct estimate *est, uint64_t nodes)
{
    return share(&est->geometry, nodes) + share(&est->next, nodes);
}

/* The fewest nodes of which none needs more than @room bytes; 0: one shard per node is too much already. */
static uint64_t nodes_needed(const struct estimate *est, uint64_t room)
{
    uint64_t low = 1; /* during() falls with the number of nodes */
    uint64_t high = est->next.shards > est->geometry.shards ? est->next.shards : est->geometry.shards;
    if (during(est, high) > room)
        return 0;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (during(est, middle) <= room)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void fill_nodes(struct estimate *est, const struct estimate_input *in)
{
    est->node_room = in->node_memory - in->node_memory / 100 * ESTIMATE_HEADROOM_PERCENT;
    est->nodes_needed = in->node_memory == 0 ? 0 : nodes_needed(est, est->node_room);
    est->nodes = in->nodes;
    if (est->nodes == 0 && est->nodes_needed == 0)
        est->nodes = in->node_memory == 0 ? 1 : GENERATION_NODES_MAX;
    else if (est->nodes == 0)
        est->nodes =
            est->nodes_needed < GENERATION_NODES_MAX ? (unsigned)est->nodes_needed : GENERATION_NODES_MAX;
    est->node_shards = number_divide_up(est->geometry.shards, est->nodes);
    est->before = share(&est->geometry, est->nodes);
    est->during = during(est, est->nodes);
    est->after = share(&est->next, est->nodes);
}

static void fill_build(struct estimate *est, const struct estimate_input *in)
{
    uint64_t bytes = geometry_bytes(&est->next);
    est->partitions = 1;
    if (in->build_memory == 0 || bytes <= in->build_memory)
        return;
    uint64_t pieces = number_divide_up(bytes, in->build_memory);
    est->partitions = pieces < est->next.shards ? (uint32_t)pieces : est->next.shards;
    est->spilled = in->keys * ESTIMATE_HASH_BYTES;
    est->spill_peak = est->spilled < in->spill_bytes ? est->spilled : in->spill_bytes;
}

static void fill_times(struct estimate *est, const struct estimate_input *in)
{
    double side_by_side = est->nodes < AT_ONCE ? est->nodes : AT_ONCE;
    double mib = (double)geometry_bytes(&est->next) / (1024 * 1024);
    est->create_s = mib * ESTIMATE_CREATE_US / 1e6 / side_by_side;
    est->scan_s = (double)in->keys / (in->scan_rate * in->readers);
    est->upload_s = mib * ESTIMATE_UPLOAD_US / 1e6; /* the last flush; earlier ones run during the scan */
    est->sweep_s = est->scan_s / ESTIMATE_SWEEPS_SHARE;
    est->rebuild_s = est->create_s + est->scan_s + est->upload_s + est->sweep_s;
}

static enum err check(const struct estimate_input *in, struct error *e)
{
    if (!(in->growth >= 1 && in->growth <= 1000))
        return error_set(e, ERR_RANGE, "a growth of %g is not between 1 and 1000", in->growth);
    if (!(in->scan_rate > 0) || in->readers == 0)
        return error_set(e, ERR_RANGE, "no rows would be read: scan rate %g, %u readers", in->scan_rate,
                         in->readers);
    if (in->keys > (UINT64_C(1) << 53) || (double)in->keys * in->growth > 0x1p53)
        return error_set(e, ERR_RANGE, "the number of keys is above 2^53");
    return ERR_OK;
}

enum err estimate_make(struct estimate *out, const struct estimate_input *in, struct error *e)
{
    struct estimate est = {.partitions = 1};
    enum err code = check(in, e);
    if (code != ERR_OK)
        return code;
    est.next_keys = (uint64_t)ceil((double)in->keys * in->growth * (1 - 1e-15));
    code = geometry_plan(&est.geometry, in->keys, in->error_rate, in->shard_bytes, e);
    if (code == ERR_OK)
        code = geometry_plan(&est.next, est.next_keys, in->error_rate, in->shard_bytes, e);
    if (code != ERR_OK)
        return code;
    est.shard_memory = shard_memory(&est.geometry);
    est.memory = geometry_memory_log(&est.geometry);
    est.next_memory = geometry_memory_log(&est.next);
    fill_nodes(&est, in);
    fill_build(&est, in);
    fill_times(&est, in);
    *out = est;
    return ERR_OK;
}

enum err estimate_fits(const struct estimate *est, const struct estimate_input *in, struct error *e)
{
    char peak[NUMBER_GROUPED_SIZE], room[NUMBER_GROUPED_SIZE];
    if (est->nodes > GENERATION_NODES_MAX)
        return error_set(e, ERR_REFUSED, "%u nodes are more than the %d that a filter can have", est->nodes,
                         GENERATION_NODES_MAX);
    if (in->node_memory == 0 || est->during <= est->node_room)
        return ERR_OK;
    (void)number_grouped(est->during, peak);
    (void)number_grouped(est->node_room, room);
    if (in->nodes != 0 && est->nodes_needed != 0 && est->nodes_needed <= GENERATION_NODES_MAX)
        return error_set(
            e, ERR_REFUSED,
            "a rebuild takes %s bytes on each of %u nodes, of which %s may be used: %llu nodes hold it", peak,
            est->nodes, room, (unsigned long long)est->nodes_needed);
    return error_set(e, ERR_REFUSED,
                     "a rebuild takes %s bytes on each of %u nodes, as many as a filter can have, of which "
                     "%s may be used: they need more memory",
                     peak, est->nodes, room);
}
