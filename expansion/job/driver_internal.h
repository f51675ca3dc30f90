/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_DRIVER_INTERNAL_H
#define EXPANSION_JOB_DRIVER_INTERNAL_H
/* What the files of the driver share: driver.c (loop), driver_open.c (to a new generation in the view),
 * driver_keys.c (keys to and from the generation), driver_cutover.c (the switch to it, and back),
 * driver_source.c (connections, settle), driver_scan.c, driver_catch_up.c, driver_compare.c, driver_verify.c,
 * driver_pace.c (how fast rows are read), driver_control.c (what happens between two pieces of work: an
 * operator's requests, progress), record.c (the job's record). */
#include "expansion/record/checkpoint.h"
#include "expansion/record/control.h"
#include "expansion/job/driver.h"
#include "expansion/decide/plan.h"
#include "expansion/decide/step.h"
#include "expansion/follow/follower.h"
#include "expansion/decide/throttle.h"
#include "expansion/decide/yield.h"
#include "migrate/build/log_build.h"
#include "migrate/verify/log_input.h"
#include "migrate/source/readers.h"
#include "migrate/source/scan.h"
#include "shard/view/handle.h"

struct driver {
    const struct driver_options *o;
    struct mutex *mutex;
    struct sync_client *redis;
    uint64_t cutover_us; /* how long the switch took, until that is in the record; 0: it is, or none was */
    struct handle handle;
    struct view view; /* a summary, as it was read last */
    struct view next; /* scratch */
    struct source *source;
    struct source_part *parts; /* as driver_parts() last found them */
    size_t part_count;
    struct readers *readers;        /* while they run */
    struct builder *builder;        /* of the generation that is being built; NULL: none is */
    struct log_build *build;        /* keys on their way to it */
    struct key_client *client;      /* for keys of the generation that is read; NULL: none yet */
    struct log_view *log_view;      /* scratch; NULL: none yet */
    struct readers_progress before; /* of the scan, when its readers were started */
    uint64_t paced;                 /* rows of theirs that are counted */
    uint64_t progressed_at;         /* when readers last had a page */
    struct record record;
    struct plan plan;
    struct placement on; /* nodes of the plan */
    bool found_quiet;    /* no other generation was in the view when this driver came: the record is of a job
                          * that has ended, or whose driver died before it had published anything, or after
                          * all but the end */
    enum job_step step;
    struct control control;           /* as an operator last set it */
    enum job_request request;         /* what ended the step early; REQUEST_COUNT: nothing */
    bool recorded;                    /* the record is of this job */
    bool built_here;                  /* this driver holds the coordinator's right to build */
    uint64_t scan_started, scan_rows; /* of this driver, for rate and ETA */
    uint64_t controlled_at, reported_at, checkpoint_at;
    unsigned changes; /* of the source, during the job */
    bool unconfirmed; /* the generation in use did not stand the verification after its cutover */
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
    size_t record_pairs;     /* strings gathered for the next write, */
    size_t record_count_at;  /* and the argument that says how many */
    struct error why;        /* what made the job fail or wait */
};

/* The generation that the job makes: alternate until the cutover, current after it, and with a job that only
 * verifies. Its slot. */
unsigned driver_built_slot(const struct driver *d);
const struct generation *driver_built(const struct driver *d);

/* --- driver.c --- */
/* The view again. ERR_FENCED: it is of another filter, or has not the generation that is built. */
MUST_CHECK enum err driver_reload(struct driver *d, struct error *e);
/* Into the log: the view is another one. */
void driver_tell_view(const struct driver *d);

/* --- driver_open.c --- */
/* Delete what left the view, and take the build over that it has. */
MUST_CHECK enum err driver_reclaim(struct driver *d, struct error *e);
MUST_CHECK enum err driver_plan(struct driver *d, struct error *e);
MUST_CHECK enum err driver_open(struct driver *d, struct error *e);

/* --- driver_cutover.c --- */
/* What is read lacks keys: a new generation heals it, and nobody's word is waited for. Looked at once a
 * second:
 * *@looked_at, 0 at first, says when. */
bool driver_is_degraded(struct driver *d, uint64_t *looked_at);

/* --- driver_keys.c --- */
/* Note where the lanes end, and make the shards: before the settle, which has all rows of transactions that
 * are open now. */
MUST_CHECK enum err driver_begin(struct driver *d, struct error *e);
/* Have d->build. */
MUST_CHECK enum err driver_begin_build(struct driver *d, struct error *e);
/* What was put into it is in Redis. */
MUST_CHECK enum err driver_checkpoint(struct driver *d, struct error *e);
/* @code of a builder: ERR_CHANGED where it begins again. */
enum err driver_build_failed(const struct driver *d, enum err code, struct error *e);
/* How a comparison ended. A node of the shards is in another era: a build's, than at S0 (ERR_CHANGED); else,
 * than the view accepts yet (ERR_TIMEOUT). Neither ends the job, whose successor would meet the same at once.
 */
