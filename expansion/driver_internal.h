/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DRIVER_INTERNAL_H
#define EXPANSION_DRIVER_INTERNAL_H
/* What the files of the driver share: driver.c (loop, view changes), driver_open.c (to a new
 * generation in the view), driver_cutover.c (the switch to it, and back), driver_source.c (connections,
 * settle), driver_scan.c, driver_catch_up.c, driver_verify.c, driver_masters.c and
 * driver_heal.c (Redis masters that are others by now), driver_refill.c (shards that are lost), driver_pace.c
 * (how fast rows are read), driver_control.c (what happens between two pieces of work: an operator's
 * requests, layers that are full, progress), record.c (the job's record). */
#include "expansion/checkpoint.h"
#include "expansion/control.h"
#include "expansion/driver.h"
#include "expansion/layer.h"
#include "expansion/plan.h"
#include "expansion/step.h"
#include "expansion/tail.h"
#include "expansion/throttle.h"
#include "expansion/yield.h"
#include "migrate/build.h"
#include "migrate/fence_output.h"
#include "migrate/log_build.h"
#include "migrate/log_input.h"
#include "migrate/readers.h"
#include "migrate/scan.h"
#include "shard/fence.h"

/* Of the reading that fills lost shards. */
struct refill_progress {
    uint64_t began; /* 0: not yet */
    uint64_t rows, rows_total;
};

struct driver {
    const struct driver_options *o;
    struct mutex *mutex;
    struct link *link;
    uint64_t cutover_us; /* how long the switch took, until that is in the record; 0: it is, or none was */
    struct fence fence;
    struct view view;
    struct view next; /* scratch of a view change */
    struct source *source;
    struct source_part *parts; /* as driver_parts() last found them */
    size_t part_count;
    struct readers *readers; /* while they run */
    struct build *build;     /* while the scan lasts */
    /* Of a filter that is a log. */
    struct builder *builder;        /* of the generation that is being built */
    struct log_build *log_build;    /* keys on their way to it; its build is @build */
    struct key_client *client;      /* for keys of the generation that is read; NULL: none yet */
    struct log_view *log_view;      /* scratch; NULL: none yet */
    struct fence_output output;     /* of the build */
    unsigned layer;                 /* into which it goes */
    struct readers_progress before; /* of the scan, when its readers were started */
    uint64_t paced;                 /* rows of theirs that are counted */
    uint64_t progressed_at;         /* when readers last had a page */
    struct record record;
    struct plan plan;
    struct placement on; /* nodes of the plan */
    enum phase found;    /* phase of the view when this driver came */
    enum job_step step;
    struct control control;           /* as an operator last set it */
    enum job_request request;         /* what ended the step early; REQUEST_COUNT: nothing */
    bool recorded;                    /* the record is of this job */
    bool heal_first;                  /* as it was found when this driver came */
    bool built_here;                  /* this driver holds the coordinator's right to build */
    uint64_t scan_started, scan_rows; /* of this driver, for rate and ETA */
    uint64_t looked_at_rows;          /* when layers were last looked at */
    uint64_t controlled_at, reported_at, grown_at, checkpoint_at;
    uint64_t complete_at; /* as in the record, of the generation that is built: for the cutover to record */
    uint64_t lineages;    /* hash of the masters as they were last looked at */
    uint64_t lineages_at; /* when that was */
    struct refill_progress refill;
    unsigned changes;          /* of the source, during the job */
    bool unconfirmed;          /* the generation in use did not stand the verification after its cutover */
    uint64_t not_healed_until; /* after a healing that failed no other one is begun before */
    struct {
        struct throttle throttle;
        struct latency_reader latency;
        struct source *source; /* a connection that is free while the other reads pages */
        uint64_t decided_at, rows;
        uint64_t asked_at, p99_at;         /* when the database was last asked, and the p99 was last known */
        double lag_s;                      /* as it said then; negative: not known */
        uint64_t operator_limit;           /* at the last decision */
        uint64_t transactions, counted_at; /* of the database's sessions */
        bool beside_requests; /* half of the readers pause: a request was answered within the last second */
        struct yield yield;   /* likewise, for others who use the database */
        char yield_reason[THROTTLE_REASON_MAX];
    } pace;
    struct script_call call; /* of record.c */
    size_t record_pairs;     /* strings gathered for the next write */
    struct error why;        /* what made the job fail or wait */
};

