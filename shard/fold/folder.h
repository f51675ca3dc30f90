/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FOLDER_H
#define SHARD_FOLD_FOLDER_H
/* The folder of one generation: it writes what of its shards differs from Redis, and stores up to where of
 * each lane Redis has every entry. Blocking; one thread, while others look up, apply, and have shards come
 * and go.
 *
 * The happy path is: take over once; then, when it is due (due.h), note the positions, fold, trim
 * (retain.h). Possible failure modes are: another one takes over (ERR_FENCED); a connection breaks, and what
 * was sent on it may still be executed (any other error but ERR_CONFLICT): the next folder_fold() takes over
 * first, by which it finds what was not written; a shard is missing or is something else (fold_is_lost()):
 * the others are folded all the same, no position is stored, and it is looked at again at the next fold.
 *
 * How a shard is folded, by what it was in this process's memory from the positions on:
 *
 *   whole all the time    by its marks (dirty.h), once it was read under the token: else its pages could
 *                         overwrite what another one wrote
 *   not whole at some     by the keys that the overlay has of it, block by block: read under the token,
 *   time                  completed, written. The overlay has all that Redis may lack: it gets every entry
 *                         while the shard is not resident, and a shard ends to leave only when `folded` has
 *                         passed what was applied before (resident_leave_end())
 *
 * So each fold ends, and stores its positions, however shards come and go meanwhile.
 *
 * The caller holds the folder's lease of the filter: two without it would take over from each other for ever.
 * It guards nothing. Whoever goes on after its lease has expired is fenced by tokens: of shards whose headers
 * have the other one's token it writes nothing, of those that have its own still it writes what is true and
 * is read by the other one later, and its positions are refused. Nothing is lost, and nothing need be undone;
 * what remains unwritten is in the lane. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/redis/nodes/nodes.h"
#include "shard/resident/resident.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

enum folder_state {
    FOLDER_FOREIGN, /* its header may have another token */
    FOLDER_ENTERED, /* it has the token; memory may lack what others wrote before */
    FOLDER_JOINED   /* if it is whole in memory, memory has that too */
};

struct folder_shard {
    uint32_t stamp; /* when this fold began; 0: it is not folded by its marks */
    uint8_t state;  /* enum folder_state */
};

/* Called between shards, at least once for each: to renew a lease. What it returns but ERR_OK ends the fold.
 */
typedef enum err folder_tend_fn(void *arg, struct error *e);

/* How many keys the generation had, and where in each of @lanes lanes: nothing is in memory from behind
 * there. False: that is not known. */
struct folder;
typedef bool folder_count_fn(void *arg, const struct folder *f, struct log_counted *at, unsigned lanes,
                             uint64_t *keys);

struct folder {
    struct fold fold;
    /* The caller may set these; NULL: nothing is called. */
    folder_tend_fn *tend;
    /* Called between reading what others wrote into a shard and having it in memory: apply all that the lanes
     * have now. Else an entry that another process has folded before this one applied it would look old, and
     * nobody be told that its keys are new. */
    folder_tend_fn *catch_up;
    /* Called between copying pages and sending them. Else keys that are in pages look old to who loads later,
     * and where the folder ends before it has stored how many there are nobody counts them. */
    folder_count_fn *count;
    void *tend_arg;
    struct log_id told[LOG_LANES_MAX]; /* of the caller: up to there the view has counted the keys */
    struct resident *resident;         /* borrowed, as the shape is */
    const struct generation *shape;    /* of the view; it may gain layers between folds, as memory does */
    struct placement placement;
    uint16_t tag;
    bool took_over;                        /* a token was drawn, and every shard was looked at */
    struct log_id stored[LOG_LANES_MAX];   /* entries up to there are in all shards */
    unsigned layers;                       /* that @shards has; there may be more by now */
    struct folder_shard *shards;           /* those of layer 0, then those of the next */
    uint64_t first[GENERATION_LAYERS_MAX]; /* of each layer, among them */
    bool counted;                          /* in this fold the keys were stored before the pages */
    unsigned lost;                         /* shards, in this fold */
    enum err lost_code;                    /* of the first one */
    struct log_lost lost_shard;            /* one that is missing; generation 0: none is */
    struct error lost_why;
};

/* How far the applier of a lane was when folding began: noted before anything is copied, and before
 * folder_fold() waits for entries that are being applied. */
struct folder_lane {
    uint64_t number; /* of its stream */
    uint64_t era;    /* that the position was read under */
    struct log_position position;
    unsigned layers; /* that had begun there */
    uint64_t keys; /* of the last lane: of the generation, at all positions; without resident->folded_keys */
    bool is_long;  /* retain_is_long() */
    bool is_full;  /* a full mark was met that the view does not have (full.h) */
    struct log_id mark;
    struct fold_bound needed, over_hold; /* out: as fold_store() */
};

/* ERR_CONFIG: the generation lies on nodes that are not configured. ERR_RANGE: it has no shards. ERR_NOMEM.
 */
MUST_CHECK enum err folder_init(struct folder *f, struct sync_client *l, const struct names *names,
                                const struct generation *shape, struct resident *resident, struct error *e);
void folder_fini(struct folder *f);

/* Draw a token that is later than those of all shards, and enter it into their headers, whichever way they
 * will be written. Errors as below. */
MUST_CHECK enum err folder_take_over(struct folder *f, struct error *e);

/* Write all that Redis lacks of the entries up to the positions of @count lanes, all there are, number 0
 * first; then store these positions. Takes over first where that is due. ERR_FENCED; ERR_NOT_FOUND: the view
 * has no such generation; as fold_is_lost(); ERR_CONFLICT: memory has other layers than the shape, or other
 * lanes. */
MUST_CHECK enum err folder_fold(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e);
/* How many of the overlay's keys behind @from, up to @to, set a bit that neither Redis nor an earlier key
 * has: those that were applied while their shards were loaded. Nothing is written, and no token is needed. As
 * fold_is_lost(); ERR_NOMEM. */
MUST_CHECK enum err folder_count(struct folder *f, const struct log_id *from, const struct log_id *to,
                                 uint64_t *keys, struct error *e);
#endif
