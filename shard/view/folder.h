/* SPDX-License-Identifier: MIT */
#ifndef SHARD_VIEW_FOLDER_H
#define SHARD_VIEW_FOLDER_H
/* The folder of one generation: it writes what of its shards differs from Redis, and stores up to where of
 * each lane Redis has every entry. Blocking; one thread, while others look up and apply. The caller holds the
 * folder's lease of the filter: two without it would take over from each other for ever.
 *
 * The happy path is: take over once; then, at intervals, note the positions, fold, trim. Possible failure
 * modes are: another one takes over (ERR_FENCED); a connection breaks, and what was sent on it may still be
 * executed (any other error): the next folder_fold() takes over first, by which it finds what was not
 * written; a shard is not whole in memory (ERR_CONFLICT): its marks do not say all. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/generation.h"
#include "shard/nodes.h"
#include "shard/resident/resident.h"
#include "shard/view/fold.h"

struct folder {
    struct fold fold;
    struct resident *resident;      /* borrowed, as the shape is */
    const struct generation *shape; /* all layers are in memory */
    struct placement placement;
    uint16_t tag;
    bool took_over; /* the headers of all shards have the token, and memory has what Redis has */
};

/* How far the applier of a lane was when folding began: noted before anything is copied. */
struct folder_lane {
    uint64_t number; /* of its stream */
    uint64_t era;    /* that the position was read under */
    struct log_position position;
    bool some;          /* out: entries before @trim are in the shards of every generation of the view */
    struct log_id trim; /* out */
};

/* ERR_CONFIG: the generation lies on nodes that are not configured. */
MUST_CHECK enum err folder_init(struct folder *f, struct link *l, const struct names *names,
                                const struct generation *shape, struct resident *resident, struct error *e);
void folder_fini(struct folder *f);

/* Draw a token and enter it into the headers of all shards; then read these shards, so that memory has what
 * others wrote, and mark what memory has and Redis has not. ERR_LOST: a shard is missing or is something
 * else. ERR_CONFLICT: a shard is not whole in memory. ERR_NOT_FOUND: the view has no such generation. */
MUST_CHECK enum err folder_take_over(struct folder *f, struct error *e);

/* Write all that is marked, then store the positions of @count lanes, number 0 first. Takes over first where
 * that is due. */
MUST_CHECK enum err folder_fold(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e);
#endif