/* The generation that the job makes: alternate until the cutover, current after it, and with a job that only
 * verifies. Its slot. */
unsigned driver_built_slot(const struct driver *d);
const struct generation *driver_built(const struct driver *d);
struct layer_options driver_layers(struct driver *d);

/* --- driver.c --- */
/* No other generation was in the view when this driver came: the record is of a job that has ended, or whose
 * driver died before it had published anything, or after all but the end. */
bool driver_found_quiet(const struct driver *d);
/* The view again, after a change whose reply may be lost; its fence is completed. ERR_FENCED: it is another
 * driver's by now. */
MUST_CHECK enum err driver_reload(struct driver *d, struct error *e);
MUST_CHECK enum err driver_complete_fence(struct driver *d, struct error *e);
/* Model: CHANGE. Publish d->next and fence it. A script whose reply was lost may have been executed: the step
 * is tried again after driver_reload(), and finds its phase there. */
MUST_CHECK enum err driver_change_view(struct driver *d, const struct fence_job *job, struct error *e);
/* Model: IS_READY. No view change of the job while a layer of the current generation is opening. */
MUST_CHECK enum err driver_widen(struct driver *d, struct error *e);

/* --- driver_open.c --- */
MUST_CHECK enum err driver_plan(struct driver *d, struct error *e);
MUST_CHECK enum err driver_create(struct driver *d, struct error *e);
MUST_CHECK enum err driver_open(struct driver *d, struct error *e);

/* The generation of the plan, into d->next, beside the one that is read. */
void driver_fill_generation(struct driver *d);
/* The record of a job whose generation is in the view. */
MUST_CHECK enum err driver_record_opened(struct driver *d, struct error *e);

/* What is read lacks keys: a new generation heals it, and nobody's word is waited for. Looked at once a
 * second:
 * *@looked_at, 0 at first, says when. */
bool driver_is_degraded(struct driver *d, uint64_t *looked_at);

/* --- driver_log.c: where d->view.log --- */
/* The view again. ERR_FENCED: it is of another filter, or has not the generation that is built. */
MUST_CHECK enum err driver_log_reload(struct driver *d, struct error *e);
/* Delete what left the view, and take the build over that it has. */
MUST_CHECK enum err driver_log_resume(struct driver *d, struct error *e);
MUST_CHECK enum err driver_log_open(struct driver *d, struct error *e);
MUST_CHECK enum err driver_log_begin(struct driver *d, struct error *e);
/* Have d->log_build. */
MUST_CHECK enum err driver_log_build(struct driver *d, struct error *e);
/* What was put into it is in Redis. */
MUST_CHECK enum err driver_log_checkpoint(struct driver *d, struct error *e);
/* Into the generation that is built; before its cutover driver_log_checkpoint() brings them there. */
MUST_CHECK enum err driver_log_add(struct driver *d, size_t count, const char *const *keys,
                                   const size_t *lengths, uint64_t *added, struct error *e);
/* Of all filters: whether keys are in the generation that is built. */
MUST_CHECK enum err driver_check_keys(struct driver *d, size_t count, const char *const *keys,
                                      const size_t *lengths, uint8_t *found, struct error *e);
/* Of all filters: how many keys the generation that is built has. */
MUST_CHECK enum err driver_items(struct driver *d, uint64_t *items, struct error *e);
/* The generation in @slot, and the seed of the filter's hashes. */
MUST_CHECK enum err driver_log_input(struct driver *d, unsigned slot, struct log_input *in, uint64_t *seed,
                                     struct error *e);
