/* SPDX-License-Identifier: MIT */
#ifndef BASE_TIMING_H
#define BASE_TIMING_H
/* A histogram of durations that one thread or several write and anybody may read, without locks. Buckets
 * double from 50 us to 13.1 s; what is longer has one of its own. */
#include <stdatomic.h>
#include <stdint.h>

enum { TIMING_FIRST_US = 50, TIMING_BOUNDS = 19, TIMING_BUCKETS = TIMING_BOUNDS + 1 };

/* Zero-initialised is empty. */
struct timing {
    atomic_uint_fast64_t bucket[TIMING_BUCKETS]; /* each counts what no smaller one does */
    atomic_uint_fast64_t sum_us;
};

/* What one or several of them have counted. */
struct timing_figures {
    uint64_t bucket[TIMING_BUCKETS];
    uint64_t count, sum_us;
};

/* Inclusive. */
static inline uint64_t timing_bound_us(unsigned bucket)
{
    return (uint64_t)TIMING_FIRST_US << bucket;
}

static inline unsigned timing_bucket(uint64_t us)
{
    uint64_t parts = us == 0 ? 0 : (us - 1) / TIMING_FIRST_US;
    unsigned bucket = parts == 0 ? 0 : 64U - (unsigned)__builtin_clzll(parts);
    return bucket < TIMING_BOUNDS ? bucket : TIMING_BOUNDS;
}

/* For a counter that one thread alone writes: no bus lock, as there is nobody to lose an addition to. */
static inline void timing_bump(atomic_uint_fast64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* By the only thread that writes @t; @times of the same duration. */
static inline void timing_record_many(struct timing *t, uint64_t us, uint64_t times)
{
    timing_bump(&t->bucket[timing_bucket(us)], times);
    timing_bump(&t->sum_us, us * times);
}

static inline void timing_record(struct timing *t, uint64_t us)
{
    timing_record_many(t, us, 1);
}

/* By one of several. */
void timing_record_shared(struct timing *t, uint64_t us);

/* Add what @t has to @out, which is zero-initialised. */
void timing_add(const struct timing *t, struct timing_figures *out);
#endif
