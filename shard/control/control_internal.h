/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CONTROL_CONTROL_INTERNAL_H
#define SHARD_CONTROL_CONTROL_INTERNAL_H
/* What the parts of a control share: control.c (the view, and the order of all), control_writers.c (the
 * register of writers), control_lanes.c (lanes that broke, and where they are read from),
 * control_generations.c (generations that are held), control_shards.c (their shards in memory),
 * control_lost.c (shards that are missing in Redis), control_grow.c (layers), control_fold.c (the lease, and
 * folding), control_eras.c (shards' nodes in another era), control_status.c (status). */
#include "shard/control/control.h"
#include "shard/request/log_filter_state.h"
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

/* What is waiting for a writer that does not answer. */
enum control_wait { WAITS_FOR_NOTHING, WAITS_FOR_LANE, WAITS_FOR_SHARDS };

enum { DOUBTS_MAX = 8 }; /* at a time */

/* A writer that this process has put in doubt. */
struct control_doubt {
    uint8_t writer[LOG_WRITER_BYTES];
    uint64_t registration, since;
};

/* The check of other writers, in rounds: one is put in doubt in each look, so that one that lives has
 * answered before the next. Who is gone is removed one after the other. */
struct control_removal {
    unsigned next;     /* index in the view's writers */
    uint64_t round_at; /* when the next round begins */
    unsigned doubts;   /* who has not answered, first who was doubted first */
    struct control_doubt doubt[DOUBTS_MAX];
    bool begun; /* @it, of the first doubt, is in the lanes, and not folded yet */
    struct removal it;
};

struct control_lane {
    struct lane stream;              /* as in the view */
    struct replication filter_state; /* the lane's node, while the view had its era; id 0: not seen yet */
    uint64_t node_id;                /* of the lane's node by the last look at all masters; 0: not known */
    struct retain retain;
    struct lag lag;
    struct log_id gap;         /* a position of the view that was not in the lane */
    uint64_t gap_since;        /* since when; 0: none was met */
    bool waits;                /* it could not be mended by this look: for other writers, for its node, ... */
    struct log_counted folded; /* the latest position of a view, and */
    uint64_t folded_of;        /* of which generation; 0: none */
};

