/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_DRIVER_H
#define EXPANSION_JOB_DRIVER_H
/* The driver of an expansion job: performs the steps of step.h with blocking I/O in a thread of its own. It
 * may be killed or stopped at any point: its record in Redis tells another driver where to go on, and its
 * late commands are refused by their token. */
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
    uint64_t wanted_capacity; /* by an operator; 0: decide */
    double wanted_error_rate; /* 0: as configured */
    uint32_t shard_bytes;
    const char *on_nodes; /* that the new generation lies on, as placement_choose() takes them; "": all */
    /* limits, bytes and milliseconds */
    uint64_t build_memory;
    const char *spill_dir;
    uint64_t spill_bytes;
    bool scan_blocks;           /* in the order of the table's blocks instead of its ids */
    unsigned readers;           /* connections that read at the same time */
    unsigned page_ms;           /* how long a page should take */
    uint64_t page_rows;         /* and how many rows it has at the most */
    struct filters *logs;       /* borrowed; of this process */
    struct timing *page_timing; /* borrowed; how long pages took is recorded there. NULL: nowhere */
    const char *read_dsn;       /* a standby that rows are read from; "": none */
    bool sweep; /* catch-up looks at every row for one that was written since the build began */
    enum follower_mode
        follower_mode; /* what tells of rows that come by other ways; keyset: the job looks itself */
    uint64_t verify_sample;
    uint64_t checkpoint_ms;
    /* throttle; 0: no bound */
    uint64_t rows_per_second;
    uint64_t redis_p99_max_ms;
    uint64_t replication_lag_max_ms;
    double yield_at;               /* see yield_look() */
    const struct latency *latency; /* of Redis, as requests see it; borrowed. NULL: not known */
    uint64_t settle_timeout_ms;
    uint64_t grace_ms;
    unsigned redis_timeout_ms;
    unsigned postgres_timeout_ms;
    enum job_kind kind;
    bool hold;               /* an expansion waits for an operator's word before it switches */
    bool verify_full;        /* every key of the source instead of a sample */
    const char *reason;      /* for people */
    const char *trigger;     /* one word for programs */
    const atomic_bool *stop; /* set by whoever wants the thread back */
    atomic_bool *building; /* shared by the drivers of a process: one of them builds at a time, as each takes
                            * build_memory */
};

/* Drive one job to an end under @mutex (borrowed). ERR_OK: done, or nothing was to do. ERR_CANCELLED: an
 * operator aborted it. ERR_BUSY: @options->stop. Any other: it failed or another driver took over; the text
 * says which. */
MUST_CHECK enum err driver_run(const struct driver_options *options, struct mutex *mutex, struct error *e);
#endif
