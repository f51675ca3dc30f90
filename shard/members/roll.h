/* SPDX-License-Identifier: MIT */
#ifndef SHARD_MEMBERS_ROLL_H
#define SHARD_MEMBERS_ROLL_H
/* The register of a filter's writers, and the roll call: how a lane goes on when its node is in another era
 * (a failover, a restart, also the first replica that comes), and how a lane that is lost is replaced.
 *
 * A writer is registered before its first entry, and keeps its acknowledged entries until they are folded
 * (own.h). Under a new era each one appends again what is missing of them, and says in the view that it has;
 * when all have, the view takes the era. A lane that is lost gets another stream, of which no era is accepted
 * yet: the same roll call makes it whole, as what was acknowledged is folded or kept by its writer.
 *
 * Blocking; one thread for each struct roll. Anything here may be repeated after an error, and by several
 * processes at once. What was sent on a connection that broke may be executed later, and does no harm:
 * entries are those of acknowledged keys, and the second of two same entries is nothing; scripts compare what
 * they were made for; a lane's number is used once.
 *
 * Errors of all: ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, ERR_NOMEM. ERR_FENCED: the view is another one by
 * now (or being deleted): read it again. */
#include <stdint.h>
#include "base/error.h"
#include "shard/redis/wire/replication.h"
#include "shard/redis/sync_client.h"
#include "shard/log/own.h"
#include "shard/filter/names.h"
#include "shard/redis/script_call.h"
#include "shard/view/log_view.h"

struct roll {
    struct sync_client *redis; /* borrowed, as the names are */
    const struct names *names;
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t
        registration; /* of this writer: its number; 0: none yet. roll_register() gives at least this one */
    uint64_t left;    /* the registration that was given up last; 0: none. It is never taken up again */
    unsigned where[LOG_LANES_MAX]; /* addresses of the lanes; roll_init() takes those of their keys */
    struct script_call call;       /* storage */
};

void roll_init(struct roll *r, struct sync_client *l, const struct names *names,
               const uint8_t writer[LOG_WRITER_BYTES]);
void roll_fini(struct roll *r);

/* Lane @lane as the view has it. */
void roll_lane(const struct roll *r, const struct log_view *v, unsigned lane, struct lane *out);
/* Take the lanes' addresses from @v, where it names nodes for them. ERR_CONFIG: one is not configured. */
MUST_CHECK enum err roll_find_lanes(struct roll *r, const struct log_view *v, struct error *e);

/* --- the register --- */

/* Register the writer; one that is registered stays so, unless it is in doubt (remove.h), its number is below
 * r->registration, or it was given up by roll_leave(): then it gets another number. ERR_NOT_FOUND: no such
 * view. ERR_CONFLICT: the filter is being deleted. ERR_RANGE: there are LOG_WRITERS_MAX already. */
MUST_CHECK enum err roll_register(struct roll *r, struct error *e);
/* @v has the writer under the number that it knows, and nobody doubts that it is there. Otherwise it
 * registers again before it goes on from a position of @v. */
bool roll_is_registered(const struct roll *r, const struct log_view *v);
/* Leave, at a clean stop or for a time: nothing more is sent before the writer has registered again, and all
 * its entries are folded: own_count() is 0 for every lane. A writer that is not registered has left. Where
 * this fails the command may be executed later, and then ends no registration but this one. */
MUST_CHECK enum err roll_leave(struct roll *r, struct error *e);

/* --- the roll call --- */

/* Have @own forget what the shards of every generation of the view hold. One that is being built counts when
 * its cutover is near: up to the hold. */
void roll_forget(const struct roll *r, const struct log_view *v, unsigned lane, struct own *own);

/* Answer the roll call of @lane, when a tail read met another era than the view's: enter the era of its node
 * in @own, append again what is missing of it, and say so in the view, unless that has the era already. *@era
 * is the era. ERR_LOST: the lane is missing: replace it. ERR_NOT_FOUND: the writer is not registered: it was
 * removed, and registers again before anything else. */
MUST_CHECK enum err roll_answer(struct roll *r, const struct log_view *v, unsigned lane, struct own *own,
                                uint64_t *era, struct error *e);

/* Have the view take the era of @lane's node, if every registered writer has answered: *@missing is how many
 * have not; 0: the view has the era, read it again. Where @was (NULL: is not known) is what the node was when
 * the view had its era, and its history goes on, nobody has to answer. ERR_LOST as above. */
MUST_CHECK enum err roll_take_era(struct roll *r, const struct log_view *v, unsigned lane,
                                  const struct replication *was, unsigned *missing, struct error *e);

/* *@out: the node that @was is the one whose id is @era now, and has lost nothing since
 * (replication_goes_on()).
 */
MUST_CHECK enum err roll_goes_on(struct sync_client *l, const struct replication *was, uint64_t era,
                                 bool *out, struct error *e);

/* --- a lane that is lost, or cannot go on --- */

/* Close the lane, make another stream for it, remove lanes of other incarnations of the filter (leftover.h),
 * and put the stream into the view; a roll call makes it whole. It lies where the lane was, or, if the
 * generation that is read has no shard there, on one of that generation's nodes. If a node cannot be reached,
 * nothing is changed. Streams of the lane with lower numbers are deleted then, also those that others have
 * left who were killed: no view will name them. */
MUST_CHECK enum err roll_replace_lane(struct roll *r, const struct log_view *v, unsigned lane,
                                      struct error *e);
/* Replace the lanes on nodes where the generation that is read has no shard: the filter has left them. */
MUST_CHECK enum err roll_move_lanes(struct roll *r, const struct log_view *v, struct error *e);
#endif
