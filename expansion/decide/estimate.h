/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_ESTIMATE_H
#define EXPANSION_DECIDE_ESTIMATE_H
/* Estimates what a filter of a given number of keys would need, before there is any server. Pure; no I/O.
 *
 * Assumes that shards are spread evenly over nodes of equal size. Estimates the times of those parts of a
 * rebuild that grow with the filter, from measurements on loopback (tests/bench/RESULTS.md): without the
 * settle, the verification of a sample and the grace time. */
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/geometry.h"

enum {
    ESTIMATE_HEADROOM_PERCENT =
        10, /* % of a node's memory, left for clients, replication, the log and other data */
    ESTIMATE_SCAN_RATE = 1000000, /* rows per second of one reader, if not given */
    ESTIMATE_CREATE_US = 1000,    /* to create an empty shard of 1 MiB */
    ESTIMATE_UPLOAD_US = 3000,    /* to read and write the bits of a shard of 1 MiB in one thread */
    ESTIMATE_SWEEPS_SHARE = 3,    /* both sweeps together take the scan's time divided by this */
    ESTIMATE_HASH_BYTES = 16      /* per key, when hashes are spilled */
};

struct estimate_input {
    uint64_t keys;
    double error_rate;
    double growth;         /* a rebuild's generation is this many times as large; at least 1 */
    uint32_t shard_bytes;  /* largest shard */
    uint64_t node_memory;  /* maxmemory of each node; 0: unknown */
    unsigned nodes;        /* 0: the fewest that hold it (1 if node_memory is unknown) */
    double scan_rate;      /* rows per second of one reader */
    unsigned readers;      /* at least 1 */
    uint64_t build_memory; /* the coordinator's; 0: unknown */
    uint64_t spill_bytes;  /* maximum on disk at a time */
};

struct estimate {
    uint64_t next_keys;             /* keys x growth */
    struct geometry geometry, next; /* of the generation in use, and of the one that a rebuild makes */
    uint64_t shard_memory;          /* what Redis allocates for one shard of geometry, bytes */
    uint64_t memory, next_memory;   /* for all shards */
    uint64_t nodes_needed; /* for a rebuild within the headroom; 0: unknown, or no number is enough */
    unsigned nodes;        /* the figures below apply to this number */
    uint64_t node_room;    /* node_memory without the headroom */
    uint64_t node_shards;  /* shards of the generation in use, on the fullest node */
    uint64_t before, during, after; /* bytes on that node: one generation, both, the next one */
    uint32_t partitions;            /* parts of the build; 1: its bitmaps fit into build_memory */
    uint64_t spilled, spill_peak;   /* bytes of hashes: written in all, and at a time; 0: it fits */
    double create_s, scan_s, upload_s, sweep_s;
    double rebuild_s; /* all of the times above */
};

/* ERR_RANGE: the geometry is impossible or an input is invalid; the text says which. *@out is then
 * unchanged. */
MUST_CHECK enum err estimate_make(struct estimate *out, const struct estimate_input *in, struct error *e);

/* ERR_REFUSED, with the remedy: the nodes do not hold a rebuild, or are more than a filter can have. Without
 * node_memory only the latter is checked. */
MUST_CHECK enum err estimate_fits(const struct estimate *est, const struct estimate_input *in,
                                  struct error *e);
#endif
