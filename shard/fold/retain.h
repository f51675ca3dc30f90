/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_RETAIN_H
#define SHARD_FOLD_RETAIN_H
/* How much of a lane is kept: what the generations of the view need, and a build, the latter only while the
 * lane is not too long. Beyond that, for readers that lag behind, the entries of the last log_retain, up to a
 * number of bytes. This is for one lane, and by positions that the folder has met and timed itself: ids are
 * times too, but of another clock, which may jump. A folder that has just begun keeps all. Pure.
 *
 * The happy path is: after each fold note its position, ask for the bound, trim to it (lane_trim()), tell. */
#include <stdint.h>
#include "shard/log/position.h"
#include "shard/fold/fold.h"

enum { RETAIN_MARKS = 64 };

struct retain_at {
    uint64_t us;    /* monotonic: when the position was noted */
    uint64_t bytes; /* of the lane's entries up to there, by a counter of the caller's that only goes up */
    struct log_mark mark;
};

/* Zero-initialised, nothing was noted. */
struct retain {
    uint64_t us, bytes; /* how much to keep */
    uint64_t before;    /* the byte counter where the lane was cut last */
    unsigned count;
    struct retain_at at[RETAIN_MARKS]; /* oldest first */
};

/* @us, @bytes: how much to keep; @bytes_now: the current byte counter. */
void retain_init(struct retain *r, uint64_t us, uint64_t bytes, uint64_t bytes_now);

/* The folder is at position @p of the lane, at the time @now and the byte counter @bytes_now. Not all of
 * several close positions are noted. */
void retain_note(struct retain *r, uint64_t now, uint64_t bytes_now, const struct log_position *p);

/* True if a lane with @lane_bytes in Redis is longer than half of @log_max: then only the generations of the
 * view limit trimming, and a build begins again. */
bool retain_is_long(uint64_t lane_bytes, uint64_t log_max);

/* Where to trim the lane: the newest noted position that is not behind @bound, and that is old enough, or has
 * enough bytes behind it. NULL: nowhere. Valid until the next call with @r. */
const struct log_mark *retain_bound(const struct retain *r, uint64_t now, uint64_t bytes_now,
                                    const struct fold_bound *bound);

/* The lane was trimmed to @mark, or no longer has it: forget the positions up to there. */
void retain_trimmed(struct retain *r, const struct log_mark *mark);
#endif
