/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_DUE_H
#define SHARD_FOLD_DUE_H
/* When a filter is folded, and what the length of a lane decides. Pure.
 *
 *   nothing is unfolded                                never
 *   much is: a quarter of log_max                      at once, but DUE_LEAST_US after the last fold
 *   some is: DUE_SOME_BYTES                            an interval after the last fold
 *   little is                                          when the oldest of it is DUE_LITTLE intervals old, and
 *                                                      an interval after the last fold
 *
 * So a filter that gets few keys is folded about every ten seconds. */
#include <stdbool.h>
#include <stdint.h>

enum {
    DUE_INTERVAL_US = 1000 * 1000, /* fold_interval */
    DUE_LEAST_US = 100 * 1000,
    DUE_SOME_BYTES = 64 << 10,
    DUE_LITTLE = 10,
    LOG_MAX_DEFAULT = 64 << 20,          /* bytes of a lane in Redis */
    LOG_RETAIN_US_DEFAULT = 60 * 1000000 /* log_retain, us */
};
#define DUE_NEVER UINT64_MAX

/* Times are monotonic, in us. */
struct due_facts {
    uint64_t last;           /* the end of the last fold; 0: there was none */
    uint64_t oldest;         /* when the oldest unfolded entry was applied */
    uint64_t unfolded_bytes; /* of unfolded entries; 0: there are none */
    uint64_t log_max;        /* the most bytes of a lane */
    uint64_t interval;       /* 0: DUE_INTERVAL_US */
};

/* When to fold; DUE_NEVER: there is nothing to fold. */
uint64_t fold_due(const struct due_facts *f);
/* When the folder looks again at what is unfolded: after an interval, or earlier, when half of much has come,
 * at the rate of what came from the last fold until @now. */
uint64_t fold_look(const struct due_facts *f, uint64_t now);

/* True if a lane with so many bytes in Redis (lane_trim()) takes no more keys: adds are refused with
 * ERR_NOMEM, as Redis refuses them at maxmemory; checks go on. */
bool log_is_full(uint64_t lane_bytes, uint64_t log_max);
/* The most bytes of entries that are kept for readers that lag behind (retain.h). */
uint64_t log_retain_bytes(uint64_t log_max);
#endif