struct control {
    struct log_filter *filter;
    struct sync_client *redis;
    unsigned timeout_ms;
    uint64_t retain_us, log_max, fold_interval_us, look_interval_us;
    uint64_t awaited_since; /* since when a lane waits for a layer that the view does not have; 0: none
                             * does */
    uint64_t grew;          /* the generation to which this process has added the newest layer */
    _Atomic bool folds;     /* may take the folder's lease; tests change it, from any thread */
    bool leaves;
    bool lacks_shards;        /* this process cannot make all lost shards again, and has said so */
    bool has_shards;          /* it has them in memory, but something else has their names */
    bool is_new;              /* block reads do not use the latest view yet */
    bool vouched;             /* the last look has asked the registries: they name no later incarnation */
    uint64_t vouched_history; /* if @vouched: the last history of the view, which they name, too */
    struct history_seen histories; /* of the last view */
    uint64_t back_eras;            /* control_eras_sum() of the view that went back */
    bool went_back;                /* a later view had been seen: Redis is older than it was */
    bool writes_again;  /* whatever the view says that this process has written, the shards may lack it: the
                         * view went back, or one was lost since */
    bool meets_foreign; /* somebody else's key lies where a shard was: not all can be written */
    bool is_full;       /* memory has no room for all shards of the current generation */
    bool is_behind;     /* the readers went back, and read nothing since: what is not folded is unknown */
    unsigned failures;  /* consecutive calls that failed */
    uint64_t looked_at, looks; /* when the view was last loaded; how often */
    struct {
        unsigned user;    /* of the client, for which replies were asked ahead; 0: none were */
        uint64_t at;      /* when they were: no later than that the view is read */
        uint64_t look;    /* the number of the look */
        uint64_t notices; /* the filter's, by then */
        uint32_t moves;   /* cluster_moves(), by then */
        bool has_moves;   /* for the first look at the masters */
    } ahead;
    uint64_t answered_at; /* when a doubt about this process was last answered while it wrote shards */
    struct control_thread *thread;
    struct log_view *view; /* the thread's; holds this control's view while it is tended */
    struct buffer kept;    /* the view's fields, between calls */
    unsigned lane_room;    /* of @per_lane: the most lanes that a view had */
    struct control_lane *per_lane;
    struct log_lane lane[LOG_LANES_MAX]; /* what the readers read */
    struct roll roll;
    struct log_lane known_lane[LOG_LANES_MAX]; /* the lanes of the latest view */
    struct log_writer *known;                  /* the writers of the latest view */
    unsigned known_lanes, known_count, left_count;
    enum control_wait waits;
    uint64_t entered; /* the registration under which this process's entries are met */
    struct control_removal removal;
    uint64_t writer_grace_us;
    struct log_position *at, *position; /* scratch, one for each lane; the thread's */
    uint64_t version;                   /* of the latest view that was seen */
    uint64_t notices, terms; /* the filter's `notices` before the view was loaded; the number of its terms */
    uint64_t fenced_version; /* of the view when a shard had a later token; 0: none had */
    struct folding {
        struct held *held; /* the folder's generation; NULL: there is no folder */
        struct folder folder;
    } folding[2];     /* by slot: of the current generation, and of the former one during its time of grace */
    struct eras eras; /* of the shards' nodes */
    uint64_t eras_since; /* since when they are not those of the view; 0: they are */
    bool wrote_all; /* this process has written all shards for the ids that the view lacks, and said so */
    /* The generation whose memory has all that the writers in @left had added before they left; 0: none. */
    uint64_t knows_left;
    struct log_left left[LOG_LEFT_MAX]; /* the first @left_count are set */
    struct lease lease;
    struct lease_report report;
    struct log_id folded_to[LOG_LANES_MAX]; /* where this process has folded to since it reads the lanes */
    uint64_t folded_at, oldest; /* when the last fold ended; when the oldest later entry came, 0: none */
    uint64_t fold_next;         /* when there may be something to fold */
    uint64_t active_at;         /* when there was last something to fold */
    unsigned fold_failures;     /* consecutive failures */
    unsigned lost_named;
    struct log_lost lost;            /* by the view: shards are missing in Redis; generation 0: none are */
    uint64_t lost_since, lost_again; /* since when the view says so; when to look for them again */
    uint64_t lost_count;             /* the number found then, and the first lost_named of them */
    struct log_lost lost_shard[LOST_NAMED_MAX];
    uint64_t measured_at, measured_entries; /* when the lanes were measured; entries applied by then */
    uint64_t lane_bytes[LOG_LANES_MAX];     /* of each lane in Redis */
    pthread_mutex_t noting;
    struct log_status noted; /* guarded by @noting, like the next: what only this thread knows */
    struct lag_count noted_folded[LOG_LANES_MAX];
};

/* --- control.c --- */
MUST_CHECK enum err control_load_view(struct control *c, struct error *e);
/* The view's current generation has been folded up to @id. */
void control_note_folded(struct control *c, unsigned lane, struct log_id id);

/* --- control_writers.c --- */
/* Load the view. Registers this process, if it may append, and enters the writers of the former view that are
 * missing. */
MUST_CHECK enum err control_read_view(struct control *c, struct error *e);
void control_set_registered(struct log_filter *f, bool registered);
/* This process is about to leave, and some of its entries are not folded: ask the folder to hurry. */
MUST_CHECK enum err control_ask_to_fold(struct control *c, struct error *e);
/* Register again if another process doubts this one. Shards may take long to write, and meanwhile the view is
 * not loaded. */
