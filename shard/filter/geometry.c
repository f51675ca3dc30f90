/* SPDX-License-Identifier: MIT */
#include "shard/filter/geometry.h"

#include <math.h>
#include <stdbool.h>

/* Loads of a block that have a row in the table. Above them the expected share of set bits is exact
 * enough. */
enum { MODEL_LOADS = 4096 };

/* The block formula for one block size and one k: rate[j] is the false-positive rate of a block with j keys.
 *
 * Both the keys in the block and the key that is checked draw k positions with replacement, so
 *   rate[j] = sum over d of P(k draws hit d distinct bits) * P(d given bits are all set after j*k draws).
 * Both factors come from recurrences over draws that only add positive terms. The value is therefore the
 * exact E[(X / m)^k], X being the number of set bits: it keeps the variance, and nothing cancels, however
 * small the rate. (The usual (1 - (1 - 1/m)^(jk))^k takes the mean of X alone and is too low.) */
struct model {
    unsigned bits; /* m: bits of a block that keys may use */
    unsigned hashes;
    unsigned loads;                           /* rows that are filled in */
    double distinct[GEOMETRY_HASHES_MAX + 1]; /* P(k draws hit d distinct bits) */
    double all_set[GEOMETRY_HASHES_MAX + 1];  /* P(d given bits are set) at load `loads` - 1 */
    double rate[MODEL_LOADS];
};

static void model_init(struct model *m, unsigned block_bits, unsigned hashes)
{
    m->bits = block_bits - BLOCK_TAG_BITS;
    m->hashes = hashes;
    for (unsigned d = 0; d <= hashes; d++)
        m->distinct[d] = m->all_set[d] = d == 0;
    for (unsigned draw = 0; draw < hashes; draw++) {
        for (unsigned d = draw + 1; d > 0; d--)
            m->distinct[d] = m->distinct[d] * d / m->bits + m->distinct[d - 1] * (m->bits - d + 1) / m->bits;
        m->distinct[0] = 0;
    }
    m->rate[0] = 0; /* an empty block has no false positive */
    m->loads = 1;
}

/* Fill the table up to load @load. */
static void model_extend(struct model *m, unsigned load)
{
    double hit[GEOMETRY_HASHES_MAX + 1];
    for (unsigned d = 0; d <= m->hashes; d++)
        hit[d] = (double)d / m->bits;
    for (; m->loads <= load; m->loads++) {
        /* A draw hits one of the d bits and leaves d - 1 to the other draws, or it hits none of them. */
        for (unsigned draw = 0; draw < m->hashes; draw++)
            for (unsigned d = m->hashes; d > 0; d--)
                m->all_set[d] += hit[d] * (m->all_set[d - 1] - m->all_set[d]);
        double sum = 0;
        for (unsigned d = 1; d <= m->hashes; d++)
            sum += m->distinct[d] * m->all_set[d];
        m->rate[m->loads] = sum;
    }
}

static double model_rate(struct model *m, uint64_t load)
{
    if (load >= MODEL_LOADS)
        return pow(-expm1((double)load * m->hashes * log1p(-1.0 / m->bits)), m->hashes);
    if (load >= m->loads)
        model_extend(m, (unsigned)load);
    return m->rate[load];
}

/* False-positive rate when the load of a block is Poisson with mean @mean. Sums from the mode outwards, where
 * no probability underflows, until the terms no longer count. */
static double model_mixed(struct model *m, double mean)
{
    const double negligible = 1e-17;
    if (mean <= 0)
        return 0;
    if (mean * m->hashes / m->bits > 60) /* all bits are set but for a share of e^-60 */
        return 1;
    int sign;
    uint64_t mode = (uint64_t)mean;
    double top = exp((double)mode * log(mean) - mean - lgamma_r((double)mode + 1, &sign));
    double sum = 0;
    double p = top;
    for (uint64_t j = mode; p > negligible * sum; j++) {
        sum += p * model_rate(m, j);
        p *= mean / (double)(j + 1);
    }
    p = top;
    for (uint64_t j = mode; j > 0 && p > negligible * top; j--) {
        p *= (double)j / mean;
        sum += p * model_rate(m, j - 1);
    }
    return fmin(sum, 1);
}

