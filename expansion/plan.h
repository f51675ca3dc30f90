/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_PLAN_H
#define EXPANSION_PLAN_H
/* The growth plan: what the next generation looks like and whether there is memory for it. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/geometry.h"

/* Strings of one shard's length that a node holds for a moment while a build uploads to it: the upload under
 * its own name, and the result that BITOP makes before it lets go of the live one. Whoever uploads keeps to
 * one at a time a node. */
enum { PLAN_TRANSIENT_SHARDS = 2 };

struct plan_input {
    uint64_t current_capacity; /* of the generation in use (or configured, where none is built) */
    uint64_t source_rows;      /* estimate; 0: unknown or no source */
    double growth;             /* e.g. 1.5 */
    double headroom;           /* capacity per source row, e.g. 1.3 */
    uint64_t items;            /* counted into the generation in use */
    uint64_t least_capacity;   /* configured: a smaller generation than the one in use has at least this */
    bool keep_capacity;       /* nothing is built yet, or what is built is not full: only the rows may make it
                                 larger */
    uint64_t wanted_capacity; /* from an operator; 0: decide */
    double error_rate;
    uint32_t shard_bytes;  /* largest shard */
    uint64_t build_memory; /* bytes of local bitmaps */
    unsigned node_count;
    uint64_t memory_now; /* Redis memory of the generations that are there, bytes */
};

/* Memory of one Redis node, as INFO says it. */
struct plan_node {
    char name[96];
    uint64_t used;
    uint64_t maxmemory; /* 0: no limit is set */
    uint64_t machine;   /* memory of the whole machine, the limit where none is set; 0: unknown */
    char policy[32];    /* maxmemory_policy */
};

struct plan {
    uint64_t capacity;
    double error_rate;
    struct geometry geometry;
    uint64_t bytes;       /* length of all new strings */
    uint64_t memory_new;  /* what Redis will allocate for them */
    uint64_t memory_peak; /* both generations plus uploads in flight */
    uint64_t memory_after;
    unsigned partitions; /* scans of the source: ceil(bytes / build_memory), never more than shards */
};

/* capacity = wanted, or max(growth x current (not for a first build: current), rows x headroom). Where the
 * capacity is kept but no more than half of the items are rows still, the rest having been deleted, it is
 * max(least, rows x headroom) if that is smaller. ERR_RANGE: geometry impossible; a wanted capacity below the
 * source's rows; growth or headroom below 1; no nodes; no memory to build in. */
MUST_CHECK enum err plan_make(struct plan *out, const struct plan_input *in, struct error *e);

/* ERR_REFUSED with the figures where a node's maxmemory, or without one the memory of its machine, would be
 * passed (its share of the new generation + uploads).
 * @warning (size 256, "" if none): an eviction policy other than noeviction. */
MUST_CHECK enum err plan_fits(const struct plan *p, const struct plan_node *nodes, unsigned count,
                              char warning[256], struct error *e);
#endif
