/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_REMOVE_H
#define SHARD_MEMBERS_REMOVE_H
/* Writers that are gone, and have not left the register (roll.h): they are taken off it, so that no roll call
 * waits for them. Nobody needs to know that they are gone: one that only slept registers again, and has lost
 * nothing.
 *
 *   who removes                            | who is removed, should it be there
 *   ---------------------------------------+-------------------------------------------------------------------
 *   says in the view that it is in doubt   | registers under another number when it reads that
 *   waits a while; appends to each lane a  | acknowledges nothing behind the removal of its registration
 *   removal, which names the registration  | (own_remove()), until it has registered under a higher number
 *   when `folded` has passed the removals, | registers when it reads a view that it is not in
 *   takes it off: what it acknowledged is  |
 *   in the shards                          |
 *
 * The doubt comes first, as a writer may read on from a `folded` that is behind the removal, and would never
 * meet it; the view that has such a position says that it is in doubt.
 *
 * A lane that is in a roll call is not folded. A writer that it waits for, and that does not register again,
 * is removed by remove_degraded().
 *
 * Blocking. Errors of all: as roll.h; ERR_NOT_FOUND: the writer is not registered, or under another number.
 */
#include "shard/members/roll.h"

struct removal {
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t registration;
    unsigned lanes;
    struct log_lane lane[LOG_LANES_MAX]; /* the view's, when the removals were appended */
    struct log_id notice[LOG_LANES_MAX];
};

/* Say that @w of a view is in doubt. */
MUST_CHECK enum err remove_doubt(struct roll *r, const struct log_writer *w, struct error *e);

/* Append the removal of @w to each lane of @v. ERR_FENCED also where a lane's node is not in the era of @v.
 * ERR_LOST: a lane is missing. */
MUST_CHECK enum err remove_begin(struct roll *r, const struct log_view *v, const struct log_writer *w,
                                 struct removal *out, struct error *e);
/* Take it off, if the shards hold all before its removals. ERR_BUSY: not yet. ERR_FENCED: a lane has another
 * stream or era by now: begin again. */
MUST_CHECK enum err remove_end(struct roll *r, const struct removal *m, struct error *e);

/* Remove @writer, for which a roll call waits. The filter is degraded then: acknowledged entries of it may be
 * missing. It is removed only while the roll call of every lane waits for it: should it only have slept, it
 * acknowledges nothing before it has read the view. A lane whose era has not changed is replaced for that.
 * ERR_CONFLICT: no roll call waits for it. ERR_FENCED also after lanes were replaced and the view has changed
 * meanwhile. */
MUST_CHECK enum err remove_degraded(struct roll *r, const struct log_view *v,
                                    const uint8_t writer[LOG_WRITER_BYTES], struct error *e);

/* Enter again the @count writers that were registered in a view with the lanes @lane, as the view went back
 * to an older state. *@entered: how many it had not; the view is another one then. */
MUST_CHECK enum err remove_undo(struct roll *r, const struct log_lane *lane, unsigned lanes,
                                const struct log_writer *writers, unsigned count, unsigned *entered,
                                struct error *e);
#endif
