/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_DRIVER_INTERNAL_H
#define EXPANSION_JOB_DRIVER_INTERNAL_H
/* What the files of the driver share: driver.c (loop), driver_open.c (to a new generation in the view),
 * driver_keys.c (keys to and from the generation), driver_cutover.c (the switch to it, and back),
 * driver_source.c (connections, settle), driver_scan.c, driver_catch_up.c, driver_compare.c, driver_verify.c,
 * driver_pace.c (read rate), driver_control.c (operators' requests and progress, between two pieces of work),
 * record.c (the job's record). */
#include "expansion/record/checkpoint.h"
#include "expansion/record/control.h"
#include "expansion/job/driver.h"
#include "expansion/decide/plan.h"
#include "expansion/decide/step.h"
#include "expansion/follow/follower.h"
#include "expansion/decide/throttle.h"
#include "expansion/decide/yield.h"
#include "migrate/build/build.h"
#include "migrate/verify/log_input.h"
#include "migrate/source/readers.h"
#include "migrate/source/scan.h"
#include "shard/view/handle.h"

struct driver {
    const struct driver_options *o;
    struct mutex *mutex;
    struct sync_client *redis;
    uint64_t cutover_us; /* duration of the switch, until it is recorded; 0: nothing to record */
    struct handle handle;
    struct view view; /* a summary, as last read */
    struct view next; /* scratch memory */
    struct source *source;
    struct source_history history;    /* of the server that it led to when it was opened last */
    char barrier[SOURCE_BARRIER_MAX]; /* every reader's server must show all up to there */
    struct source_part *parts;        /* result of the last driver_parts() */
    size_t part_count;
    bool sweeps_primary;            /* the next sweep reads from the primary: one from a standby failed */
    struct readers *readers;        /* NULL: none run */
    bool readers_left_out;          /* Postgres did not let all in when it was asked last; that was logged */
    unsigned patience_ms;           /* of readers, for the next line; doubled when it was too short */
    struct builder *builder;        /* writes the generation that is built; NULL: none is */
    struct build *build;            /* puts keys into the generation that is built */
    struct key_client *client;      /* for keys of the generation that is read; NULL: not opened yet */
    struct log_view log_view;       /* scratch memory */
    struct readers_progress before; /* progress of the scan when its readers were started */
    uint64_t paced;                 /* rows of these readers that were counted */
    uint64_t progressed_at;         /* when readers last completed a page */
    struct record record;
    struct plan plan;
    struct placement on; /* the plan's nodes */
    /* No other generation was in the view when this driver began: the record's job has ended, or its driver
     * died before it published anything or just before the end. */
    bool found_quiet;
    enum job_step step;
    struct control control;           /* as an operator last set it */
    enum job_request request;         /* the request that ended the step early; REQUEST_COUNT: none */
    bool recorded;                    /* the record is this job's */
    bool tries_again;                 /* the step waited for a server, which may still be away */
    bool built_here;                  /* this driver holds the process's right to build */
    uint64_t scan_started, scan_rows; /* start and rows of this driver's scan, for rate and ETA */
    uint64_t controlled_at, reported_at, checkpoint_at;
    unsigned changes; /* changes of the source during the job */
    bool unconfirmed; /* the generation in use failed its verification after the cutover */
    struct {
        struct throttle throttle;
        struct latency_reader latency;
        struct source *source;             /* a connection that is free while the other reads pages */
        uint64_t decided_at, rows;         /* when, and rows that were read since */
        uint64_t asked_at, p99_at;         /* when the database was last asked; when the p99 was last known */
        double lag_s;                      /* replication lag at that time; negative: unknown */
        uint64_t operator_limit;           /* at the last decision */
        uint64_t transactions, counted_at; /* transactions of the database's sessions, and when counted */
        bool beside_requests; /* half of the readers pause, as a request was served within the last second */
        struct yield yield;   /* half of the readers pause for other users of the database */
        char yield_reason[THROTTLE_REASON_MAX];
    } pace;
    struct script_call call; /* for record.c */
    struct error why;        /* why the job failed or waits */
};