MUST_CHECK enum err control_answer_doubt(struct control *c, struct error *e);
/* Check other writers, and remove those that are gone. *@soon: the view has changed. */
MUST_CHECK enum err control_remove_gone(struct control *c, bool *soon, struct error *e);
/* --- control_status.c --- */
/* Note the status after a call that ended with @code. */
void control_note(struct control *c, enum err code, const struct error *e);

/* --- control_lanes.c --- */
/* Mend lanes that are lost, or in another era, each whatever comes of the others. *@again: the view has
 * changed. ERR_BUSY: the roll calls of some lanes wait for other writers. */
MUST_CHECK enum err control_mend_lanes(struct control *c, bool *again, struct error *e);
/* True if the readers read the view's lanes, and none has stalled, but for those that wait to be mended;
 * after a look that ended well there are none. */
bool control_lanes_are_as_read(const struct control *c);
/* Let the readers read the view's lanes: from where they are, if these lanes go on from those that they read;
 * else again, from `folded` of the view. */
MUST_CHECK enum err control_read_lanes(struct control *c, struct error *e);
/* Note the state of the lanes' nodes, while they are in the eras of the view. */
void control_watch_lanes(struct control *c);
void control_stop_readers(struct control *c);
typedef void control_move_fn(struct lane_reader *r, const struct lane *lane, const struct log_position *at);
/* Let the readers go on from c->at, in the view's lanes. */
void control_move_readers(struct control *c, control_move_fn *move);

/* --- control_grow.c --- */
/* If the view lacks layers that this process has, it went back: put them back, and load it again. */
MUST_CHECK enum err control_put_back_layers(struct control *c, struct error *e);
/* Let lanes that wait for a layer go on, if it is known by now. If the view does not have it, the view went
 * back, and gets it again. *@soon: call again at once. */
MUST_CHECK enum err control_resume_lanes(struct control *c, bool *soon, struct error *e);
/* Let the newest layer begin in the lanes where it has not; if the generation is full, make the next layer,
 * or mark the lanes. *@soon: call again at once. */
MUST_CHECK enum err control_grow(struct control *c, bool *soon, struct error *e);
/* An earlier step failed with @code: if a node is down, let adds that wait for a layer go on without it. */
void control_cannot_grow(struct control *c, enum err code);

/* --- control_generations.c --- */
/* What this process holds of the view's generation in @slot; NULL: nothing. */
struct held *control_held_of(const struct control *c, unsigned slot);
/* The positions behind which the log has all that the shards of the generation in @slot may lack. */
MUST_CHECK enum err control_base_of(const struct control *c, unsigned slot, struct log_position *at,
                                    struct error *e);
/* Hold the view's generations while its lanes are read again. c->at goes back to what they need. @stays: this
 * process was a registered writer all the time, so if the lanes lost anything, it is asked for its memory. */
MUST_CHECK enum err control_hold_again(struct control *c, bool stays, struct error *e);
/* Hold the generation in @slot beside the one that answers, with the entries that the readers have applied
 * behind its base. The readers go back for those that came meanwhile; these are not applied twice to the
 * other generation. */
MUST_CHECK enum err control_hold_beside(struct control *c, unsigned slot, struct error *e);
/* Begin a term in which adds of keys that are there need no entry, or end it, by the view that was loaded. */
void control_tell_term(struct control *c);
/* True if the other generation was current, and may become so again. */
bool control_is_in_grace(const struct control *c);
/* Let lanes that wait for a layer go on, if the view has it: until then every read of the tails fails. */
MUST_CHECK enum err control_take_layers(struct control *c, struct error *e);
/* Hold the current generation, and load its shards. *@soon: there are more. */
MUST_CHECK enum err control_follow_generations(struct control *c, bool *soon, struct error *e);
/* The number of shards that are not whole in memory. */
uint64_t control_missing_shards(const struct held *h);
/* If all shards are in memory, let all keys be counted. After a failure the next call tries again. */
void control_count_loaded(struct control *c);
/* --- control_shards.c --- */
/* True if an error of loading is about single shards: others can be loaded and folded. */
bool control_is_of_shards(enum err code);
/* Load some shards that are not in memory. *@full: there is no room for more; *@more: there are more. */
MUST_CHECK enum err control_load_some(struct control *c, struct held *h, bool *full, bool *more,
                                      struct error *e);
