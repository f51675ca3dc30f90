/* SPDX-License-Identifier: MIT */
#ifndef SHARD_FOLD_FOLDER_H
#define SHARD_FOLD_FOLDER_H
/* The folder of one generation: it writes those parts of its shards that differ from Redis, and stores up to
 * which position of each lane Redis has every entry. Blocking; one thread, while others look up, apply, and
 * load shards.
 *
 * The happy path is: take over once; then, when it is due (due.h), note the positions, fold, trim (retain.h).
 * Possible failure modes are: another folder takes over (ERR_FENCED). A connection breaks, and what was sent
 * over it may still be executed (any other error except ERR_CONFLICT): the next folder_fold() takes over
 * first, and thereby finds what was not written. A shard is missing or is something else (fold_is_lost()):
 * the other shards are folded, no position is stored, and the next fold looks at the shard again.
 *
 * How a shard is folded depends on its state in this process's memory from the positions on:
 *
 *   whole all the time    by its marks (dirty.h), once it was read under the token: otherwise its pages could
 *                         overwrite what another folder wrote
 *   not whole at some     by its keys in the overlay, block by block: read under the token, completed,
 *   time                  written. The overlay has all that Redis may lack: it gets every entry while the
 *                         shard is not resident
 *
 * So each fold ends, and stores its positions, however shards load meanwhile.
 *
 * The caller holds the filter's folder lease: two folders without it would take over from each other for
 * ever. The lease guards nothing. A folder that goes on after its lease has expired is fenced by tokens: it
 * writes nothing into shards whose headers have the other folder's token; what it writes into shards that
 * still have its own token is true, and the other folder reads it later; its positions are refused. Nothing
 * is lost, and nothing need be undone: what remains unwritten is in the lane. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/generation.h"
#include "shard/resident/resident.h"
#include "shard/fold/fold.h"
#include "shard/view/log_view.h"

enum folder_state {
    FOLDER_FOREIGN, /* the shard's header may have another token */
    FOLDER_ENTERED, /* the header has our token; memory may lack what others wrote before */
    FOLDER_JOINED   /* if the shard is whole in memory, memory has that, too */
};

struct folder_shard {
    uint32_t stamp; /* bitmap_stamp() when this fold began; 0: the shard is not folded by its marks */
    uint8_t state;  /* enum folder_state */
};

/* A script under way that writes into a shard. */
struct folder_script {
    unsigned layer;
    uint32_t shard;
    unsigned keys;           /* that count once it was executed */
    struct overlay_key some; /* one of them, which was not in the shard before */
};

enum { FOLDER_WINDOW = 8 };

/* Scripts under way, oldest first. */
struct folder_window {
    struct folder_script sent[FOLDER_WINDOW];
    unsigned first, count;
};

/* Called between shards, at least once for each: to renew a lease. An error ends the fold. */
typedef enum err folder_tend_fn(void *arg, struct error *e);

/* Give the number of keys of the generation, and the positions in each of @lanes lanes up to which they were
 * counted; memory has no entry from behind these positions. False: unknown. */
struct folder;
typedef bool folder_count_fn(void *arg, const struct folder *f, struct log_counted *at, unsigned lanes,
                             uint64_t *keys);

/* An error: what was written does not count. */
typedef enum err folder_check_fn(void *arg, const struct folder *f, struct error *e);

struct folder {
    struct fold fold;
    /* The caller may set these; NULL: nothing is called. */
    folder_tend_fn *tend;
    /* Called after reading what others wrote into a shard, and before that is joined with memory: apply all
     * that the lanes have now. Otherwise an entry that another process folded before this one applied it
     * would look old, and its keys would not count as new. */
    folder_tend_fn *catch_up;
    /* Called after copying pages, and before they are sent. Otherwise keys in these pages look old to a
     * process that loads later; and if the folder ends before it has stored their number, nobody counts
     * them. */
    folder_count_fn *count;
    /* Called behind the writes, before positions are stored. */
    folder_check_fn *check;
    void *tend_arg;
    bool is_kept; /* set by the caller: the generation is not read, so nobody makes a shard of it again */
    struct log_id told[LOG_LANES_MAX];   /* set by the caller: the view has counted the keys up to there */
    struct resident *resident;           /* borrowed, like the shape, which may gain layers between folds, as
                                          * memory does */
    bool drew;                           /* a token was drawn, and stands in no shard yet */
    bool took_over;                      /* a token was drawn, and every shard was looked at */
    struct log_id stored[LOG_LANES_MAX]; /* all shards have the entries up to there */
    unsigned layers;                     /* number of layers in @shards; the generation may have more by
                                          * now */
    struct folder_shard *shards;         /* those of layer 0, then those of layer 1, ... */
    uint64_t first[GENERATION_LAYERS_MAX]; /* index of each layer's first shard in @shards */
    struct folder_window window;           /* after a fold that failed: those whose replies did not come */
    bool counted;                          /* in this fold the number of keys was stored before the pages */
    unsigned lost;                         /* number of lost shards in this fold */
    enum err lost_code;                    /* of the first lost shard */
    struct log_lost lost_shard;            /* a shard that is missing, or with @is_kept has
                                            * its name taken; generation 0: none is */
    struct error lost_why;
};

/* How far the applier of a lane was when folding began. Note it before anything is copied, and before
 * folder_fold() waits for entries that are half applied. */
struct folder_lane {
    uint64_t number; /* of its stream */
    uint64_t era;    /* under which the position was read */
    struct log_position position;
    unsigned layers; /* number of layers that had begun there */
    uint64_t keys;   /* in the last lane: the generation's keys at all positions, without
                      * resident->folded_keys */
    bool is_long;    /* retain_is_long() */
    bool is_full;    /* a full mark was met that the view does not have (full.h) */
    struct log_id mark;
    struct fold_bound needed, over_hold; /* out: as fold_store() */
};

/* ERR_CONFIG: the generation lies on nodes that are not configured. ERR_RANGE: it has no shards.
 * ERR_NOMEM. */
MUST_CHECK enum err folder_init(struct folder *f, struct sync_client *l, const struct names *names,
                                const struct generation *shape, struct resident *resident, struct error *e);
void folder_fini(struct folder *f);

/* Draw the token that folder_take_over() would draw first. Entering it into thousands of shards takes
 * seconds, in which only who has read the view since it was drawn can read their blocks. Errors as below. */
MUST_CHECK enum err folder_draw(struct folder *f, struct error *e);
/* Draw a token that is later than those of all shards, and enter it into their headers, however they will be
 * written. Errors as below. */
MUST_CHECK enum err folder_take_over(struct folder *f, struct error *e);

/* Write all that Redis lacks of the entries up to the positions of all @count lanes, in order of their
 * numbers; then store these positions. Takes over first, if necessary. ERR_FENCED; ERR_NOT_FOUND: the view
 * does not have the generation; the errors of fold_is_lost(); ERR_CONFLICT: memory has other layers than the
 * shape, or other lanes. */
MUST_CHECK enum err folder_fold(struct folder *f, struct folder_lane *lanes, unsigned count, struct error *e);
/* Count the keys of the overlay behind @from, up to @to, that set a bit which neither Redis nor an earlier
 * key has: keys that were applied while their shards were loading. Writes nothing, and needs no token. The
 * errors of fold_is_lost(); ERR_NOMEM. */
MUST_CHECK enum err folder_count(struct folder *f, const struct log_id *from, const struct log_id *to,
                                 uint64_t *keys, struct error *e);
#endif