/* The generation that the job builds: alternate until the cutover, then current; for a job that only
 * verifies, current. And its slot. */
unsigned driver_built_slot(const struct driver *d);
const struct generation *driver_built(const struct driver *d);

/* --- driver.c --- */
/* Reload the view. ERR_FENCED: it belongs to another filter, lacks the generation that is built, or went back
 * to before a cutover, so that the next driver has to begin where the view is. */
MUST_CHECK enum err driver_reload(struct driver *d, struct error *e);
/* True if what was read of the source since the settle counts in this step. */
bool driver_relies_on_source(const struct driver *d);
/* Log the new state of the view. */
void driver_tell_view(const struct driver *d);

/* --- driver_open.c --- */
/* Delete what left the view, and take over an unfinished build. */
MUST_CHECK enum err driver_reclaim(struct driver *d, struct error *e);
MUST_CHECK enum err driver_plan(struct driver *d, struct error *e);
MUST_CHECK enum err driver_open(struct driver *d, struct error *e);

/* --- driver_keys.c --- */
/* Note where the lanes end, and make the shards. Call it before the settle, which waits for transactions that
 * are open now. */
MUST_CHECK enum err driver_begin(struct driver *d, struct error *e);
/* Limits of a build or a compare. */
struct build_options driver_build_options(struct driver *d);
/* Make sure that d->build exists. */
MUST_CHECK enum err driver_begin_build(struct driver *d, struct error *e);
/* Bring to Redis all that was put into the build. */
MUST_CHECK enum err driver_checkpoint(struct driver *d, struct error *e);
/* Convert @code of a builder: ERR_CHANGED if it has to begin again. */
enum err driver_build_failed(const struct driver *d, enum err code, struct error *e);
/* Convert @code of a comparison. If a node of the shards is in another era than expected: for a build, than
 * at S0, ERR_CHANGED; otherwise, than the view has accepted, ERR_TIMEOUT. Neither ends the job: its successor
 * would meet the same error at once. */
enum err driver_input_failed(struct driver *d, enum err code, struct error *e);
/* Add rows' keys: before the cutover to the generation that is built (driver_checkpoint() brings them to
 * Redis), after it as callers add theirs. *@added: the number of keys that were new. */
MUST_CHECK enum err driver_add_keys(struct driver *d, size_t count, const char *const *keys,
                                    const size_t *lengths, uint64_t *added, struct error *e);
/* Check whether keys are in the generation that is built. */
MUST_CHECK enum err driver_check_keys(struct driver *d, size_t count, const char *const *keys,
                                      const size_t *lengths, uint8_t *found, struct error *e);
/* The number of its keys: as of the last flush, or from the view. */
uint64_t driver_items(const struct driver *d);
/* Initialise @in to read that generation; *@seed: the filter's seed for hashes. */
MUST_CHECK enum err driver_input(struct driver *d, struct log_input *in, uint64_t *seed, struct error *e);
/* Wait until this process answers from the generation that the view reads. */
MUST_CHECK enum err driver_await_generation(struct driver *d, struct error *e);
/* Take or give back the process's right to use build_memory: one job at a time has it, and none while it is
 * paused. The first polls, so d->build may be gone after it. */
MUST_CHECK enum err driver_take_build(struct driver *d, struct error *e);
void driver_end_build(struct driver *d);
void driver_end_builder(struct driver *d);

/* --- driver_cutover.c --- */
MUST_CHECK enum err driver_hold(struct driver *d, struct error *e);
MUST_CHECK enum err driver_cutover(struct driver *d, struct error *e);
MUST_CHECK enum err driver_rollback(struct driver *d, struct error *e);
MUST_CHECK enum err driver_grace(struct driver *d, struct error *e);
/* Remove the generation that is not read from the view, and delete its shards. */
MUST_CHECK enum err driver_leave(struct driver *d, struct error *e);

