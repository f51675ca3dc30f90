/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_LATENCY_H
#define SHARD_REDIS_NODES_LATENCY_H
/* How long Redis takes to answer, as requests see it: a histogram that all event loops of a process write and
 * any thread may read, without locks. Buckets are eighths of a power of two, so within 12.5 %. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LATENCY_PARTS = 8,
    LATENCY_BUCKETS = LATENCY_PARTS * 24, /* up to 67 s; longer times count as that */
    LATENCY_INTERVAL_US = 1000
};

/* Zero-initialised it is empty. It only grows: a reader looks at what was added since its last call. */
struct latency {
    atomic_uint_fast64_t bucket[LATENCY_BUCKETS];
    atomic_uint_fast64_t last_us; /* clock_mono_us() of the last record or use */
};

/* Record an answer that came at @now_us (clock_mono_us()), @us after its command. A loop measures one command
 * at a time, and records one every LATENCY_INTERVAL_US. So a longer one stands for the commands that were not
 * measured meanwhile: each would have waited for the rest of it, and all are recorded. The figures are
 * therefore those of commands sent evenly over time, and a stall counts for as long as it lasted. */
void latency_record(struct latency *l, uint64_t now_us, uint64_t us);

/* Note that a request came at @now_us, whether or not it needs Redis. */
void latency_use(struct latency *l, uint64_t now_us);

/* One reader's state; zero-initialise it. */
struct latency_reader {
    uint64_t seen[LATENCY_BUCKETS];
};

struct latency_figures {
    uint64_t samples; /* 0: nothing was sent, so nothing is known */
    double p99_ms;    /* the end of the bucket: never less than 99 % of the times */
};

/* The figures of what was recorded since this reader's last call (in the first call: ever). */
void latency_read(const struct latency *l, struct latency_reader *reader, struct latency_figures *out);

enum { LATENCY_RECENT_US = 1000 * 1000 };
/* True if anything was recorded or used within LATENCY_RECENT_US before @now_us. */
bool latency_is_used(const struct latency *l, uint64_t now_us);
#endif