/* For shards of the current generation that must be loaded again: get what Redis has of them, under @token
 * and the ids that eras_look() found, into memory. They still must be loaded again afterwards: what other
 * writers have yet to write under these ids is missing. Model: WHOLE_WHEN_WRITTEN of left.pml. @arg: the
 * control. */
MUST_CHECK enum err control_join(void *arg, const struct writer_token *token, struct error *e);

/* --- control_lost.c --- */
/* How long to wait for other processes that may have in memory what this one has not, also for those that are
 * no writers and seldom load the view. */
uint64_t control_wait_us(const struct control *c);
/* Say in the view which shards were missed; make those again that are missing and in memory. */
MUST_CHECK enum err control_mend_shards(struct control *c, struct error *e);
/* True if shards are lost that other processes may have in memory, and make again when they load the view: a
 * fold would take their tokens away. */
bool control_waits_for_shards(const struct control *c);
/* Draw a token with @fold, which the caller always ends, and make those shards of @h again that are missing
 * and in memory. *@missing: the number of the others. @again: their nodes may have lost bits, so shards that
 * must be loaded again are written, too. */
MUST_CHECK enum err control_make_missing(struct control *c, struct held *h, const struct log_lost *named,
                                         bool again, struct fold *fold, uint64_t *missing, struct error *e);

/* --- control_fold.c --- */
/* Called between shards that are written: renew the lease, and answer doubts. @arg: the control. */
MUST_CHECK enum err control_tend_writing(void *arg, struct error *e);
/* Apply all that the lanes have now. ERR_BUSY: a lane has stalled. @arg: the control. */
MUST_CHECK enum err control_read_tails(void *arg, struct error *e);
/* Make c->folding[@slot] the folder of @h, unless it is. */
MUST_CHECK enum err control_begin_folding(struct control *c, unsigned slot, struct held *h, struct error *e);
MUST_CHECK enum err control_fold(struct control *c, struct error *e);
/* Take the lease and fold, if that is due; measure the lanes. c->fold_next: when to call again. */
MUST_CHECK enum err control_fold_if_due(struct control *c, struct error *e);
void control_stop_folding(struct control *c);
/* Stop the folding of the generation in @slot only. */
void control_stop_folding_of(struct control *c, unsigned slot);
/* Begin to count what is not folded. The readers of the lanes stand at the view's `folded`. */
void control_begin_lag(struct control *c);
/* What was applied of a lane. Any thread. */
struct lag_count control_count(const struct filter_lane *l);

/* --- control_eras.c --- */
/* How many slots are known to have moved; 0 for a list of nodes. */
uint32_t control_moves(const struct control *c);
/* eras_look(). Where the view accepts all masters, blocks of slots that moved before count. Model: moved.pml.
 */
MUST_CHECK enum err control_look_at_masters(struct control *c, enum eras_action *out, struct error *e);
/* Act if the shards' nodes have replication ids that the view does not accept (eras.h). */
MUST_CHECK enum err control_follow_eras(struct control *c, struct error *e);
/* Shards on other nodes did not go back with the view: they have tokens of later writers, and are not read
 * until the view has a token that is later still. Draw one. ERR_BUSY: done, load the view again. */
MUST_CHECK enum err control_take_over(struct control *c, struct held *h, struct error *e);
/* True if this process must not register as a writer yet: shards' nodes have ids that the view does not
 * accept, and it has not all shards in memory. A writer that says so has the filter degraded, whatever others
 * have. */
bool control_waits_to_register(struct control *c);
/* A number that differs between views which accept different replication ids. */
uint64_t control_eras_sum(const struct log_view *v);
/* If all shards are in memory, get what former writers had added there, too. After a failure the next call
 * tries again. */
void control_know_left(struct control *c);
#endif
