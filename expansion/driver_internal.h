/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DRIVER_INTERNAL_H
#define EXPANSION_DRIVER_INTERNAL_H
/* What the files of the driver share: driver.c (loop, view changes), driver_rows.c (settle, scan, catch-up),
 * driver_verify.c, driver_pace.c (how fast rows are read), driver_control.c (what happens between two pieces
 * of work: an operator's requests, layers that are full, progress), record.c (the job's record). */
#include "expansion/checkpoint.h"
#include "expansion/control.h"
#include "expansion/driver.h"
#include "expansion/layer.h"
#include "expansion/plan.h"
#include "expansion/step.h"
#include "expansion/throttle.h"
#include "migrate/builder.h"
#include "migrate/scan.h"
#include "shard/fence.h"

struct driver {
    const struct driver_options *o;
    struct mutex *mutex;
    struct link *link;
    struct fence fence;
    struct view view;
    struct view next; /* scratch of a view change */
    struct source *source;
    struct builder *builder;
    struct record record;
    struct plan plan;
    enum phase found; /* phase of the view when this driver came */
    enum job_step step;
    struct control control;           /* as an operator last set it */
    enum job_request request;         /* what ended the step early; REQUEST_COUNT: nothing */
    bool recorded;                    /* the record is of this job */
    bool built_here;                  /* this driver holds the coordinator's right to build */
    char position[SCAN_ID_MAX];       /* last id whose rows are in the builder */
    uint64_t scan_started, scan_rows; /* of this driver, for rate and ETA */
    uint64_t looked_at_rows;          /* when layers were last looked at */
    uint64_t controlled_at, reported_at, grown_at, checkpoint_at;
    struct {
        struct throttle throttle;
        struct pacer pacer;
        struct latency_reader latency;
        struct source *source; /* a connection that is free while the other reads pages */
        uint64_t decided_at, rows;
        uint64_t operator_limit; /* at the last decision */
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
/* The view again, after a change whose reply may be lost; its fence is completed. ERR_FENCED: it is another
 * driver's by now. */
MUST_CHECK enum err driver_reload(struct driver *d, struct error *e);

/* --- record.c --- */
MUST_CHECK enum err record_read(struct driver *d, struct error *e);
void record_begin(struct driver *d, bool reset);
void record_text(struct driver *d, const char *field, const char *value);
void record_number(struct driver *d, const char *field, uint64_t value);
/* The fields of checkpoint_each(), of what the next driver shall find. */
void record_checkpoint(struct driver *d, const struct record *at, bool settled);
void record_decimal(struct driver *d, const char *field, double value);
/* Increments of the counts come behind all fields. @n > 0; @shard < 0: of the layer. */
void record_count(struct driver *d, const struct generation *g, unsigned layer, int64_t shard, uint64_t n);
/* ERR_MUTEX_LOST. */
MUST_CHECK enum err record_write(struct driver *d, struct error *e);
/* Before a step is begun. A new job replaces the record at `plan`; the steps before are of the last one. */
MUST_CHECK enum err record_step(struct driver *d, enum job_step step, struct error *e);
/* The end of the job, and an entry of the history in the same step. */
void record_end(struct driver *d, const char *state, const char *text);

/* --- driver_control.c --- */
/* Called often from loops, with nothing under way on the link: mutex lost, stop, requests, a pause, layers
 * that are full; every half second writes progress. ERR_MUTEX_LOST, ERR_BUSY, ERR_CANCELLED with d->request
 * set; a layer that was added has changed d->view. ERR_UNREACHABLE, ERR_TIMEOUT: d->view may be over. */
MUST_CHECK enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e);
/* After each page of the scan: when much was read since layers were looked at, the next poll looks. */
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
/* @rows were read: sleep as long as the throttle wants, polling. Errors as driver_poll(). */
MUST_CHECK enum err driver_pace(struct driver *d, uint64_t rows, struct error *e);
/* What holds the job back, for people; "": nothing. */
const char *driver_pace_reason(const struct driver *d);
void driver_pace_end(struct driver *d);

/* --- driver_rows.c --- */
MUST_CHECK enum err driver_source(struct driver *d, struct error *e);
/* Another connection to the same source, for short questions; nothing is polled while it waits. */
MUST_CHECK enum err driver_second_source(struct driver *d, struct source **out, struct error *e);
/* A source that failed is opened anew at the next use. Returns @code. */
enum err driver_source_failed(struct driver *d, enum err code);
MUST_CHECK enum err driver_settle(struct driver *d, struct error *e);
MUST_CHECK enum err driver_scan(struct driver *d, struct error *e);
MUST_CHECK enum err driver_catch_up(struct driver *d, struct error *e);
/* Add rows' keys to the generation that is built; after the cutover to the old one, too. *@added counts those
 * that were new to the one that is built. */
MUST_CHECK enum err driver_add_keys(struct driver *d, size_t count, const char *const *keys,
                                    const size_t *lengths, uint64_t *added, struct error *e);
/* The coordinator's right to build, one job at a time: given back where it is held. */
void driver_end_build(struct driver *d);

/* --- driver_verify.c --- */
MUST_CHECK enum err driver_verify(struct driver *d, struct error *e);
#endif
