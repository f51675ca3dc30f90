/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_CHECKPOINT_H
#define EXPANSION_RECORD_CHECKPOINT_H
/* What the next driver reads of a job's record, and the text of its fields. Pure; record.c has the I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "expansion/decide/step.h"
#include "migrate/source/readers.h"

enum { RECORD_TEXT_MAX = 512 };

/* Of one table of the source. */
struct table_mark {
    char low_water[SOURCE_ID_MAX]; /* every row with an id at or below it was committed and is in the
                                    * generation, once the scan ended; "" where ids are no integers */
    char upto[SOURCE_ID_MAX];      /* where the scan ends; "": with the table */
};

/* The job's record as the last driver wrote it. */
struct record {
    uint64_t id;         /* mutex_id() of the driver that began it; 0: none knew of ids */
    uint64_t generation; /* the one that is built; 0: no record */
    enum job_step step;
    bool running; /* its last driver did not come to write its end */
    bool settled;
    bool scan_ended;
    bool verify_full;
    uint64_t rows, rows_total, skipped_null, skipped_empty;
    uint64_t started_ms, switched_ms;
    uint64_t dead_generation, dead_at_build; /* see record_kept() */
    /* Where the scan is: tables (of blocks: their parts) from next_table on, and what is left of those that
     * were begun. */
    bool blocks;
    uint64_t tables_hash; /* of the names of the source's tables */
    uint64_t source;      /* source_identity() as it was before anything was read: positions are its */
    /* Of the source's partitions those count in it that were made before this transaction. All rows of later
     * ones are for the sweep: whatever wrote them ended after the settle before it. "": all count */
    char newest[SOURCE_HORIZON_MAX];
    unsigned tables, next_table;
    unsigned range_count; /* as the checkpoint says; it is sound if so many were taken */
    struct scan_range *ranges;
    unsigned ranges_taken;
    struct table_mark *marks; /* by table */
    unsigned marks_taken;
    char horizon[SOURCE_HORIZON_MAX]; /* rows of transactions from it on came after the build began */
    char swept[SOURCE_HORIZON_MAX];   /* rows of transactions before it are in the generation, once the scan
                                         ended */
    char coverage[24];                /* of the tail, since before the settle; "": none */
    char healed[RECORD_TEXT_MAX];     /* what was wrong after the cutover, and was put right; "": nothing */
    char reason[RECORD_TEXT_MAX];
};

/* Zero-initialise a record. */
void record_fini(struct record *r);
/* Room for so many ranges and marks, which keep what they hold; what is new is zero. False: no memory. */
MUST_CHECK bool record_make_room(struct record *r, unsigned ranges, unsigned marks);

/* Take a field of the record; one that a driver does not read is passed over. Needs no terminator. False: no
 * driver wrote that value, which half understood could lead past rows; the field is as if it were absent. Or
 * no memory. */
MUST_CHECK bool checkpoint_take(struct record *r, const char *name, size_t name_length, const char *value,
                                size_t value_length);

/* Whether the fields fit together. */
MUST_CHECK bool checkpoint_is_sound(const struct record *r);

/* The fields that a checkpoint of the scan writes and, with @settled, those of the settle before it too. */
typedef void checkpoint_fn(void *arg, const char *field, const char *value);
void checkpoint_each(const struct record *r, bool settled, checkpoint_fn *fn, void *arg);
/* The low-water marks. */
void checkpoint_marks(const struct record *r, checkpoint_fn *fn, void *arg);
#endif
