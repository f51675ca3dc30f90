/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_ESTIMATE_H
#define EXPANSION_DECIDE_ESTIMATE_H
/* Estimate: what a filter of so many keys would need, before there is any server. Pure; no I/O.
 *
 * Shards are taken to be spread evenly over nodes of one size. Times are those of the parts of a rebuild that
 * grow with the filter, by what these took on loopback (tests/bench/RESULTS.md): without the
 * settle, the verification of a sample and the grace time. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/geometry.h"

enum {
    ESTIMATE_HEADROOM_PERCENT =
        10, /* of a node's memory, left to clients, replication, the log and other data */
    ESTIMATE_SCAN_RATE = 1000000, /* rows a second by one reader, where nobody says */
    ESTIMATE_CREATE_US = 1000,    /* an empty shard of 1 MiB */
    ESTIMATE_UPLOAD_US = 3000,    /* the bits of a shard of 1 MiB, read and written by one thread */
    ESTIMATE_SWEEPS_SHARE = 3,    /* both sweeps take the scan's time divided by this */
    ESTIMATE_HASH_BYTES = 16      /* of a key, where hashes are spilled */
};

struct estimate_input {
    uint64_t keys;
    double error_rate;
    double growth;         /* the generation that a rebuild makes is so many times as large; 1 or more */
    uint32_t shard_bytes;  /* largest shard */
    uint64_t node_memory;  /* maxmemory of each node; 0: not known */
    unsigned nodes;        /* 0: as few as hold it (1 where node_memory is not known) */
    double scan_rate;      /* rows a second by one reader */
    unsigned readers;      /* 1 or more */
    uint64_t build_memory; /* of the coordinator; 0: not known */
    uint64_t spill_bytes;  /* it may have on disk at a time */
};

struct estimate {
    uint64_t next_keys;             /* keys x growth */
    struct geometry geometry, next; /* of the generation in use, and of the one that a rebuild makes */
    uint64_t shard_memory;          /* what Redis allocates for one shard of geometry, bytes */
    uint64_t memory, next_memory;   /* for all */
    uint64_t nodes_needed; /* for a rebuild within the headroom; 0: not known, or no number is enough */
    unsigned nodes;        /* that the figures below are for */
    uint64_t node_room;    /* node_memory without the headroom */
    uint64_t node_shards;  /* in use; on the node that has most */
    uint64_t before, during, after; /* bytes on that node: one generation, both, the next one */
    uint32_t partitions;            /* pieces of the build; 1: its bitmaps fit into build_memory */
    uint64_t spilled, spill_peak;   /* hashes: all that are written, and at a time. Bytes; 0 where it fits */
    double create_s, scan_s, upload_s, sweep_s;
    double rebuild_s; /* all of them */
};

/* ERR_RANGE: no geometry, or no such input; the text says which. *@out is untouched then. */
MUST_CHECK enum err estimate_make(struct estimate *out, const struct estimate_input *in, struct error *e);

/* ERR_REFUSED, with the remedy, where the nodes do not hold a rebuild or are more than a filter can have.
 * Without node_memory only the latter. */
MUST_CHECK enum err estimate_fits(const struct estimate *est, const struct estimate_input *in,
                                  struct error *e);
#endif