/* The highest mean load of a block at which the mixed rate is still @rate or less. */
static double model_load(struct model *m, double rate)
{
    double low = 0;
    double high = 1;
    while (model_mixed(m, high) <= rate) {
        low = high;
        high *= 2;
    }
    while (high - low > 1e-9 * high) {
        double middle = (low + high) / 2;
        if (model_mixed(m, middle) <= rate)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double geometry_classic_bits(double rate)
{
    return -log(rate) / (M_LN2 * M_LN2);
}

/* Bits per key of a classic filter with a whole number of hashes. Above a rate of 0.5 even one hash is more
 * than the ideal. */
static double yardstick(double rate)
{
    return rate > 0.5 ? -1 / log1p(-rate) : geometry_classic_bits(rate);
}

struct block_plan {
    unsigned block_bits;
    unsigned hashes;
    double load; /* keys in a block, on average */
};

/* The ideal k of a blocked filter is at most the classic one. The load falls on both sides of the ideal. */
static struct block_plan plan_hashes(struct model *m, unsigned block_bits, double rate)
{
    struct block_plan best = {.block_bits = block_bits};
    double classic = fmin(ceil(-log2(rate)), GEOMETRY_HASHES_MAX);
    for (unsigned k = (unsigned)fmax(classic, 1); k > 0; k--) {
        model_init(m, block_bits, k);
        double load = model_load(m, rate);
        if (load <= best.load)
            break;
        best.hashes = k;
        best.load = load;
    }
    return best;
}

/* The most bits per key, as a multiple of a classic filter's. A rate of about 1e-27 reaches it, as a key sets
 * at most GEOMETRY_HASHES_MAX bits. */
static const double WORST_RATIO = 2.5;

static bool plan_block(struct block_plan *out, double rate)
{
    struct model m;
    double classic = yardstick(rate);
    for (unsigned bits = BLOCK_BITS_MIN; bits <= BLOCK_BITS_MAX; bits *= 2) {
        *out = plan_hashes(&m, bits, rate);
        if (bits <= 1.05 * classic * out->load)
            return true;
    }
    return BLOCK_BITS_MAX <= WORST_RATIO * classic * out->load;
}

/* The distance from jemalloc's class for @size bytes to the next lower one. jemalloc has four classes a
 * doubling. */
static uint64_t class_step(uint64_t size)
{
    uint64_t step = 16;
    while (size > 8 * step)
        step *= 2;
    return step;
}

static uint64_t allocation_class(uint64_t size)
{
    uint64_t step = class_step(size);
    return (size + step - 1) / step * step;
}

/* Bytes that a string needs beside its content: at most 10 for sds header and NUL, and 2 for the CRLF that
 * SET of a large value takes over with the query buffer. */
enum { STRING_SLACK = 12 };

/* Bytes of a key's robj, dictEntry and hash bucket, and of the sds of a name of usual length. Measured: 48
 * bytes and the name. */
enum { KEY_OVERHEAD = 128 };

static uint64_t string_memory(uint64_t length)
{
    return allocation_class(length + STRING_SLACK) + KEY_OVERHEAD;
}

struct shard_plan {
    uint64_t shards;
    uint64_t blocks; /* in a shard */
    uint64_t memory;
};

struct shard_form {
    uint64_t block_bytes;
    uint64_t header; /* blocks before those that hold keys */
    uint64_t limit;  /* of the whole shard, in bytes */
};

/* The fewest shards that hold @total blocks in strings of class @size, or of form->limit bytes if that is
 * less. */
static struct shard_plan fill_class(uint64_t total, uint64_t size, const struct shard_form *form)
{
    uint64_t room = size - STRING_SLACK;
    uint64_t all = (room < form->limit ? room : form->limit) / form->block_bytes;
    struct shard_plan plan = {.blocks = all > form->header ? all - form->header : 0};
    if (plan.blocks == 0)
        return plan;
    plan.shards = total / plan.blocks + (total % plan.blocks != 0);
    plan.memory = plan.shards * string_memory(all * form->block_bytes);
    return plan;
}

/* Each number of shards has one smallest class, and each class has one smallest number of shards: a walk over
 * the few dozen classes sees every optimum. Each shard costs commands; so among the plans within half a
 * percent of the least memory, take the one with the fewest shards. */
static struct shard_plan plan_shards(uint64_t total, const struct shard_form *form)
{
    uint64_t largest = allocation_class(form->limit + STRING_SLACK);
    struct shard_plan fewest = fill_class(total, largest, form);
    struct shard_plan least = fewest;
    for (int pass = 0; pass < 2; pass++)
        for (uint64_t size = largest; size > form->block_bytes; size -= class_step(size)) {
            struct shard_plan plan = fill_class(total, size, form);
            if (plan.blocks == 0 || plan.shards > 8 * fewest.shards + 64)
                break;
            if (pass == 0 && plan.memory < least.memory)
                least = plan;
            if (pass == 1 && plan.memory <= least.memory + least.memory / 200)
                return plan;
        }
    return least;
}

enum err geometry_plan(struct geometry *out, uint64_t keys, double rate, uint32_t shard_bytes,
                       struct error *e)
{
    enum { HEADER_BLOCKS = 1 };
    const uint64_t shards_max = UINT64_C(1) << 31;
    if (!(rate > 0 && rate < 1))
        return error_set(e, ERR_RANGE, "error rate %g is not between 0 and 1", rate);
    if (keys == 0)
        return error_set(e, ERR_RANGE, "capacity is 0");
    if (shard_bytes < SHARD_BYTES_MIN || shard_bytes > SHARD_BYTES_MAX)
        return error_set(e, ERR_RANGE, "shard size %u is not between %d and %d bytes", shard_bytes,
                         SHARD_BYTES_MIN, SHARD_BYTES_MAX);
    struct block_plan block;
    if (!plan_block(&block, rate))
        return error_set(e, ERR_RANGE, "error rate %g is too small: the smallest is about 1e-27", rate);
    double blocks = ceil((double)keys / block.load);
    const struct shard_form form = {
        .block_bytes = block.block_bits / 8, .header = HEADER_BLOCKS, .limit = shard_bytes};
    uint64_t blocks_max = shards_max * (shard_bytes / form.block_bytes - HEADER_BLOCKS);
    if (blocks > (double)blocks_max)
        return error_set(e, ERR_RANGE, "capacity %llu needs more than 2^31 shards", (unsigned long long)keys);
    struct shard_plan shards = plan_shards((uint64_t)blocks, &form);
    if (shards.shards > shards_max)
        return error_set(e, ERR_RANGE, "capacity %llu needs more than 2^31 shards", (unsigned long long)keys);
    *out =
        (struct geometry){(uint32_t)shards.shards, (uint32_t)shards.blocks, block.block_bits, block.hashes};
    return ERR_OK;
}

enum err geometry_check(const struct geometry *g, struct error *e)
{
    if (g->shards == 0 || g->shards > UINT32_C(1) << 31)
        return error_set(e, ERR_RANGE, "%u shards are not between 1 and 2^31", g->shards);
    if (g->block_bits < BLOCK_BITS_MIN || g->block_bits > BLOCK_BITS_MAX ||
        (g->block_bits & (g->block_bits - 1)) != 0)
        return error_set(e, ERR_RANGE, "a block of %u bits is none of 512, 1024, 2048, 4096", g->block_bits);
    if (g->blocks == 0 || g->blocks > SHARD_BYTES_MAX / (g->block_bits / 8))
        return error_set(e, ERR_RANGE, "%u blocks do not make a shard of 1 block to %d bytes", g->blocks,
                         SHARD_BYTES_MAX);
    if (g->hashes == 0 || g->hashes > GEOMETRY_HASHES_MAX)
        return error_set(e, ERR_RANGE, "%u hashes are not between 1 and %d", g->hashes, GEOMETRY_HASHES_MAX);
    return ERR_OK;
}

double geometry_rate(const struct geometry *g, uint64_t keys)
{
    struct model m;
    model_init(&m, g->block_bits, g->hashes);
    return model_mixed(&m, (double)keys / ((double)g->shards * g->blocks));
}

double geometry_keys(const struct geometry *g, double zeros)
{
    double blocks = (double)g->shards * g->blocks;
    double bits = (double)g->block_bits - BLOCK_TAG_BITS;
    double hit = -expm1(g->hashes * log1p(-1 / bits)); /* P(a key sets a given bit of its block) */
    double least = 0.5 / (blocks * bits);
    if (zeros >= 1)
        return 0;
    return log(fmax(zeros, least)) / log1p(-hit / blocks);
}

uint32_t geometry_shard_bytes(const struct geometry *g)
{
    return g->blocks * (g->block_bits / 8);
}

uint64_t geometry_bytes(const struct geometry *g)
{
    return (uint64_t)g->shards * geometry_shard_bytes(g);
}

uint64_t geometry_memory(const struct geometry *g)
{
    return g->shards * string_memory(geometry_shard_bytes(g));
}

static uint64_t shard_bytes_log(const struct geometry *g)
{
    return (uint64_t)geometry_shard_bytes(g) + g->block_bits / 8;
}

uint64_t geometry_bytes_log(const struct geometry *g)
{
    return g->shards * shard_bytes_log(g);
}

uint64_t geometry_memory_log(const struct geometry *g)
{
    return g->shards * string_memory(shard_bytes_log(g));
}
