/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_NODES_LATENCY_H
#define SHARD_REDIS_NODES_LATENCY_H
/* How long Redis takes to answer, as requests see it: a histogram that all event loops of a process write and
 * anybody may read, without locks. Buckets are eighths of a power of two, so within 12.5 %. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LATENCY_PARTS = 8,
    LATENCY_BUCKETS = LATENCY_PARTS * 24, /* up to 67 s; what is beyond counts as that */
    LATENCY_INTERVAL_US = 1000
};

/* Zero-initialised is empty. It only grows: a reader looks at what was added since it last did. */
struct latency {
    atomic_uint_fast64_t bucket[LATENCY_BUCKETS];
    atomic_uint_fast64_t last_us; /* when the last one was recorded, or somebody asked */
};

/* At @now_us (clock_mono_us()) one answer came @us after its command. A loop measures one command at a time
 * and records one every LATENCY_INTERVAL_US; one that took longer therefore stands for those that were not
 * measured meanwhile, which would have waited for the rest of it, and is recorded as all of them. So figures
 * are those of commands sent evenly over the time, and a stall counts as long as it was. */
void latency_record(struct latency *l, uint64_t now_us, uint64_t us);

/* Somebody asks at @now_us, whether Redis is asked for it or not. */
void latency_use(struct latency *l, uint64_t now_us);

/* One reader's place; zero-initialise. */
struct latency_reader {
    uint64_t seen[LATENCY_BUCKETS];
};

struct latency_figures {
    uint64_t samples; /* 0: nothing was sent, so nothing is known */
    double p99_ms;    /* the end of its bucket: never below what 99 % took */
};

/* What was recorded since this reader's last call (at the first: ever). */
void latency_read(const struct latency *l, struct latency_reader *reader, struct latency_figures *out);

enum { LATENCY_RECENT_US = 1000 * 1000 };
/* Whether anybody asked, or was answered, within LATENCY_RECENT_US before @now_us. */
bool latency_is_used(const struct latency *l, uint64_t now_us);
#endif
