/* SPDX-License-Identifier: MIT */
#include "base/timing.h"

void timing_record_shared(struct timing *t, uint64_t us)
{
    atomic_fetch_add_explicit(&t->bucket[timing_bucket(us)], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->sum_us, us, memory_order_relaxed);
}

void timing_add(const struct timing *t, struct timing_figures *out)
{
    out->sum_us += atomic_load_explicit(&t->sum_us, memory_order_relaxed);
    for (unsigned i = 0; i < TIMING_BUCKETS; i++) {
        uint64_t n = atomic_load_explicit(&t->bucket[i], memory_order_relaxed);
        out->bucket[i] += n;
        out->count += n;
    }
}
