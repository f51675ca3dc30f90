/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_RETAIN_H
#define SHARD_FOLD_RETAIN_H
/* How much of a lane is kept: what the generations of the view and a build need, the build only while the
 * lane is not too long; and beyond that, for readers that lag behind, the entries of the last log_retain, but
 * not more than some bytes. Of one lane, by positions that the folder has met and timed itself: ids are times
 * too, but by another clock, which may jump. A folder that has just begun keeps all. Pure.
 *
 * The happy path is: after each fold note its position, ask for the bound, trim to it (lane_trim()), tell. */
#include <stddef.h>
#include <stdint.h>
#include "shard/log/position.h"
#include "shard/fold/fold.h"

enum { RETAIN_MARKS = 64 };

struct retain_at {
    uint64_t us;    /* monotonic: when the position was noted */
    uint64_t bytes; /* of the lane's entries until there, by a count of the caller's that only goes up */
    struct log_mark mark;
};

/* Zero-initialised nothing was noted. */
struct retain {
    uint64_t us, bytes; /* to keep */
    uint64_t before;    /* bytes where the lane was cut last */
    unsigned count;
    struct retain_at at[RETAIN_MARKS]; /* oldest first */
};

/* @us, @bytes: what is kept; @bytes_now: the count now. */
void retain_init(struct retain *r, uint64_t us, uint64_t bytes, uint64_t bytes_now);

/* The folder's position in the lane is @p at @now, with @bytes_now. Positions that are close to each other
 * are not all kept. */
void retain_note(struct retain *r, uint64_t now, uint64_t bytes_now, const struct log_position *p);

/* True if a lane with @lane_bytes in Redis is longer than half of @log_max: then it is trimmed by what the
 * generations of the view need, and not by what a build does, which begins again. */
bool retain_is_long(uint64_t lane_bytes, uint64_t log_max);

/* Where to trim the lane: the newest position that was noted, is not behind @bound, and is old enough, or has
 * more than the bytes before the end. NULL: nowhere. Valid until the next call with @r. */
const struct log_mark *retain_bound(const struct retain *r, uint64_t now, uint64_t bytes_now,
                                    const struct fold_bound *bound);

/* The lane was trimmed to @mark, or has it no more: what was noted until there is forgotten. */
void retain_trimmed(struct retain *r, const struct log_mark *mark);
#endif