MUST_CHECK enum err driver_log_cutover(struct driver *d, struct error *e);
MUST_CHECK enum err driver_log_rollback(struct driver *d, struct error *e);
MUST_CHECK enum err driver_log_leave(struct driver *d, struct error *e);
MUST_CHECK enum err driver_log_clear(struct driver *d, struct error *e);
void driver_log_end(struct driver *d);

/* --- driver_cutover.c --- */
MUST_CHECK enum err driver_hold(struct driver *d, struct error *e);
MUST_CHECK enum err driver_cutover(struct driver *d, struct error *e);
MUST_CHECK enum err driver_rollback(struct driver *d, struct error *e);
MUST_CHECK enum err driver_grace(struct driver *d, struct error *e);
/* The alternate generation leaves the view; the record's step is @then. @guard: a request that forbids it, or
 * NULL. */
MUST_CHECK enum err driver_leave(struct driver *d, enum job_step then, const char *guard, struct error *e);

/* --- record.c --- */
MUST_CHECK enum err record_read(struct driver *d, struct error *e);
void record_begin(struct driver *d, bool reset);
void record_text(struct driver *d, const char *field, const char *value);
void record_number(struct driver *d, const char *field, uint64_t value);
/* The fields of checkpoint_each(), of what the next driver shall find. */
void record_checkpoint(struct driver *d, const struct record *at, bool settled);
/* Up to where rows that came by other ways are in the generation. */
void record_caught_up(struct driver *d);
void record_decimal(struct driver *d, const char *field, double value);
/* What is known of the generation in use, and outlives jobs which come to no cutover: how many of its keys
 * counted as dead when it was verified, before its cutover; and since when it is complete. */
void record_kept(struct driver *d);
void record_complete(struct driver *d);
/* Increments of the counts come behind all fields. @n > 0; @shard < 0: of the layer. */
void record_count(struct driver *d, const struct generation *g, unsigned layer, int64_t shard, uint64_t n);
/* The same where the count may fall, too. */
void record_recount(struct driver *d, const struct generation *g, unsigned layer, int64_t shard, int64_t by);
/* ERR_MUTEX_LOST. */
MUST_CHECK enum err record_write(struct driver *d, struct error *e);
/* Before a step is begun. A new job replaces the record at `plan`; the steps before are of the last one. */
MUST_CHECK enum err record_step(struct driver *d, enum job_step step, struct error *e);
/* Why a job ended that nobody goes on with. */
extern const char record_orphaned[];
/* The end, and the entry in the history, of the job that the record says is running: its driver has died, and
 * this one's job is another. ERR_MUTEX_LOST. */
MUST_CHECK enum err record_end_former(struct driver *d, struct error *e);
/* The end of the job, and an entry of the history in the same step. */
void record_end(struct driver *d, const char *state, enum err code, const char *text);

/* --- driver_control.c --- */
/* Called often from loops, with nothing under way on the link: mutex lost, stop, requests, a pause, layers
 * that are full; every half second writes progress. ERR_MUTEX_LOST, ERR_BUSY, ERR_CANCELLED with d->request
 * set; a layer that was added has changed d->view. ERR_UNREACHABLE, ERR_TIMEOUT: d->view may be over. */
MUST_CHECK enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e);
/* Rows were read: when there were many since layers were looked at, the next poll looks. */
void driver_scanned(struct driver *d);
/* The same without layers and pauses, so that the view stays. */
MUST_CHECK enum err driver_look(struct driver *d, const char *waiting_for, struct error *e);
/* The same while Postgres is waited for: does not pause. Redis being away is no reason to end the wait,
 * unless it went in the middle of a change of the view. */
