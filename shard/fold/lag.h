/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_LAG_H
#define SHARD_FOLD_LAG_H
/* How many entries and bytes of a lane a process has applied that the shards in Redis may lack. It follows
 * from positions that the process noted, and from `folded` of the views that it read, whoever stored that.
 * Never too low. Pure. */
#include <stdint.h>
#include "shard/log/position.h"

enum { LAG_MARKS = 32 };

/* What was applied of a lane, up to some entry, by the caller's counters, which only go up. */
struct lag_count {
    uint64_t entries, bytes;
};

struct lag_mark {
    struct log_id id;
    struct lag_count count;
};

/* Zero-initialised, all that was counted is unfolded. */
struct lag {
    struct lag_count folded; /* the counters at `folded`, or lower */
    unsigned marks;
    struct lag_mark mark[LAG_MARKS]; /* behind `folded`, oldest first */
};

/* The lane is read from `folded` on, and nothing behind that was applied yet. */
void lag_begin(struct lag *l, struct lag_count now);
/* The entry @id was applied; @now are the counters at this entry, or at an earlier one. */
void lag_note(struct lag *l, struct log_id id, struct lag_count now);
/* The shards have every entry up to @id. */
void lag_folded(struct lag *l, struct log_id id);
/* What was applied up to @now and is not folded. */
struct lag_count lag_unfolded(const struct lag *l, struct lag_count now);
#endif
