/* SPDX-License-Identifier: MIT */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H
/* Latencies: a log-linear histogram (each power of two in 32 equal parts, so within 3.2 %). One thread
 * writes; others may read meanwhile, and see slightly old figures. */
#include <stddef.h>
#include <stdint.h>

enum { HISTOGRAM_PARTS = 32, HISTOGRAM_BUCKETS = HISTOGRAM_PARTS * 36 };

/* Zero-initialised is empty. Values in microseconds; larger values than 2^40 count as 2^40. */
struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t worst;
    uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* Buckets of values where each power of two has 2^@log2 equal parts: the bucket of a value, and the largest
 * value of a bucket. Each value below 2^@log2 has its own bucket; above, the bits after the leading one
 * choose the part. */
static inline size_t histogram_bucket(uint64_t value, unsigned log2)
{
    uint64_t parts = UINT64_C(1) << log2;
    if (value < parts)
        return (size_t)value;
    unsigned shift = 63U - (unsigned)__builtin_clzll(value) - log2;
    return (size_t)((shift + 1) * parts + (value >> shift) - parts);
}

static inline uint64_t histogram_bucket_end(size_t bucket, unsigned log2)
{
    uint64_t parts = UINT64_C(1) << log2;
    if (bucket < parts)
        return bucket;
    return ((parts + bucket % parts + 1) << (bucket / parts - 1)) - 1;
}

void histogram_record(struct histogram *h, uint64_t us);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The value that a share @quantile (0 to 1) of all values does not exceed, rounded up to the end of its
 * bucket, but never above the largest value; 0 if empty. */
uint64_t histogram_quantile(const struct histogram *h, double quantile);
#endif
