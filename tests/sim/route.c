/* SPDX-License-Identifier: MIT */
/* Where keys go: a sample is hashed as a coordinator hashes it, over all shards of the filter, and over the
 * blocks of some shards. A node gets the keys of its shards. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "shard/filter/hash.h"
#include "shard/filter/names.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/filter/slots.h"
#include "tests/sim/sim.h"

enum { WINDOW_SHARDS = 512 }; /* shards whose blocks are counted one by one */

/* Chance exceeds a bound once in some ten million runs. For one figure, the bound is 5.5 standard deviations.
 * For the largest of several figures, it follows from the union of their tails. */
static const double deviations = 5.5;

struct routing {
    struct geometry geometry;
    uint64_t sample;
    uint32_t *shard;        /* number of sampled keys in each shard */
    uint8_t *block;         /* the same for each block of the first WINDOW_SHARDS shards */
    uint32_t window_shards; /* at most WINDOW_SHARDS */
};

static void route_sample(struct routing *r, uint64_t seed)
{
    struct key_place place;
    char key[32] = "https://s.example/";
    size_t prefix = strlen(key);
    for (uint64_t i = 0; i < r->sample; i++) {
        size_t length = (size_t)(number_write(key + prefix, i) - key);
        hash_place(&r->geometry, hash_key(seed, key, length), &place);
        r->shard[place.shard]++;
        if (place.shard < r->window_shards)
            r->block[(size_t)place.shard * r->geometry.blocks + place.block]++;
    }
}

/* --- shards and blocks --- */

/* The dispersion is the sum of squared deviations, divided by the mean and the degrees of freedom. It is 1,
 * with a standard deviation of sqrt(2 / (n - 1)), if each key falls on each of n with the same
 * probability. */
struct spread {
    double mean, largest, dispersion;
    size_t n;
};

static struct spread spread_of(const uint32_t *counts, const uint8_t *small, size_t n)
{
    struct spread s = {.n = n};
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++) {
        double c = counts != NULL ? counts[i] : small[i];
        sum += c;
        squares += c * c;
        s.largest = fmax(s.largest, c);
    }
    s.mean = sum / (double)n;
    s.dispersion = n < 2 ? 1 : (squares - sum * s.mean) / s.mean / (double)(n - 1);
    return s;
}

static void report_spread(struct sim *s, const char *what, const struct spread *p)
{
    char line[96];
    double deviation = sqrt(2 / fmax((double)p->n - 1, 1));
    (void)snprintf(line, sizeof(line), "%s: variance / mean of a Poisson variable, off by", what);
    sim_figure(s, line, fabs(p->dispersion - 1), deviations * deviation, "");
}

/* A bound for the largest of @n Poisson variables of mean @mean, divided by the mean. Chance exceeds the
 * bound less than once in ten million times. The formula is the normal tail, with a correction for
 * skewness. */
static double largest_of(double n, double mean)
{
    double z = sqrt(2 * log(n * 1e7));
    return 1 + z / sqrt(mean) + z * z / (3 * mean);
}

/* --- nodes --- */

struct balance {
    uint32_t shards[GENERATION_NODES_MAX];
    uint64_t keys[GENERATION_NODES_MAX]; /* number of sampled keys */
};

static void add_shard(struct balance *b, const struct routing *r, uint32_t shard, unsigned node)
{
    b->shards[node]++;
    b->keys[node] += r->shard[shard];
}

/* The largest number of a node, divided by the mean. */
static double most(const struct balance *b, unsigned nodes, bool keys)
{
    double sum = 0, largest = 0;
    for (unsigned i = 0; i < nodes; i++) {
        double n = keys ? (double)b->keys[i] : b->shards[i];
        sum += n;
        largest = fmax(largest, n);
    }
    return largest * nodes / sum;
}

/* @share: the bound of the shards' max/mean. The bound for keys includes the noise of the sample, too. */
static void report_nodes(struct sim *s, const char *what, unsigned nodes, const struct balance *b,
                         double share)
{
    char line[96];
    double sample = largest_of(nodes, (double)s->sample / nodes);
    (void)snprintf(line, sizeof(line), "%u %s: shards, max/mean", nodes, what);
    sim_figure(s, line, most(b, nodes, false), share, "");
    (void)snprintf(line, sizeof(line), "%u %s: keys, max/mean", nodes, what);
    sim_figure(s, line, most(b, nodes, true), share * sample, "");
}

