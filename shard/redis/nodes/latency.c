/* SPDX-License-Identifier: MIT */
#include "shard/redis/nodes/latency.h"

#include <stddef.h>
#include "base/histogram.h"

enum { PARTS_LOG2 = 3 };
_Static_assert(1 << PARTS_LOG2 == LATENCY_PARTS, "parts are a power of two");

/* In microseconds. Longer times are recorded as this one. */
static const uint64_t longest_us = (UINT64_C(1) << 26) - 1;

void latency_record(struct latency *l, uint64_t now_us, uint64_t us)
{
    uint64_t rest = us < longest_us ? us : longest_us;
    atomic_store_explicit(&l->last_us, now_us, memory_order_relaxed);
    for (;;) {
        atomic_fetch_add_explicit(&l->bucket[histogram_bucket(rest, PARTS_LOG2)], 1, memory_order_relaxed);
        if (rest < 2 * (uint64_t)LATENCY_INTERVAL_US)
            return;
        rest -= LATENCY_INTERVAL_US;
    }
}

void latency_use(struct latency *l, uint64_t now_us)
{
    uint64_t last = atomic_load_explicit(&l->last_us, memory_order_relaxed);
    if (now_us > last + LATENCY_RECENT_US / 16) /* rarely, as all loops share the field */
        atomic_store_explicit(&l->last_us, now_us, memory_order_relaxed);
}

static void set_figures(struct latency_figures *out, const uint64_t added[LATENCY_BUCKETS])
{
    *out = (struct latency_figures){0};
    for (size_t i = 0; i < LATENCY_BUCKETS; i++)
        out->samples += added[i];
    if (out->samples == 0)
        return;
    uint64_t above = out->samples / 100; /* the number of samples that may be longer */
    size_t i = LATENCY_BUCKETS - 1;
    for (; added[i] <= above; i--)
        above -= added[i];
    out->p99_ms = (double)histogram_bucket_end(i, PARTS_LOG2) / 1000;
}

void latency_read(const struct latency *l, struct latency_reader *reader, struct latency_figures *out)
{
    uint64_t added[LATENCY_BUCKETS];
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        uint64_t now = atomic_load_explicit(&l->bucket[i], memory_order_relaxed);
        added[i] = now - reader->seen[i];
        reader->seen[i] = now;
    }
    set_figures(out, added);
}

bool latency_is_used(const struct latency *l, uint64_t now_us)
{
    uint64_t last = atomic_load_explicit(&l->last_us, memory_order_relaxed);
    return last != 0 && now_us < last + LATENCY_RECENT_US;
}
