/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_ROLL_H
#define SHARD_MEMBERS_ROLL_H
/* The register of a filter's writers, and the roll call: how a lane goes on when its node is in another era
 * (after a failover, a restart, or the first replica's attachment), and how a lost lane is replaced.
 *
 * A writer is registered before its first entry, and keeps its acknowledged entries until they are folded
 * (own.h). Under a new era each writer appends those of its entries that are missing, and says so in the
 * view; when all have, the view takes the era. A lost lane gets another stream, of which no era is accepted
 * yet: the same roll call makes it complete, as what was acknowledged is either folded or kept by its writer.
 *
 * Blocking; one thread for each struct roll. All of this may be repeated after an error, and by several
 * processes at once. What was sent over a connection that broke may be executed later, and does no harm:
 * entries are those of acknowledged keys, and the second of two equal entries changes nothing; scripts
 * compare what they were made for; a lane's number is used once.
 *
 * All functions may return ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. ERR_FENCED: the view has
 * changed (or the filter is being deleted): load it again. */
#include <stdint.h>
#include "base/error.h"
#include "shard/members/clean_stop.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/log/own.h"
#include "shard/filter/names.h"
#include "shard/redis/script_call.h"
#include "shard/view/log_view.h"

struct roll {
    struct sync_client *redis; /* borrowed, like @names */
    const struct names *names;
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t registration; /* number of the own registration; 0: none yet. The next one is not lower */
    uint64_t left;         /* the registration that was given up last; 0: none. It is never used again */
    const struct clean_stop *clean_stop; /* borrowed; NULL: there is none */
    struct script_call call;             /* scratch: the script that is being written or run */
};

void roll_init(struct roll *r, struct sync_client *l, const struct names *names,
               const uint8_t writer[LOG_WRITER_BYTES]);
void roll_fini(struct roll *r);

/* Lane @lane, as in the view. ERR_CONFIG: its node is not configured. */
MUST_CHECK enum err roll_lane(const struct roll *r, const struct log_view *v, unsigned lane, struct lane *out,
                              struct error *e);

/* --- the register --- */

/* Register the writer. A registered writer stays so, unless it is in doubt (remove.h), its number is below
 * r->registration, or roll_leave() gave it up: then it gets another number. ERR_NOT_FOUND: there is no such
 * view. ERR_CONFLICT: the filter is being deleted. ERR_RANGE: there are LOG_WRITERS_MAX already. */
MUST_CHECK enum err roll_register(struct roll *r, struct error *e);
/* True if @v has the writer under the number that it knows, and not in doubt. If false, the writer must
 * register again before it goes on from a position of @v. */
bool roll_is_registered(const struct roll *r, const struct log_view *v);
/* Leave the register, at a clean stop or for a time. All entries of the writer must be folded: own_count() is
 * 0 for every lane. Send nothing more before registering again. ERR_OK also if the writer is not registered.
 * After an error the command may be executed later; it then ends only this registration. */
MUST_CHECK enum err roll_leave(struct roll *r, struct error *e);

/* --- the roll call --- */

/* Let @own forget what the shards of every generation of the view hold. A generation that is being built
 * counts once its cutover is near: up to the hold. */
void roll_forget(const struct roll *r, const struct log_view *v, unsigned lane, struct own *own);

/* Answer the roll call of @lane, after a tail read met another era than the view's: enter the era of its node
 * in @own, append what is missing, and say so in the view, unless the view has that era. *@era is the era.
 * ERR_LOST: the lane is missing: replace it. ERR_NOT_FOUND: the writer is not registered: it was removed, and
 * must register again first. */
MUST_CHECK enum err roll_answer(struct roll *r, const struct log_view *v, unsigned lane, struct own *own,
                                uint64_t *era, struct error *e);

/* Let the view take the era of @lane's node, if every registered writer has answered. *@missing: the number
 * of those that have not; 0: the view has the era, load it again. @was: the state of the node when the view
 * had its era (NULL: unknown); if the node's history goes on from there, or clean_stop.h says so, no writer
 * has to answer. ERR_LOST as above, or the lane's slot has come back to an era that it left before entries
 * may have been lost. */
MUST_CHECK enum err roll_take_era(struct roll *r, const struct log_view *v, unsigned lane,
                                  const struct replication *was, unsigned *missing, struct error *e);

/* *@out: the node @was has the id @era now, and has lost nothing since (replication_goes_on()). */
MUST_CHECK enum err roll_goes_on(struct sync_client *l, const struct replication *was, uint64_t era,
                                 bool *out, struct error *e);

/* --- a lane that is lost, or cannot go on --- */

/* Close the lane, make another stream for it, remove lanes of other incarnations of the filter (leftover.h),
 * and put the stream into the view; a roll call makes it complete. The stream lies where the lane was, or, if
 * the current generation has no shard there, on one of that generation's nodes. If a node cannot be reached,
 * nothing is changed. Then delete all streams of the lane with lower numbers, also those that killed
 * processes left: no view will name them. */
MUST_CHECK enum err roll_replace_lane(struct roll *r, const struct log_view *v, unsigned lane,
                                      struct error *e);
/* As roll_replace_lane(), for a lane from which the position that the view has for the current generation was
 * trimmed: no reader can begin there, and no process has stored a later one since. So the view went back, and
 * what was trimmed may not be in the shards that it names: the filter becomes degraded first. Model: gap.pml.
 */
MUST_CHECK enum err roll_give_up_lane(struct roll *r, const struct log_view *v, unsigned lane,
                                      struct error *e);
/* Replace the lanes on nodes where the current generation has no shard: the filter has left these nodes. */
MUST_CHECK enum err roll_move_lanes(struct roll *r, const struct log_view *v, struct error *e);
#endif
