/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_PLAN_H
#define EXPANSION_DECIDE_PLAN_H
/* The growth plan: what the next generation looks like and whether there is memory for it. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/geometry.h"

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

/* Memory of one Redis node in bytes: of the server, as INFO says it, and of this filter in it. */
struct plan_node {
    char name[96];
    char policy[32]; /* maxmemory_policy */
    uint64_t used;
    uint64_t maxmemory; /* 0: no limit is set */
    uint64_t machine;   /* memory of the whole machine, the limit where none is set; 0: unknown */
    uint64_t before;    /* its generations that are there */
    uint64_t during;    /* these, and the new one */
    uint64_t after;     /* the new one alone */
    double share;       /* by slots: the part of all shards that is likely to lie on it */
    uint32_t shards;    /* of the new generation; by slots, what it may come to */
    bool known;         /* it has told of its memory */
    bool leaving;       /* shards that are there lie on it, of the new ones none will */
    bool by_slots;      /* of a cluster: how many come to lie on it is chance */
};

struct plan {
    uint64_t capacity;
    double error_rate;
    struct geometry geometry;
    uint64_t bytes;       /* length of all new strings */
    uint64_t memory_new;  /* what Redis will allocate for them */
    uint64_t memory_peak; /* both generations */
    uint64_t memory_after;
    unsigned partitions; /* pieces in which it is built: by bytes without headers and build_memory, never more
                          * than shards */
};

/* capacity = wanted, or max(growth x current (not for a first build: current), rows x headroom). Where the
 * capacity is kept but no more than half of the items are rows still, the rest having been deleted, it is
 * max(least, rows x headroom) if that is smaller. ERR_RANGE: geometry impossible; a wanted capacity below the
 * source's rows; growth or headroom below 1; no nodes; no memory to build in. */
MUST_CHECK enum err plan_make(struct plan *out, const struct plan_input *in, struct error *e);

/* Say of each node how many of the new shards it takes (those that are not leaving come first, and shard i
 * lies on node i % of their number; in a cluster, where
 * it is chance, the mean and three standard deviations) and, by its `before`, what that makes of its memory.
 */
void plan_place(const struct plan *p, struct plan_node *nodes, unsigned count);

/* What no node's memory may pass: its maxmemory, or without one the memory of its machine. 0: not known. */
uint64_t plan_node_limit(const struct plan_node *node);

/* plan_place(), then ERR_REFUSED with node and figures where one of them lacks the room for its part of the
 * shards, however much the others have.
 * @warning (size 256, "" if none): an eviction policy other than noeviction. */
MUST_CHECK enum err plan_fits(const struct plan *p, struct plan_node *nodes, unsigned count,
                              char warning[256], struct error *e);
#endif
