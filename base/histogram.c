/* SPDX-License-Identifier: MIT */
#include "base/histogram.h"

enum { PARTS_LOG2 = 5 };
_Static_assert(1 << PARTS_LOG2 == HISTOGRAM_PARTS, "parts are a power of two");

static uint64_t load(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void store(uint64_t *p, uint64_t value)
{
    __atomic_store_n(p, value, __ATOMIC_RELAXED);
}

static size_t bucket_of(uint64_t us)
{
    size_t bucket = histogram_bucket(us, PARTS_LOG2);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

void histogram_record(struct histogram *h, uint64_t us)
{
    size_t bucket = bucket_of(us);
    store(&h->bucket[bucket], h->bucket[bucket] + 1);
    store(&h->count, h->count + 1);
    store(&h->sum, h->sum + us);
    if (us > h->worst)
        store(&h->worst, us);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t n = load(&from->bucket[i]);
        into->bucket[i] += n;
        into->count += n; /* summed from the buckets, so that the quantiles of one snapshot add up */
    }
    into->sum += load(&from->sum);
    uint64_t worst = load(&from->worst);
    if (worst > into->worst)
        into->worst = worst;
}

uint64_t histogram_quantile(const struct histogram *h, double quantile)
{
    uint64_t wanted = (uint64_t)(quantile * (double)h->count);
    if (wanted >= h->count)
        return h->worst;
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > wanted)
            return histogram_bucket_end(i, PARTS_LOG2) < h->worst ? histogram_bucket_end(i, PARTS_LOG2)
                                                                  : h->worst;
    }
    return h->worst;
}
