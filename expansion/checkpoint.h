/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_CHECKPOINT_H
#define EXPANSION_CHECKPOINT_H
/* What the next driver reads of a job's record, and the text of its fields. Pure; record.c has the I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "expansion/step.h"
#include "migrate/scan.h"

enum { RECORD_TEXT_MAX = 512 };

/* The job's record as the last driver wrote it. */
struct record {
    uint64_t generation; /* the one that is built; 0: no record */
    enum job_step step;
    bool running; /* its last driver did not come to write its end */
    bool settled;
    bool scan_ended;
    bool verify_full;
    /* The scan goes from row to row into one layer, and into the next one from where that is full. What is
     * read into one layer is a segment. It takes several passes where its bitmaps do not fit into memory. */
    unsigned layer; /* of the present segment */
    unsigned pass;  /* of the checkpoint when read, then of this driver */
    unsigned
        passes; /* that the checkpoint's driver needed: with another number its passes hold other shards */
    uint64_t rows, rows_total, skipped_null, skipped_empty;
    uint64_t segment_rows; /* rows when the segment began */
    uint64_t started_ms, switched_ms;
    char segment_after[SCAN_ID_MAX]; /* bounds of the segment; "": none, and until it is closed `upto` */
    char segment_upto[SCAN_ID_MAX];
    char last_id[SCAN_ID_MAX];   /* of the checkpoint */
    char low_water[SCAN_ID_MAX]; /* every row with an id at or below it was committed and is in the
                                  * generation, once the scan ended */
    char upto[SCAN_ID_MAX];      /* where the scan ends */
    char horizon[24];            /* transaction id: rows that carry it or a later one came after the fence */
    char reason[RECORD_TEXT_MAX];
};

/* Take a field of the record; one that a driver does not read is passed over. Needs no terminator. False: no
 * driver wrote that value, which half understood could lead past rows; the field is as if it were absent. */
MUST_CHECK bool checkpoint_take(struct record *r, const char *name, size_t name_length, const char *value,
                                size_t value_length);

/* Whether the fields fit together, and into a generation of @layers layers. */
MUST_CHECK bool checkpoint_is_sound(const struct record *r, unsigned layers);

/* The fields that a checkpoint of the scan writes and, with @settled, those of the settle before it too. */
typedef void checkpoint_fn(void *arg, const char *field, const char *value);
void checkpoint_each(const struct record *r, bool settled, checkpoint_fn *fn, void *arg);
#endif