enum err driver_input_failed(struct driver *d, enum err code, struct error *e);
/* Add rows' keys: before the cutover to the generation that is built, where driver_checkpoint() brings them
 * to Redis; after it as callers add theirs. *@added counts those that were new then. */
MUST_CHECK enum err driver_add_keys(struct driver *d, size_t count, const char *const *keys,
                                    const size_t *lengths, uint64_t *added, struct error *e);
/* Whether keys are in the generation that is built. */
MUST_CHECK enum err driver_check_keys(struct driver *d, size_t count, const char *const *keys,
                                      const size_t *lengths, uint8_t *found, struct error *e);
/* How many keys it has, as of the last flush, or as the view said last. */
uint64_t driver_items(const struct driver *d);
/* It as a compare reads it, and the seed of the filter's hashes. */
MUST_CHECK enum err driver_input(struct driver *d, struct log_input *in, uint64_t *seed, struct error *e);
/* Wait until this process answers from the generation that is read. */
MUST_CHECK enum err driver_await_generation(struct driver *d, struct error *e);
/* The coordinator's right to take build_memory, one job at a time; given back where it is held. */
MUST_CHECK enum err driver_take_build(struct driver *d, struct error *e);
void driver_end_build(struct driver *d);
void driver_end_builder(struct driver *d);

/* --- driver_cutover.c --- */
MUST_CHECK enum err driver_hold(struct driver *d, struct error *e);
MUST_CHECK enum err driver_cutover(struct driver *d, struct error *e);
MUST_CHECK enum err driver_rollback(struct driver *d, struct error *e);
MUST_CHECK enum err driver_grace(struct driver *d, struct error *e);
/* The generation that is not read leaves the view, and its shards are deleted. */
MUST_CHECK enum err driver_leave(struct driver *d, struct error *e);

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
 * counted as dead when it was verified, before its cutover. */
void record_kept(struct driver *d);
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
/* Called often from loops, with nothing under way on the client: mutex lost, stop, requests, a pause; every
 * half second writes progress. ERR_MUTEX_LOST, ERR_BUSY, ERR_CANCELLED with d->request set. */
MUST_CHECK enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e);
/* The same without pauses. */
MUST_CHECK enum err driver_look(struct driver *d, const char *waiting_for, struct error *e);
/* The same while Postgres is waited for: Redis being away is no reason to end the wait. */
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
/* Rows a second that may be read; 0: no limit. Decides again once a second. */
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
/* ERR_CHANGED: they stand for something else than when @identity was noted; d->source is opened again. */
MUST_CHECK enum err driver_unchanged(struct driver *d, const char *newest, uint64_t identity,
                                     struct error *e);
/* A source that failed is opened again at the next use. Returns @code. */
enum err driver_source_failed(struct driver *d, enum err code);
/* Every transaction that is open now has ended when this returns ERR_OK. */
MUST_CHECK enum err driver_settle_now(struct driver *d, struct error *e);
/* And is to be seen where rows are read. */
MUST_CHECK enum err driver_replayed(struct driver *d, struct error *e);
MUST_CHECK enum err driver_settle(struct driver *d, struct error *e);

/* --- driver_scan.c --- */
MUST_CHECK enum err driver_scan(struct driver *d, struct error *e);
/* driver_look(), for a build or a comparison that waits. */
MUST_CHECK enum err driver_poll_flush(void *driver, struct error *e);
/* What the source's rows lie in now: d->parts. */
MUST_CHECK enum err driver_parts(struct driver *d, struct error *e);
struct readers_options driver_readers(struct driver *d, struct readers_work work,
                                      void (*row)(void *arg, unsigned i, const char *key, size_t length),
                                      enum err (*page)(void *arg, unsigned i, struct error *e), void *arg);

/* --- driver_follower.c --- */
/* Wait until the tail runs, where there is to be one, and note its coverage. */
MUST_CHECK enum err driver_await_follower(struct driver *d, struct error *e);
/* *@covered: the tail has added all that is committed now, and missed nothing since driver_await_follower().
 */
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

/* --- driver_compare.c --- */
struct driver_compared {
    uint64_t rows, missing;
    uint64_t handed; /* hashes whose keys were looked for: not all of a great many that are missing */
};
/* Look for every key of the source in the generation that is built; those that are not found in its shards as
 * they were read are handed to @missing. */
MUST_CHECK enum err driver_compare(struct driver *d, driver_keys_fn *missing, void *arg,
                                   struct driver_compared *out, struct error *e);

/* --- driver_verify.c --- */
/* The generation that is in use since its cutover may lack rows: CONFIRM compares all of them and adds what
 * is missing. The job's record says why, and its end is no plain "done". */
void driver_distrust(struct driver *d, const char *why);
MUST_CHECK enum err driver_verify(struct driver *d, struct error *e);
#endif
