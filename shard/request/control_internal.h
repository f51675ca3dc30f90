/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REQUEST_CONTROL_INTERNAL_H
#define SHARD_REQUEST_CONTROL_INTERNAL_H
/* What the parts of a control share: control.c (the view, and the order of all), control_writers.c (the
 * register of writers), control_lanes.c (lanes that broke, and where they are read from), control_shards.c
 * (generations, and their shards in memory), control_lost.c (shards that are missing in Redis),
 * control_grow.c (layers), control_fold.c (the lease, folding, and shards' nodes in another era),
 * control_idle.c (nobody asks), control_status.c (how it fares). */
#include "shard/request/control.h"
#include "shard/request/log_filter_internal.h"
#include "shard/members/eras.h"
#include "shard/fold/due.h"
#include "shard/fold/folder.h"
#include "shard/generations/grow.h"
#include "shard/view/history.h"
#include "shard/members/remove.h"
#include "shard/fold/lag.h"
#include "shard/fold/lease.h"
#include "shard/fold/retain.h"
#include "shard/members/roll.h"

/* What a writer that does not answer holds up. */
enum control_wait { WAITS_FOR_NOTHING, WAITS_FOR_LANE, WAITS_FOR_SHARDS };

/* Whether another writer is still there: they are looked at one after the other, in rounds. */
struct control_removal {
    enum { REMOVES_NOBODY, REMOVES_IN_DOUBT, REMOVES_WHEN_FOLDED } step;
    unsigned next;            /* of the view's writers */
    uint64_t since, round_at; /* the step began; the next round does */
    struct removal it;
};

struct control_lane {
    struct lane stream;              /* the view's */
    struct replication filter_state; /* its node, under the era that a view had; id 0: not seen */
    struct retain retain;
    struct lag lag;
};

struct control {
    struct log_filter *filter;
    struct sync_client *redis;
    unsigned timeout_ms;
    uint32_t shard_bytes;
    uint64_t retain_us, log_max, fold_interval_us, look_interval_us;
    double growth;
    uint64_t awaited_since; /* a lane waits for a layer that the view has not; 0: none does */
    uint64_t grew;          /* the generation that this process has added the newest layer to */
    uint64_t rest_us, resident_idle_us, dear_bytes, tailed_at; /* the lanes were read last for what is dear */
    _Atomic bool folds;
    bool leaves;
    bool rests;               /* nothing is sent until filter->rests is taken back, or the time has come */
    bool leaving;             /* the register is to be left, and no add is let in until it was */
    bool lacks_shards;        /* this process has not all lost ones in memory */
    bool is_new;              /* blocks are not read by the latest view yet */
    bool vouched;             /* since the look began: the registries name the view's incarnation, */
    uint64_t vouched_history; /* and this as its last history */
    struct history_seen histories; /* of the last view */
    bool went_back;                /* a later one had been seen: what is in Redis is older than what was */
    bool wrote_back;               /* and was written since, which the view knows */
    uint64_t back_eras;            /* control_eras_sum() of the view that went back */
    bool is_full;                  /* not all shards of the generation that is read have room in memory */
    bool is_behind; /* the readers went back, and nothing was read since: what is not folded is not known */
    unsigned failures;         /* calls that failed, one after the other */
    uint64_t looked_at, looks; /* when the view was read last, how often */
    uint64_t answered_at;      /* those who doubt that this process is there, between shards that it writes */
    struct control_thread *thread;
    struct log_view *view; /* the thread's: this control's while it is tended */
    struct buffer kept;    /* the view's fields, in between */
    unsigned lane_room;    /* of the next: the most lanes that a view had */
    struct control_lane *per_lane;
    struct log_lane lane[LOG_LANES_MAX]; /* what the readers read */
    struct roll roll;
    struct log_lane known_lane[LOG_LANES_MAX]; /* of the latest view, */
    struct log_writer *known;                  /* its writers */
    unsigned known_lanes, known_count, left_count;
    uint64_t entered; /* the number of the registration that this process' entries are met under */
    struct control_removal removal;
    uint64_t writer_grace_us;
    enum control_wait waits;
    struct log_position *at, *position; /* of each lane, storage; the thread's */
    uint64_t version;                   /* of the latest view that was seen */
    struct folding {
        struct held *held; /* whose folder it is; NULL: none */
        struct folder folder;
    } folding[2]; /* by slot: of the generation that is read, and of the one before it while that may be read
                     again */
    struct eras eras;    /* of the shards' nodes */
    uint64_t eras_since; /* since when they are not those of the view; 0: they are */
    /* All that these writers had added before they left is in memory, in the generation; 0: it may not be. */
    uint64_t knows_left;
    struct log_left left[LOG_LEFT_MAX]; /* left_count */
    struct lease lease;
    struct lease_report report;
    struct log_id folded_to[LOG_LANES_MAX]; /* by this process, since the lanes are read */
    uint64_t folded_at, oldest; /* the end of the last fold; when something came behind it, 0: nothing */
    uint64_t fold_next;         /* when there may be something to do for whoever folds */
    uint64_t active_at;         /* when something was to be folded last */
    unsigned fold_failures;     /* one after the other */
    unsigned lost_named;
    struct log_lost lost;            /* of the view: shards are missing in Redis; generation 0: none are */
    uint64_t lost_since, lost_again; /* since when it says so; when they are to be looked for again */
    uint64_t lost_count;             /* as they were found then, and the first lost_named of them */
    struct log_lost lost_shard[LOST_NAMED_MAX];
    uint64_t measured_at, measured_entries; /* when, and how many had been applied */
    uint64_t lane_bytes[LOG_LANES_MAX];     /* of the lanes in Redis */
    pthread_mutex_t noting;
    struct log_status noted; /* under the lock, as the next: what only this thread knows */
    struct lag_count noted_folded[LOG_LANES_MAX];
};