/* --- record.c --- */
MUST_CHECK enum err record_read(struct driver *d, struct error *e);
void record_begin(struct driver *d, bool reset);
void record_text(struct driver *d, const char *field, const char *value);
void record_number(struct driver *d, const char *field, uint64_t value);
/* Write the fields of checkpoint_each(), for the next driver. */
void record_checkpoint(struct driver *d, const struct record *at, bool settled);
/* Write the marks up to which rows that came without BF.ADD are in the generation. */
void record_caught_up(struct driver *d);
void record_decimal(struct driver *d, const char *field, double value);
/* ERR_MUTEX_LOST. */
MUST_CHECK enum err record_write(struct driver *d, struct error *e);
/* Record a step before it begins. A new job resets the record at `plan`; earlier steps belong to the last
 * job. */
MUST_CHECK enum err record_step(struct driver *d, enum job_step step, struct error *e);
/* The error of a job whose driver died and that no driver continues. */
extern const char record_orphaned[];
/* Record the end of the job that the record says is running, and its entry in the history: its driver has
 * died, and this driver's job is another one. ERR_MUTEX_LOST. */
MUST_CHECK enum err record_end_former(struct driver *d, struct error *e);
/* Record the end of the job and its entry in the history, in one script. */
void record_end(struct driver *d, const char *state, enum err code, const char *text);

/* --- driver_control.c --- */
/* Call it often in loops, with nothing under way on the client. It checks the mutex, stop, requests and a
 * pause, and writes progress every half second. A pause ends d->build, so no reader may put keys into it.
 * @waiting_for NULL: what is recorded stays. ERR_MUTEX_LOST, ERR_BUSY, ERR_CANCELLED with d->request set,
 * errors of driver_checkpoint(). */
MUST_CHECK enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e);
/* As driver_poll(), without pausing. */
MUST_CHECK enum err driver_look(struct driver *d, const char *waiting_for, struct error *e);
/* Read the requests now. ERR_CANCELLED as above. */
MUST_CHECK enum err driver_requests(struct driver *d, struct error *e);
/* Sleep one nap, then poll. */
MUST_CHECK enum err driver_nap(struct driver *d, const char *waiting_for, struct error *e);

/* --- driver_pace.c --- */
/* Begin to observe others' use of the database: call it before reading. */
void driver_pace_begin(struct driver *d);
/* The allowed read rate, rows per second; 0: no limit. Decides again once a second. */
double driver_pace_limit(struct driver *d);
/* How many readers may read at the same time; 0: all. */
unsigned driver_pace_at_once(const struct driver *d);
/* Apply both to the readers that run now. */
void driver_pace_readers(struct driver *d);
/* Why the job reads more slowly than it could, for people; "": it does not. */
const char *driver_pace_throttle(const struct driver *d);
void driver_pace_end(struct driver *d);

/* --- driver_source.c --- */
/* Make sure that d->source exists. ERR_CHANGED: it leads to another server than it did at the settle. */
MUST_CHECK enum err driver_source(struct driver *d, struct error *e);
/* The source_identity() of the configuration's names now, and the history of d->source, on which horizons and
 * marks are read. */
MUST_CHECK enum err driver_identity(struct driver *d, const char *newest, uint64_t *out, struct error *e);
/* Right after a settle: the horizon for record.newest, so that partitions made from now on need not be part
 * of the identity. "": no sweep would find their rows. */
MUST_CHECK enum err driver_newest(struct driver *d, char out[SOURCE_HORIZON_MAX], struct error *e);
/* ERR_CHANGED: the identity differs from record.source, or `dsn` leads to another server than d->source did;
 * d->source is closed. */
