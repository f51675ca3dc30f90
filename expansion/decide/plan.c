/* SPDX-License-Identifier: MIT */
#include "expansion/decide/plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* Above this a double does not count single keys; every geometry is far below. */
static const double CAPACITY_MAX = 9007199254740992.0;

static enum err scale(uint64_t value, double factor, const char *what, uint64_t *out, struct error *e)
{
    if (!(factor >= 1.0))
        return error_set(e, ERR_RANGE, "%s is %g: it must be 1 or more", what, factor);
    /* Lower the product slightly before rounding up: 1.1 x 100 must give 110, though binary fractions would
     * give 111. */
    double scaled = ceil((double)value * factor * (1.0 - 1e-15));
    if (!(scaled <= CAPACITY_MAX))
        return error_set(e, ERR_RANGE, "%s of %g makes a capacity out of range", what, factor);
    *out = (uint64_t)scaled;
    return ERR_OK;
}

static enum err decide_capacity(uint64_t *out, const struct plan_input *in, struct error *e)
{
    char a[NUMBER_GROUPED_SIZE];
    char b[NUMBER_GROUPED_SIZE];
    if (in->wanted_capacity != 0) {
        if (in->wanted_capacity < in->source_rows)
            return error_set(e, ERR_RANGE, "capacity %s is smaller than the source's %s rows",
                             number_grouped(in->wanted_capacity, a), number_grouped(in->source_rows, b));
        *out = in->wanted_capacity;
        return ERR_OK;
    }
    uint64_t grown = in->current_capacity;
    enum err rc = ERR_OK;
    if (!in->keep_capacity)
        rc = scale(in->current_capacity, in->growth, "growth", &grown, e);
    if (rc != ERR_OK)
        return rc;
    uint64_t needed = 0;
    if (in->source_rows != 0)
        rc = scale(in->source_rows, in->headroom, "headroom", &needed, e);
    if (rc != ERR_OK)
        return rc;
    bool mostly_deleted = in->keep_capacity && in->source_rows != 0 && in->source_rows <= in->items / 2;
    if (mostly_deleted && in->least_capacity < grown)
        grown = in->least_capacity;
    *out = grown > needed ? grown : needed;
    return ERR_OK;
}

enum err plan_make(struct plan *out, const struct plan_input *in, struct error *e)
{
    if (in->node_count == 0)
        return error_set(e, ERR_RANGE, "no Redis node to place shards on");
    if (in->build_memory == 0)
        return error_set(e, ERR_RANGE, "build_memory is 0: a build needs memory");

    struct plan p = {.error_rate = in->error_rate};
    enum err rc = decide_capacity(&p.capacity, in, e);
    if (rc != ERR_OK)
        return rc;
    rc = geometry_plan(&p.geometry, p.capacity, p.error_rate, in->shard_bytes, e);
    if (rc != ERR_OK)
        return error_prefix(e, rc, "capacity %llu", (unsigned long long)p.capacity);

    p.bytes = geometry_bytes_log(&p.geometry);
    p.memory_new = geometry_memory_log(&p.geometry);
    p.memory_peak = in->memory_now + p.memory_new;
    uint64_t partitions = number_divide_up(geometry_bytes(&p.geometry), in->build_memory);
    p.partitions = partitions < p.geometry.shards ? (unsigned)partitions : p.geometry.shards;
    *out = p;
    return ERR_OK;
}

static void warn_of_eviction(const struct plan_node *node, char warning[256])
{
    if (warning[0] != '\0' || node->policy[0] == '\0' || strcmp(node->policy, "noeviction") == 0)
        return;
    (void)snprintf(warning, 256,
                   "Redis %s evicts keys when memory is short (maxmemory-policy %s): set it to noeviction",
                   node->name, node->policy);
}

/* How many shards may lie on the @i-th of @count nodes that take some. Dealt in turn, the number is exact. By
 * slots it is random: the mean plus three standard deviations of a binomial. */
static uint32_t shards_on(const struct plan *p, const struct plan_node *node, unsigned i, unsigned count)
{
    uint32_t shards = p->geometry.shards;
    if (node->leaving || count == 0)
        return 0;
    if (!node->by_slots)
        return shards / count + (i < shards % count);
    double mean = shards * node->share;
    double most = ceil(mean + 3 * sqrt(mean * (1 - node->share)));
    return most < shards ? (uint32_t)most : shards;
}

void plan_place(const struct plan *p, struct plan_node *nodes, unsigned count)
{
    uint64_t shard = number_divide_up(p->memory_new, p->geometry.shards);
    unsigned taking = 0;
    while (taking < count && !nodes[taking].leaving)
        taking++;
    for (unsigned i = 0; i < count; i++) {
        struct plan_node *node = &nodes[i];
        node->shards = shards_on(p, node, i, taking);
        node->after = node->shards * shard;
        node->during = node->before + node->after;
    }
}

uint64_t plan_node_limit(const struct plan_node *node)
{
    return node->maxmemory != 0 ? node->maxmemory : node->machine;
}

static enum err refuse(const struct plan *p, const struct plan_node *node, uint64_t needed, struct error *e)
{
    char used[NUMBER_GROUPED_SIZE];
    char more[NUMBER_GROUPED_SIZE];
    char limit[NUMBER_GROUPED_SIZE];
    return error_set(
        e, ERR_REFUSED,
        "Redis %s has too little memory: %s bytes used + %s needed for %s%u of %u shards > %s %s", node->name,
        number_grouped(node->used, used), number_grouped(needed, more), node->by_slots ? "up to " : "",
        node->shards, p->geometry.shards, node->maxmemory != 0 ? "maxmemory" : "all memory of its machine,",
        number_grouped(plan_node_limit(node), limit));
}

enum err plan_fits(const struct plan *p, struct plan_node *nodes, unsigned count, char warning[256],
                   struct error *e)
{
    warning[0] = '\0';
    if (count == 0)
        return error_set(e, ERR_REFUSED, "no Redis node to place shards on");
    plan_place(p, nodes, count);
    for (unsigned i = 0; i < count && !nodes[i].leaving; i++)
        warn_of_eviction(&nodes[i], warning);
    for (unsigned i = 0; i < count; i++) {
        uint64_t most = plan_node_limit(&nodes[i]);
        uint64_t needed = nodes[i].during - nodes[i].before;
        if (most != 0 && needed != 0 && (nodes[i].used > most || needed > most - nodes[i].used))
            return refuse(p, &nodes[i], needed, e);
    }
    return ERR_OK;
}