/* --- control.c --- */
MUST_CHECK enum err control_load_view(struct control *c, struct error *e);

/* --- control_writers.c --- */
/* Read the view, in which this process is registered if it may append, and which has all writers of the
 * latest one. */
MUST_CHECK enum err control_read_view(struct control *c, struct error *e);
void control_set_registered(struct log_filter *f, bool registered);
/* Entries of this process are not folded, and it leaves. */
MUST_CHECK enum err control_ask_to_fold(struct control *c, struct error *e);
/* Register again if another process doubts that this one is there. The view is not read while shards are
 * written, which may take long. */
MUST_CHECK enum err control_answer_doubt(struct control *c, struct error *e);
/* See whether other writers are there, and remove those that are not. *@soon: the view has changed. */
MUST_CHECK enum err control_remove_gone(struct control *c, bool *soon, struct error *e);
/* --- control_status.c --- */
/* Note what control_status() says, behind a call that ended with @code. */
void control_note(struct control *c, enum err code, const struct error *e);

/* --- control_lanes.c --- */
/* Lanes that are lost, or in another era. *@again: the view has changed. */
MUST_CHECK enum err control_mend_lanes(struct control *c, bool *again, struct error *e);
/* The readers read the lanes that the view has, and none has stalled. */
bool control_lanes_are_as_read(const struct control *c);
/* Read the lanes that the view has: from where the readers are, if these lanes go on from the ones that they
 * read; else again, from `folded` of the view. */