MUST_CHECK enum err driver_unchanged(struct driver *d, struct error *e);
/* After an error of the source, the next use opens it again. Returns @code. */
enum err driver_source_failed(struct driver *d, enum err code);
/* Close the connections: the job is going to wait for long. The next use opens them again. */
void driver_source_leave(struct driver *d);
/* Wait until every transaction that is open now has ended. */
MUST_CHECK enum err driver_settle_now(struct driver *d, struct error *e);
/* Wait until all that is committed by now is visible on the server that rows are read from. Each reader waits
 * for it again, as its connection may lead to another server. ERR_TIMEOUT: not yet, or read_dsn leads to no
 * standby of dsn's server. */
MUST_CHECK enum err driver_replayed(struct driver *d, struct error *e);
/* Take a snapshot for readers, of all that is committed by now, on the server that rows are read from, or on
 * the
 * @primary. The caller closes *@out when they have ended, after an error, too. */
MUST_CHECK enum err driver_snapshot(struct driver *d, bool primary, struct source **out,
                                    char snapshot[SOURCE_SNAPSHOT_MAX], struct error *e);
MUST_CHECK enum err driver_settle(struct driver *d, struct error *e);

/* --- driver_scan.c --- */
MUST_CHECK enum err driver_scan(struct driver *d, struct error *e);
/* driver_look(), for a build or a comparison that waits. */
MUST_CHECK enum err driver_poll_flush(void *driver, struct error *e);
/* Read into d->parts the relations that hold the source's rows now, as @from sees them. */
MUST_CHECK enum err driver_parts(struct driver *d, struct source *from, struct error *e);
/* Start d->readers, with the functions of @calls alone. Stop them after an error, too. */
MUST_CHECK enum err driver_readers_start(struct driver *d, struct readers_work work,
                                         const struct readers_options *calls, struct error *e);
void driver_readers_stop(struct driver *d);
/* readers_ended(). If they ended because no line came in time, the next ones wait twice as long: a statement
 * may be silent for as long as it passes over rows that do not match. */
bool driver_readers_ended(struct driver *d, enum err *ended_with, struct error *e);

/* --- driver_follower.c --- */
/* Wait until the follower runs, if there should be one, and note its coverage. */
MUST_CHECK enum err driver_await_follower(struct driver *d, struct error *e);
/* *@covered: the follower has added all that is committed now, and missed nothing since
 * driver_await_follower(). */
MUST_CHECK enum err driver_followed(struct driver *d, bool *covered, struct error *e);
/* Lower the follower's marks to the build's low-water marks: what came before these the build reads. */
MUST_CHECK enum err driver_lower_marks(struct driver *d, struct error *e);

/* --- driver_catch_up.c --- */
MUST_CHECK enum err driver_catch_up(struct driver *d, struct error *e);
/* Read @work and hand its keys to @fn in this thread, polling. */
typedef enum err driver_keys_fn(void *arg, size_t count, const char *const *keys, const size_t *lengths,
                                struct error *e);
MUST_CHECK enum err driver_read(struct driver *d, struct readers_work work, driver_keys_fn *fn, void *arg,
                                struct error *e);
/* Likewise for the keys of all rows that were written by transactions with ids from @horizon on. */
MUST_CHECK enum err driver_sweep(struct driver *d, const char *horizon, driver_keys_fn *fn, void *arg,
                                 struct error *e);

/* --- driver_compare.c --- */
struct driver_compared {
    uint64_t rows, missing;
    uint64_t handed; /* hashes whose keys were looked for: of very many missing ones, only a part */
};
/* Look for every key of the source in the generation that is built; @missing gets the keys that are not in
 * its shards as they were read. */
MUST_CHECK enum err driver_compare(struct driver *d, driver_keys_fn *missing, void *arg,
                                   struct driver_compared *out, struct error *e);

/* --- driver_verify.c --- */
/* Call it if the generation in use since the cutover may lack rows: CONFIRM then compares all rows and adds
 * the missing ones. The record says why, and the job ends as "healed" instead of "done". */
void driver_distrust(struct driver *d, const char *why);
MUST_CHECK enum err driver_verify(struct driver *d, struct error *e);
#endif
