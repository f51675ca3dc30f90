/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_DRIVER_H
#define EXPANSION_JOB_DRIVER_H
/* The driver of an expansion job: performs the steps of step.h with blocking I/O in a thread of its own. It
 * may be killed or stopped at any point: its record in Redis tells another driver where to continue, and its
 * late commands are rejected because of their token. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "base/timing.h"
#include "expansion/record/mutex.h"
#include "expansion/decide/step.h"
#include "expansion/follow/follower.h"
#include "migrate/source/source.h"
#include "shard/redis/nodes/latency.h"
#include "shard/redis/nodes/nodes.h"

struct filters;

struct driver_options {
    const struct nodes *nodes;
    const char *prefix;
    const char *filter;
    size_t filter_length;
    const char *owner;
    bool sourced;
    struct source_config source;
    /* growth */
    uint64_t capacity; /* configured */
    double error_rate; /* configured */
    double growth;
    double expand_at;
    double headroom;
    uint64_t wanted_capacity; /* an operator's; 0: the plan decides */
    double wanted_error_rate; /* 0: as configured */
    uint32_t shard_bytes;
    const char *on_nodes; /* for the new generation, in the form of placement_choose(); "": all */
    /* limits, bytes and milliseconds */
    uint64_t build_memory;
    const char *spill_dir;
    uint64_t spill_bytes;
    bool scan_blocks;           /* scan in the order of the table's blocks instead of ids */
    unsigned readers;           /* number of concurrent connections that read */
    unsigned page_ms;           /* target duration of a page */
    uint64_t page_rows;         /* at most, of a page */
    struct filters *logs;       /* this process's filters; borrowed */
    struct timing *page_timing; /* records durations of pages; borrowed. NULL: none */
    const char *read_dsn;       /* a standby to read rows from; "": none */
    bool sweep;                 /* catch-up examines every row for a write since the build began */
    enum follower_mode
        follower_mode; /* reports rows that come without BF.ADD; keyset: the job looks for them itself */
    uint64_t verify_sample;
    uint64_t checkpoint_ms;
    /* throttle; 0: no bound */
    uint64_t rows_per_second;
    uint64_t redis_p99_max_ms;
    uint64_t replication_lag_max_ms;
    double yield_at;               /* see yield_look() */
    const struct latency *latency; /* latency of Redis, as requests measure it; borrowed. NULL: unknown */
    uint64_t settle_timeout_ms;
    uint64_t grace_ms;
    unsigned redis_timeout_ms;
    unsigned postgres_timeout_ms;
    enum job_kind kind;
    bool hold;               /* wait for an operator's cutover */
    bool verify_full;        /* check every key of the source instead of a sample */
    const char *reason;      /* for people */
    const char *trigger;     /* one word, for programs */
    const atomic_bool *stop; /* set by the thread's owner to get the thread back */
    /* Shared by the drivers of a process: one of them builds at a time, as each uses build_memory. */
    atomic_bool *building;
    atomic_bool *waits; /* of this job: it only waits for an operator, or for the end of its grace time */
};

/* Drive one job to its end under @mutex (borrowed). ERR_OK: it is done, or there was nothing to do.
 * ERR_CANCELLED: an operator aborted it. ERR_BUSY: @options->stop. Other errors: it failed, or another driver
 * took over; the text says which. */
MUST_CHECK enum err driver_run(const struct driver_options *options, struct mutex *mutex, struct error *e);
#endif