MUST_CHECK enum err control_read_lanes(struct control *c, struct error *e);
/* See what the lanes' nodes are while they are in the eras of the view. */
void control_watch_lanes(struct control *c);
void control_stop_readers(struct control *c);
typedef void control_move_fn(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* Have the readers go on from c->at, in the lanes that the view has. */
void control_move_readers(struct control *c, control_move_fn *move);

/* --- control_grow.c --- */
/* The view went back behind layers that this process has: it gets them again, and is read again. */
MUST_CHECK enum err control_put_back_layers(struct control *c, struct error *e);
/* Lanes that wait for a layer go on, if it is known by now. If the view does not have it, it went back, and
 * gets it again. *@soon: come again at once. */
MUST_CHECK enum err control_resume_lanes(struct control *c, bool *soon, struct error *e);
/* Have the newest layer begin in the lanes where it has not; and if the generation is full, make the next
 * one, or mark the lanes. *@soon: come again at once. */
MUST_CHECK enum err control_grow(struct control *c, bool *soon, struct error *e);
/* What comes before that failed with @code: if a node is away, those who wait for a layer go on without. */
void control_cannot_grow(struct control *c, enum err code);

/* --- control_shards.c --- */
/* What this process holds of the generation that the view has in @slot; NULL: nothing. */
struct held *control_held_of(const struct control *c, unsigned slot);
/* Of the generation in @slot: positions behind which the log has all that the shards may lack. */
MUST_CHECK enum err control_base_of(const struct control *c, unsigned slot, struct log_position *at,
                                    struct error *e);
/* Hold what the view has, its lanes being read again. c->at goes back to what all of it needs. */
MUST_CHECK enum err control_hold_again(struct control *c, struct error *e);
/* Hold the generation in @slot beside the one that answers, with what the readers have applied behind its
 * base. What came meanwhile they go back for; what the other one has already is not applied to it again. */
MUST_CHECK enum err control_hold_beside(struct control *c, unsigned slot, struct error *e);
/* The other generation was read before, and may be read again. */
bool control_is_in_grace(const struct control *c);
/* Lanes that wait for a layer go on, if the view has it: whatever reads the tails fails until then. */
MUST_CHECK enum err control_take_layers(struct control *c, struct error *e);
/* Hold the current generation, and load its shards. *@soon: there are more. */
MUST_CHECK enum err control_follow_generations(struct control *c, bool *soon, struct error *e);
/* Where all shards are in memory, have all keys counted. What fails is tried again by the next call. */
void control_count_loaded(struct control *c);
/* An error of loading that says something of single shards: others can be loaded, and folded. */
bool control_is_of_shards(enum err code);
/* Load some shards that are not in memory. *@full: there is no room for them; *@more: there are more. */
MUST_CHECK enum err control_load_some(struct control *c, struct held *h, bool *full, bool *more,
                                      struct error *e);
/* Have what Redis has, under @token and the ids that eras_look() found, in those shards of the generation
 * that is read which are to be loaded again, and still are then: what other writers have yet to write under
 * these ids is not there. Model: WHOLE_WHEN_WRITTEN of left.pml. @arg: the control. */
MUST_CHECK enum err control_join(void *arg, const struct writer_token *token, struct error *e);

/* --- control_lost.c --- */
/* Say in the view which shards were missed; make those again that are missing and in memory. */
MUST_CHECK enum err control_mend_shards(struct control *c, struct error *e);
/* Shards are lost that others may have in memory, and make again when they read the view: folding would take
 * their tokens from them. */
bool control_waits_for_shards(const struct control *c);
/* Draw a token with @fold, which the caller ends in any case, and make again those shards of @h that are
 * missing and in memory. *@missing: the others. @again: their nodes may have lost bits, and shards that are
 * to be loaded again are written, too. */
MUST_CHECK enum err control_make_missing(struct control *c, struct held *h, const struct log_lost *named,
                                         bool again, struct fold *fold, uint64_t *missing, struct error *e);

/* --- control_idle.c --- */
/* True: the control rests, until *@next or a request. */
bool control_rests(struct control *c, uint64_t *next);
/* Rest from now on, if that may be. *@next: as control_tend() gives it; it comes nearer, or where the control
 * rests further away. */
void control_rest(struct control *c, uint64_t *next);
/* Entries of this process are not known to be folded. */
bool control_keeps_any(const struct log_filter *f);
/* Somebody has asked of late, so that shards are loaded. */
bool control_wants_memory(const struct control *c);

/* --- control_fold.c --- */
/* Between shards that are written: the lease is renewed, and who doubts is answered. @arg: the control. */
MUST_CHECK enum err control_tend_writing(void *arg, struct error *e);
/* Apply all that the lanes have now. ERR_BUSY: one of them has stalled. */
MUST_CHECK enum err control_read_tails(struct control *c, struct error *e);
MUST_CHECK enum err control_fold(struct control *c, struct error *e);
/* Take the lease and fold, if that is due; else see how long the lanes are. c->fold_next: when to come again.
 */
MUST_CHECK enum err control_fold_if_due(struct control *c, struct error *e);
void control_stop_folding(struct control *c);
/* That of the generation in @slot alone. */
void control_stop_folding_of(struct control *c, unsigned slot);
/* The lanes are read from `folded` of the view on, and their readers stand there. */
void control_begin_lag(struct control *c);
/* What was applied of a lane. Any thread. */
struct lag_count control_count(const struct filter_lane *l);
/* The shards' nodes may have other replication ids than the view accepts (eras.h). */
MUST_CHECK enum err control_follow_eras(struct control *c, struct error *e);
/* Tells what replication ids of the shards' nodes a view accepts from what another one does. */
uint64_t control_eras_sum(const struct log_view *v);
/* Where all shards are in memory, have there, too, what those had added who have left. What fails is tried
 * again by the next call. */
void control_know_left(struct control *c);
#endif
