/* SPDX-License-Identifier: MIT */
/* A few shards, made with the real hash and blocks, as full as those of the whole filter. Reports the load of
 * their blocks, their set bits, and how many absent keys are reported present. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "shard/filter/block.h"
#include "tests/sim/sim.h"

enum { TAG = 0xbee5 };

static const double deviations = 5.5; /* see route.c */

struct dense {
    struct geometry geometry; /* that of the filter, with fewer shards */
    uint64_t keys;
    uint64_t seed;
    uint8_t *shards;
    uint16_t *load; /* number of keys in each block */
    size_t blocks;
};

static uint8_t *shard_at(const struct dense *d, uint32_t shard)
{
    return d->shards + (size_t)shard * geometry_shard_bytes(&d->geometry);
}

static void fill(struct dense *d)
{
    struct key_place place;
    for (uint32_t i = 0; i < d->geometry.shards; i++)
        block_fill(&d->geometry, TAG, shard_at(d, i));
    for (uint64_t key = 0; key < d->keys; key++) {
        hash_place(&d->geometry, hash_key(d->seed, &key, sizeof(key)), &place);
        (void)block_set(&d->geometry, &place, shard_at(d, place.shard));
        d->load[(size_t)place.shard * d->geometry.blocks + place.block]++;
    }
}

static double false_positives(const struct dense *d, uint64_t probes)
{
    struct key_place place;
    uint64_t found = 0;
    size_t bytes = d->geometry.block_bits / 8;
    for (uint64_t i = 0; i < probes; i++) {
        uint64_t key = UINT64_C(1) << 62 | i;
        hash_place(&d->geometry, hash_key(d->seed, &key, sizeof(key)), &place);
        const uint8_t *block = shard_at(d, place.shard) + place.block * bytes;
        found += block_test(&d->geometry, TAG, &place, block, bytes) == BLOCK_PRESENT;
    }
    return (double)found / (double)probes;
}

struct fill {
    double bits;  /* share of the usable bits that are set */
    double rate;  /* of false positives that these bits give: the mean over blocks of (set / usable)^k */
    double error; /* the standard error of that mean */
    double mean, dispersion;
    double tail; /* share of blocks more than 3 standard deviations above the mean load */
};

static struct fill look(const struct dense *d)
{
    struct fill f = {.mean = (double)d->keys / (double)d->blocks};
    double usable = d->geometry.block_bits - BLOCK_TAG_BITS, squares = 0, rates = 0;
    size_t bytes = d->geometry.block_bits / 8;
    double high = f.mean + 3 * sqrt(f.mean);
    for (size_t b = 0; b < d->blocks; b++) {
        unsigned set = 0;
        for (size_t i = BLOCK_TAG_BITS / 8; i < bytes; i++)
            set += (unsigned)__builtin_popcount(d->shards[b * bytes + i]);
        f.bits += set / usable;
        double rate = pow(set / usable, d->geometry.hashes);
        f.rate += rate;
        rates += rate * rate;
        squares += (d->load[b] - f.mean) * (d->load[b] - f.mean);
        f.tail += d->load[b] > high;
    }
    f.bits /= (double)d->blocks;
    f.rate /= (double)d->blocks;
    f.error = sqrt((rates / (double)d->blocks - f.rate * f.rate) / (double)d->blocks);
    f.tail /= (double)d->blocks;
    f.dispersion = squares / f.mean / (double)(d->blocks - 1);
    return f;
}

/* P(X > mean + 3 standard deviations) of a Poisson variable. */
static double poisson_tail(double mean)
{
    unsigned high = (unsigned)floor(mean + 3 * sqrt(mean));
    double sum = 0;
    int sign;
    for (unsigned j = high + 1; j < 2 * high + 100; j++)
        sum += exp(j * log(mean) - mean - lgamma_r((double)j + 1, &sign));
    return sum;
}

static void report(struct sim *s, const struct dense *d)
{
    char a[NUMBER_GROUPED_SIZE], b[NUMBER_GROUPED_SIZE];
    uint64_t probes = d->keys;
    struct fill f = look(d);
    double n = (double)d->blocks, tail = poisson_tail(f.mean);
    double measured = false_positives(d, probes);
    double promised = geometry_rate(&s->geometry, s->keys);
    sim_heading("False positives");
    sim_note("by %s keys in %u shards that are as full as each of %s keys in all; as many absent keys",
             number_grouped(d->keys, a), d->geometry.shards, number_grouped(s->keys, b));
    sim_figure(s, "keys in a block, mean", f.mean, (double)NAN, "");
    sim_figure(s, "blocks: variance / mean of a Poisson variable, off by", fabs(f.dispersion - 1),
               deviations * sqrt(2 / (n - 1)), "");
    sim_figure(s, "blocks with 3 standard deviations more than the mean", f.tail,
               tail + deviations * sqrt(tail / n), "");
    sim_figure(s, "  the same of a Poisson variable", tail, (double)NAN, "");
    sim_figure(s, "share of bits that are set", f.bits, (double)NAN, "");
    sim_figure(s, "rate by these bits", f.rate, s->error_rate + deviations * f.error, "");
    sim_figure(s, "rate of all keys, by the geometry", promised, s->error_rate, "");
    sim_figure(s, "rate measured with absent keys", measured,
               s->error_rate + 3 * sqrt(s->error_rate / (double)probes), "");
}

enum err sim_dense(struct sim *s, struct error *e)
{
    struct dense d = {.geometry = s->geometry, .seed = UINT64_C(0xd1b54a32d192ed03)};
    double per_shard = (double)s->keys / s->geometry.shards;
    d.geometry.shards = (uint32_t)fmax(1, fmin(round((double)s->dense / per_shard), s->geometry.shards));
    d.keys = (uint64_t)(per_shard * d.geometry.shards);
    d.blocks = (size_t)d.geometry.shards * d.geometry.blocks;
    d.shards = malloc(geometry_bytes(&d.geometry));
    d.load = calloc(d.blocks, sizeof(*d.load));
    enum err code = ERR_OK;
    if (d.shards == NULL || d.load == NULL) {
        code = error_set(e, ERR_NOMEM, "out of memory");
    } else {
        fill(&d);
        report(s, &d);
    }
    free(d.shards);
    free(d.load);
    return code;
}
