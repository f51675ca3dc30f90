/* SPDX-License-Identifier: MIT */
#ifndef BASE_TIMING_H
#define BASE_TIMING_H
/* A histogram of durations. One thread or several write it, any thread may read it, without locks. Buckets
 * double from 50 us to 13.1 s; one more bucket holds longer durations. */
#include <stdatomic.h>
#include <stdint.h>

enum { TIMING_FIRST_US = 50, TIMING_BOUNDS = 19, TIMING_BUCKETS = TIMING_BOUNDS + 1 };

/* Zero-initialised is empty. */
struct timing {
    atomic_uint_fast64_t bucket[TIMING_BUCKETS]; /* a duration counts in the smallest bucket that holds it */
    atomic_uint_fast64_t sum_us;
};

/* The sum of one or several timings. */
struct timing_figures {
    uint64_t bucket[TIMING_BUCKETS];
    uint64_t count, sum_us;
};

/* The largest duration of a bucket, inclusive, us. */
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

/* Add to a counter that only one thread writes: no locked instruction is needed, as no other addition can get
 * lost. */
static inline void timing_bump(atomic_uint_fast64_t *counter, uint64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

/* For the only thread that writes @t: @times durations of @us each. */
static inline void timing_record_many(struct timing *t, uint64_t us, uint64_t times)
{
    timing_bump(&t->bucket[timing_bucket(us)], times);
    timing_bump(&t->sum_us, us * times);
}

/* For one of several threads that write @t. */
void timing_record_shared(struct timing *t, uint64_t us);

/* Add the figures of @t to @out, which began zero-initialised. */
void timing_add(const struct timing *t, struct timing_figures *out);
#endif
