/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_REMOVE_H
#define SHARD_MEMBERS_REMOVE_H
/* Writers that are gone, and have not left the register (roll.h): they are removed from it, so that no roll
 * call waits for them. Nobody needs to be sure that they are gone: a writer that only slept registers again,
 * and has lost nothing.
 *
 *   the remover                            | the removed writer, if it still runs
 *   ---------------------------------------+-------------------------------------------------------------------
 *   says in the view that it is in doubt   | registers under another number when it reads that
 *   waits a while; appends to each lane a  | acknowledges nothing behind the removal of its registration
 *   removal, which names the registration  | (own_remove()), until it has registered under a higher number
 *   drops it from the register once        | registers when it reads a view that does not have it
 *   `folded` has passed the removals: what |
 *   it acknowledged is in the shards       |
 *
 * The doubt comes first, because a writer may read on from a `folded` that is behind the removal, and would
 * never meet the removal; but the view with that position says that the writer is in doubt.
 *
 * A lane that is in a roll call is not folded. A writer that the roll call waits for, and that does not
 * register again, is removed by remove_degraded().
 *
 * Blocking. All functions may return the errors of roll.h; ERR_NOT_FOUND: the writer is not registered, or
 * has another number. */
#include "shard/members/roll.h"

struct removal {
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t registration;
    unsigned lanes;
    struct log_lane lane[LOG_LANES_MAX]; /* the view's lanes when the removals were appended */
    struct log_id notice[LOG_LANES_MAX];
};

/* Say in the view that the writer @w is in doubt. */
MUST_CHECK enum err remove_doubt(struct roll *r, const struct log_writer *w, struct error *e);

/* Append the removal of @w to each lane of @v. ERR_FENCED: also if a lane's node is not in the era of @v.
 * ERR_LOST: a lane is missing. */
MUST_CHECK enum err remove_begin(struct roll *r, const struct log_view *v, const struct log_writer *w,
                                 struct removal *out, struct error *e);
/* Drop the writer from the register, if the shards hold all entries before its removals. ERR_BUSY: not yet.
 * ERR_FENCED: a lane has another stream or era by now: begin again. */
MUST_CHECK enum err remove_end(struct roll *r, const struct removal *m, struct error *e);

/* Remove @writer, for which a roll call waits. The filter is degraded then: acknowledged entries of the
 * writer may be missing. It is removed only while the roll call of every lane waits for it: if it only slept,
 * it acknowledges nothing before it has read the view. To that end a lane whose era has not changed is
 * replaced. ERR_CONFLICT: no roll call waits for the writer. ERR_FENCED: also if the view has changed after
 * lanes were replaced. */
MUST_CHECK enum err remove_degraded(struct roll *r, const struct log_view *v,
                                    const uint8_t writer[LOG_WRITER_BYTES], struct error *e);

/* Register again the @count writers of an earlier view with the lanes @lane, as the view went back to an
 * older state. *@entered: the number of those that it did not have; if not 0, the view has changed. The
 * filter becomes degraded if there is no room for one of them. */
MUST_CHECK enum err remove_undo(struct roll *r, const struct log_lane *lane, unsigned lanes,
                                const struct log_writer *writers, unsigned count, unsigned *entered,
                                struct error *e);
#endif
