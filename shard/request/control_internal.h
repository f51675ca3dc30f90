/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_CONTROL_INTERNAL_H
#define SHARD_REQUEST_CONTROL_INTERNAL_H
/* What the parts of a control share: control.c (the view, the register of writers, and the order of all),
 * control_lanes.c (lanes that broke, and where they are read from), control_shards.c (generations, and their
 * shards in memory), control_lost.c (shards that are missing in Redis), control_fold.c (folding, and shards'
 * nodes in another era). */
#include "shard/request/control.h"
#include "shard/request/log_filter_internal.h"
#include "shard/view/eras.h"
#include "shard/view/due.h"
#include "shard/view/folder.h"
#include "shard/view/retain.h"
#include "shard/view/roll.h"

struct control {
    struct log_filter *filter;
    struct link *link;
    unsigned timeout_ms;
    uint64_t retain_us, log_max, fold_interval_us;
    _Atomic bool folds;
    struct log_view *view;
    struct lane stream[LOG_LANES_MAX];   /* its lanes */
    struct log_lane lane[LOG_LANES_MAX]; /* what the readers read */
    struct roll roll;
    bool registers;                     /* this process was registered behind the view that was read last */
    struct log_position *at, *position; /* of each lane, storage */
    uint64_t version;                   /* of the latest view that was seen */
    bool is_new;                        /* blocks are not read by it yet */
    bool went_back;          /* a later one had been seen: what is in Redis is older than what was */
    struct event_base *base; /* of its own tail reads */
    struct store *store;
    struct lane_port *port;
    struct held *folding; /* whose folder it is; NULL: none */
    struct folder folder;
    struct eras eras; /* of the shards' nodes */
    struct retain retain[LOG_LANES_MAX];
    uint64_t folded_at, oldest; /* the end of the last fold; when something came behind it, 0: nothing */
    uint64_t folded_bytes[LOG_LANES_MAX]; /* of filter_lane's, up to where the last fold went */
    struct log_lost lost;           /* of the view: shards are missing in Redis; generation 0: none are */
    uint64_t lost_since, looked_at; /* since when it says so; when they were looked for */
    bool lacks_shards;              /* this process has not all of them in memory */
    uint64_t measured_at, lane_bytes[LOG_LANES_MAX]; /* of the lanes in Redis */
};

/* --- control.c --- */
MUST_CHECK enum err control_load_view(struct control *c, struct error *e);

/* --- control_lanes.c --- */
/* Lanes that are lost, or in another era. *@again: the view has changed. */
MUST_CHECK enum err control_mend_lanes(struct control *c, bool *again, struct error *e);
/* The readers read the lanes that the view has, and none has stalled. */
bool control_lanes_are_as_read(const struct control *c);
/* Read the lanes again, from `folded` of the view. */
MUST_CHECK enum err control_begin_again(struct control *c, struct error *e);
void control_stop_readers(struct control *c);
typedef void control_move_fn(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* Have the readers go on from c->at, in the lanes that the view has. */
void control_move_readers(struct control *c, control_move_fn *move);

/* --- control_shards.c --- */
/* What this process holds of the generation that the view has in @slot; NULL: nothing. */
struct held *control_held_of(const struct control *c, unsigned slot);
/* Of the generation in @slot: positions behind which the log has all that the shards may lack. */
MUST_CHECK enum err control_base_of(const struct control *c, unsigned slot, struct log_position *at,
                                    struct error *e);
/* Hold what the view has, its lanes being read again. c->at goes back to what all of it needs. */
MUST_CHECK enum err control_hold_again(struct control *c, struct error *e);
/* Hold the current generation, and load its shards. *@soon: there are more. */
MUST_CHECK enum err control_follow_generations(struct control *c, bool *soon, struct error *e);
/* Load some shards that are not in memory. *@full: there is no room for them; *@more: there are more. */
MUST_CHECK enum err control_load_some(struct control *c, struct held *h, const struct trusted *eras,
                                      bool *full, bool *more, struct error *e);

/* --- control_lost.c --- */
/* Say in the view which shards were missed; make those again that are missing and in memory. */
MUST_CHECK enum err control_mend_shards(struct control *c, struct error *e);
/* Shards are lost that others may have in memory: folding would take their tokens from them. */
bool control_waits_for_shards(const struct control *c);
/* Draw a token with @fold, which the caller ends in any case, and make again those shards of @h that are
 * missing and in memory. *@missing: the others. */
MUST_CHECK enum err control_make_missing(struct control *c, struct held *h, const struct log_lost *named,
                                         struct fold *fold, uint64_t *missing, struct error *e);

/* --- control_fold.c --- */
/* Apply all that the lanes have now. */
MUST_CHECK enum err control_read_tails(struct control *c, struct error *e);
MUST_CHECK enum err control_fold(struct control *c, struct error *e);
MUST_CHECK enum err control_fold_if_due(struct control *c, struct error *e);
/* How long the lanes are, once a second: adds are refused while one has no room. */
MUST_CHECK enum err control_measure(struct control *c, struct error *e);
void control_stop_folding(struct control *c);
/* The shards' nodes may have other replication ids than the view accepts (eras.h). */
MUST_CHECK enum err control_follow_eras(struct control *c, struct error *e);
#endif