MUST_CHECK enum err driver_watch(struct driver *d, const char *waiting_for, struct error *e);
/* Read the requests now. ERR_CANCELLED as above. */
MUST_CHECK enum err driver_requests(struct driver *d, struct error *e);
/* Sleep @us in naps, polling. */
MUST_CHECK enum err driver_nap(struct driver *d, const char *waiting_for, struct error *e);

/* --- driver_pace.c --- */
/* @rows were read. */
void driver_pace_rows(struct driver *d, uint64_t rows);
/* From now on what others do to the database is seen: before there is anything to read. */
void driver_pace_begin(struct driver *d);
/* Rows a second that may be read; 0: no limit. Decides anew once a second. */
double driver_pace_limit(struct driver *d);
/* Readers that may read at the same time; 0: all. */
unsigned driver_pace_at_once(const struct driver *d);
/* Both, for the readers that read now. */
void driver_pace_readers(struct driver *d);
/* What holds the job back, for people; "": nothing. */
const char *driver_pace_reason(const struct driver *d);
/* That, or that readers pause beside requests: nothing waits for that. */
const char *driver_pace_throttle(const struct driver *d);
void driver_pace_end(struct driver *d);

/* --- driver_source.c --- */
MUST_CHECK enum err driver_source(struct driver *d, struct error *e);
/* Another connection to the same source, for short questions; nothing is polled while it waits. */
MUST_CHECK enum err driver_second_source(struct driver *d, struct source **out, struct error *e);
/* What the configuration's names stand for now: source_identity(). */
MUST_CHECK enum err driver_identity(struct driver *d, const char *newest, uint64_t *out, struct error *e);
/* Right after a settle: partitions that are made from now on need not count, by record.newest. "" where
 * nothing would look for their rows. */
MUST_CHECK enum err driver_newest(struct driver *d, char out[SOURCE_HORIZON_MAX], struct error *e);
/* ERR_CHANGED: they stand for something else than when @identity was noted; d->source is opened anew. */
MUST_CHECK enum err driver_unchanged(struct driver *d, const char *newest, uint64_t identity,
                                     struct error *e);
/* A source that failed is opened anew at the next use. Returns @code. */
enum err driver_source_failed(struct driver *d, enum err code);
/* Every transaction that is open now has ended when this returns ERR_OK. */
MUST_CHECK enum err driver_settle_now(struct driver *d, struct error *e);
/* And is to be seen where rows are read. */
MUST_CHECK enum err driver_replayed(struct driver *d, struct error *e);
MUST_CHECK enum err driver_settle(struct driver *d, struct error *e);

/* --- driver_scan.c --- */
MUST_CHECK enum err driver_scan(struct driver *d, struct error *e);
/* What a build of that layer of @g, or a comparison, is made with; it calls driver_look() while it waits.
 * @output lives as long as the build. */
struct build_options driver_build_options(struct driver *d, struct fence_output *output,
                                          const struct generation *g, unsigned layer);
MUST_CHECK enum err driver_poll_flush(void *driver, struct error *e);
/* What the source's rows lie in now: d->parts. */
MUST_CHECK enum err driver_parts(struct driver *d, struct error *e);
struct readers_options driver_readers(struct driver *d, struct readers_work work,
                                      void (*row)(void *arg, unsigned i, const char *key, size_t length),
                                      enum err (*page)(void *arg, unsigned i, struct error *e), void *arg);
/* The coordinator's right to take build_memory, one job at a time; given back where it is held. */
MUST_CHECK enum err driver_take_build(struct driver *d, struct error *e);
void driver_end_build(struct driver *d);

/* --- driver_tail.c --- */
/* Wait until the tail runs, where there is to be one, and note its coverage. */
MUST_CHECK enum err driver_await_tail(struct driver *d, struct error *e);
/* *@covered: the tail has added all that is committed now, and missed nothing since driver_await_tail(). */
MUST_CHECK enum err driver_followed(struct driver *d, bool *covered, struct error *e);

