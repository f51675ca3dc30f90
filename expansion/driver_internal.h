/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_DRIVER_INTERNAL_H
#define EXPANSION_DRIVER_INTERNAL_H
/* What the files of the driver share: driver.c (loop, view changes), driver_rows.c (settle, scan, catch-up,
 * verify), record.c (the job's record). */
#include "expansion/driver.h"
#include "expansion/plan.h"
#include "expansion/step.h"
#include "migrate/builder.h"
#include "migrate/scan.h"
#include "shard/fence.h"

enum { RECORD_TEXT_MAX = 512 };

/* The job's record as the last driver wrote it. */
struct record {
    uint64_t generation; /* the one that is built; 0: no record */
    enum job_step step;
    bool running; /* its last driver did not come to write its end */
    bool settled;
    bool scan_ended;
    unsigned pass; /* of the checkpoint when read, then of this driver */
    unsigned
        passes; /* that the checkpoint's driver needed: with another number its passes hold other shards */
    uint64_t rows, rows_total, skipped_null, skipped_empty;
    uint64_t started_ms, switched_ms;
    char last_id[SCAN_ID_MAX];   /* of the checkpoint */
    char low_water[SCAN_ID_MAX]; /* every row with an id at or below it was committed and is in the
                                  * generation, once the scan ended */
    char upto[SCAN_ID_MAX];      /* where the scan ends */
    char reason[RECORD_TEXT_MAX];
};

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
    bool recorded;                    /* the record is of this job */
    bool aborting;                    /* an operator asked for it */
    char position[SCAN_ID_MAX];       /* last id whose rows are in the builder */
    uint64_t scan_started, scan_rows; /* of this driver, for rate and ETA */
    uint64_t reported_at, checkpoint_at;
    struct script_call call; /* of record.c */
    size_t record_pairs;     /* strings gathered for the next write */
    struct error why;        /* what made the job fail or wait */
};

/* --- record.c --- */
MUST_CHECK enum err record_read(struct driver *d, struct error *e);
void record_begin(struct driver *d, bool reset);
void record_text(struct driver *d, const char *field, const char *value);
void record_number(struct driver *d, const char *field, uint64_t value);
void record_decimal(struct driver *d, const char *field, double value);
/* Increments of the counts come behind all fields. */
void record_count(struct driver *d, const char *field, uint64_t n);
/* ERR_MUTEX_LOST. */
MUST_CHECK enum err record_write(struct driver *d, struct error *e);
/* The same for the last write of a job: the record gets its end and the history an entry, in one step. */
void record_begin_end(struct driver *d, bool reset);
MUST_CHECK enum err record_write_end(struct driver *d, struct error *e);
/* Before a step is begun. A new job replaces the record at `plan`; the steps before are of the last one. */
MUST_CHECK enum err record_step(struct driver *d, enum job_step step, struct error *e);
/* Called often from loops: mutex lost, stop, abort asked for; every half second writes progress.
 * ERR_MUTEX_LOST, ERR_BUSY, ERR_CANCELLED. */
MUST_CHECK enum err driver_poll(struct driver *d, const char *waiting_for, struct error *e);

/* ERR_CANCELLED: an operator asked for an abort. */
MUST_CHECK enum err driver_abort_asked(struct driver *d, struct error *e);

/* --- driver_rows.c --- */
MUST_CHECK enum err driver_source(struct driver *d, struct error *e);
MUST_CHECK enum err driver_settle(struct driver *d, struct error *e);
MUST_CHECK enum err driver_scan(struct driver *d, struct error *e);
MUST_CHECK enum err driver_catch_up(struct driver *d, struct error *e);
MUST_CHECK enum err driver_verify(struct driver *d, struct error *e);
#endif
