/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DECIDE_PLAN_H
#define EXPANSION_DECIDE_PLAN_H
/* The growth plan: the shape of the next generation, and whether there is memory for it. Pure; no I/O. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/geometry.h"

struct plan_input {
    uint64_t current_capacity; /* of the generation in use, or configured if there is none */
    uint64_t source_rows;      /* estimate; 0: unknown or no source */
    double growth;             /* factor, e.g. 1.5 */
    double headroom;           /* capacity per source row, e.g. 1.3 */
    uint64_t items;            /* counted in the generation in use */
    uint64_t least_capacity;   /* configured: lower bound, if the generation shrinks */
    bool keep_capacity;        /* nothing is built yet, or it is not full: only the rows may increase it */
    uint64_t wanted_capacity;  /* an operator's; 0: the plan decides */
    double error_rate;
    uint32_t shard_bytes;  /* largest shard */
    uint64_t build_memory; /* bytes of local bitmaps */
    unsigned node_count;
    uint64_t memory_now; /* Redis memory of the existing generations, bytes */
};

/* Memory of one Redis node in bytes: of the server, from INFO, and of this filter on it. */
struct plan_node {
    char name[96];
    char policy[32]; /* maxmemory_policy */
    uint64_t used;
    uint64_t maxmemory; /* 0: no limit */
    uint64_t machine;   /* the machine's memory, the limit if maxmemory is 0; 0: unknown */
    uint64_t before;    /* bytes of the filter's existing generations */
    uint64_t during;    /* bytes of these and the new one */
    uint64_t after;     /* bytes of the new one alone */
    double share;       /* by slots: the expected share of all shards */
    uint32_t shards;    /* number of new shards; by slots, an upper estimate */
    bool known;         /* the node has reported its memory */
    bool leaving;       /* it has existing shards, but gets none of the new ones */
    bool by_slots;      /* in a cluster: slots decide at random how many shards it gets */
};

struct plan {
    uint64_t capacity;
    double error_rate;
    struct geometry geometry;
    uint64_t bytes;       /* length of all new strings */
    uint64_t memory_new;  /* what Redis will allocate for the new strings */
    uint64_t memory_peak; /* both generations together */
    /* Parts of the build: bytes without headers / build_memory, at most the number of shards. */
    unsigned partitions;
};

/* capacity = wanted, or max(growth x current (a first build: current), rows x headroom). If the capacity is
 * kept, but at most half of the items still have rows because the others were deleted: max(least, rows x
 * headroom), if that is smaller. ERR_RANGE: impossible geometry; a wanted capacity below the source's rows;
 * growth or headroom below 1; no nodes; no memory for the build. */
MUST_CHECK enum err plan_make(struct plan *out, const struct plan_input *in, struct error *e);

/* Set each node's number of new shards and, from its `before`, its later memory. Nodes that are not leaving
 * come first, and shard i lies on node i % of their number. In a cluster the number is random: the mean plus
 * three standard deviations is used. */
void plan_place(const struct plan *p, struct plan_node *nodes, unsigned count);

/* The upper bound of a node's memory: its maxmemory, or else the memory of its machine. 0: unknown. */
uint64_t plan_node_limit(const struct plan_node *node);

/* plan_place(), then ERR_REFUSED with node and figures if a node lacks room for its part of the shards,
 * whatever room the others have.
 * @warning (size 256, "": none): an eviction policy other than noeviction. */
MUST_CHECK enum err plan_fits(const struct plan *p, struct plan_node *nodes, unsigned count,
                              char warning[256], struct error *e);
#endif