/* --- driver_catch_up.c --- */
MUST_CHECK enum err driver_catch_up(struct driver *d, struct error *e);
/* Read @work and hand its keys to @fn in this thread, polling. */
typedef enum err driver_keys_fn(void *arg, size_t count, const char *const *keys, const size_t *lengths,
                                struct error *e);
MUST_CHECK enum err driver_read(struct driver *d, struct readers_work work, driver_keys_fn *fn, void *arg,
                                struct error *e);
/* The same for the keys of all rows that were written by transactions with ids from @horizon on. */
MUST_CHECK enum err driver_sweep(struct driver *d, const char *horizon, driver_keys_fn *fn, void *arg,
                                 struct error *e);
/* Add rows' keys to the generation that is built; after the cutover to the old one, too. *@added counts those
 * that were new to the one that is built. */
MUST_CHECK enum err driver_add_keys(struct driver *d, size_t count, const char *const *keys,
                                    const size_t *lengths, uint64_t *added, struct error *e);

/* --- driver_compare.c --- */
/* All rows of the source, in the order that is fastest here; by blocks those of d->parts. */
struct readers_work driver_all_rows(struct driver *d);

struct driver_compared {
    uint64_t rows, missing;
    uint64_t handed; /* hashes whose keys were looked for: not all of a great many that are missing */
};
/* Look for every key of the source in the generation of @slot; those that are not found in its shards as they
 * were read are handed to @missing. @pass_lost: but for keys of shards that are lost. */
MUST_CHECK enum err driver_compare(struct driver *d, unsigned slot, bool pass_lost, driver_keys_fn *missing,
                                   void *arg, struct driver_compared *out, struct error *e);

/* --- driver_masters.c --- */
enum { HEAL_LOOK_US = 1000 * 1000, HEAL_AGAIN_US = 30 * 1000 * 1000 };
/* That master may hold something of the filter, and is not of a lineage that it trusts, by d->view. */
bool driver_suspects(const struct driver *d, const struct lineage *one);
bool driver_suspects_any(const struct driver *d, const struct lineages *s);
/* What the view in Redis trusts now, into d->view: a keeper may have added a master that is new and empty.
 * ERR_FENCED. */
MUST_CHECK enum err driver_reload_trusted(struct driver *d, struct error *e);
/* ERR_CANCELLED, with REQUEST_HEAL in d->request: there is a master that the filter does not trust. Once a
 * second, and a master that does not answer is nothing to this. */
MUST_CHECK enum err driver_look_at_masters(struct driver *d, struct error *e);
/* The same now; ERR_UNREACHABLE, ERR_TIMEOUT: a master does not answer. */
MUST_CHECK enum err driver_same_masters(struct driver *d, struct error *e);
/* When a driver begins: *@heal says whether there is one; a checkpoint that others wrote to other masters is
 * void. */
MUST_CHECK enum err driver_find_masters(struct driver *d, bool *heal, struct error *e);

/* --- driver_heal.c --- */
/* Make whole what masters that the filter does not trust may have lost, then trust them. ERR_CONFLICT,
 * ERR_CONFIG: it cannot be; ERR_TIMEOUT, ERR_UNREACHABLE: again. */
MUST_CHECK enum err driver_heal(struct driver *d, struct error *e);

/* --- driver_refill.c --- */
/* Make shards of the generation in use that are lost anew, and fill them from the source, while the others go
 * on. ERR_CONFLICT: it cannot be, or too many are lost: a rebuild helps. ERR_CANCELLED: as driver_look().
 * ERR_TIMEOUT, ERR_UNREACHABLE: again. */
MUST_CHECK enum err driver_refill(struct driver *d, struct error *e);

/* --- driver_verify.c --- */
/* The generation that is in use since its cutover may lack rows: CONFIRM compares all of them and adds what
 * is missing. The job's record says why, and its end is no plain "done". */
void driver_distrust(struct driver *d, const char *why);
MUST_CHECK enum err driver_verify(struct driver *d, struct error *e);
#endif