static enum err static_nodes(struct sim *s, const struct routing *r, unsigned nodes, struct error *e)
{
    struct balance b = {0};
    struct nodes configured = {.count = nodes};
    struct generation g;
    struct names names;
    struct placement placement;
    sim_generation(s, nodes, 2, &g);
    for (unsigned i = 0; i < nodes; i++)
        memcpy(configured.node[i].name, g.nodes[i], NODE_NAME_MAX);
    enum err code = names_init(&names, "twinbloom", "short-link", 10, e);
    if (code == ERR_OK)
        code = placement_resolve(&placement, &names, &g, &configured, e);
    if (code != ERR_OK)
        return code;
    uint32_t shards = r->geometry.shards;
    for (uint32_t i = 0; i < shards; i++)
        add_shard(&b, r, i, placement_where(&placement, 0, i));
    /* A node has at most one shard more than another. */
    double share = ceil((double)shards / nodes) * nodes / shards;
    report_nodes(s, "static nodes", nodes, &b, share);
    return ERR_OK;
}

/* Masters with contiguous ranges of slots, as redis-cli --cluster create assigns them. */
static enum err cluster_nodes(struct sim *s, const struct routing *r, unsigned masters, struct error *e)
{
    struct balance b = {0};
    struct names names;
    enum err code = names_init(&names, "twinbloom", "short-link", 10, e);
    if (code != ERR_OK)
        return code;
    uint32_t shards = r->geometry.shards;
    for (uint32_t i = 0; i < shards; i++) {
        struct key_name name;
        names_log_shard(&names, (struct shard_id){.generation = 2, .shard = i}, &name);
        add_shard(&b, r, i, slots_of_key(name.text, name.length) * masters / SLOTS);
    }
    report_nodes(s, "masters of a cluster", masters, &b, largest_of(masters, (double)shards / masters));
    return code;
}

/* --- all of it --- */

static enum err report(struct sim *s, const struct routing *r, struct error *e)
{
    static const unsigned nodes[] = {8, 64}, masters[] = {3, 6, 8, 64};
    char a[NUMBER_GROUPED_SIZE];
    struct spread shards = spread_of(r->shard, NULL, r->geometry.shards);
    struct spread blocks = spread_of(NULL, r->block, (size_t)r->window_shards * r->geometry.blocks);
    double full = (double)s->keys / r->geometry.shards;
    sim_heading("Balance");
    sim_note("by a sample of %s keys, one in %.0f, hashed with the generation's seed; blocks of %u shards",
             number_grouped(r->sample, a), (double)s->keys / (double)r->sample, r->window_shards);
    report_spread(s, "shards", &shards);
    report_spread(s, "blocks", &blocks);
    sim_figure(s, "shards: keys of the sample, max/mean", shards.largest / shards.mean,
               largest_of((double)shards.n, shards.mean), "");
    sim_figure(s, "shards: max/mean of all keys, by such chance", largest_of((double)shards.n, full),
               (double)NAN, "");
    enum err code = ERR_OK;
    for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]) && code == ERR_OK; i++)
        code = static_nodes(s, r, nodes[i], e);
    for (size_t i = 0; i < sizeof(masters) / sizeof(masters[0]) && code == ERR_OK; i++)
        code = cluster_nodes(s, r, masters[i], e);
    return code;
}

enum err sim_route(struct sim *s, struct error *e)
{
    struct generation g;
    sim_generation(s, 1, 2, &g);
    struct routing r = {.geometry = s->geometry, .sample = s->sample};
    r.window_shards = r.geometry.shards < WINDOW_SHARDS ? r.geometry.shards : WINDOW_SHARDS;
    r.shard = calloc(r.geometry.shards, sizeof(*r.shard));
    r.block = calloc((size_t)r.window_shards * r.geometry.blocks, 1);
    enum err code = ERR_OK;
    if (r.shard == NULL || r.block == NULL) {
        code = error_set(e, ERR_NOMEM, "out of memory");
    } else {
        route_sample(&r, g.seed);
        code = report(s, &r, e);
    }
    free(r.shard);
    free(r.block);
    return code;
}
