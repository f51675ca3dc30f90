/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_RECORD_CHECKPOINT_H
#define EXPANSION_RECORD_CHECKPOINT_H
/* The fields of a job's record that the next driver reads, and their text form. Pure; record.c does the
 * I/O. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "expansion/decide/step.h"
#include "migrate/source/readers.h"

enum { RECORD_TEXT_MAX = 512 };

/* Marks of one table of the source. */
struct table_mark {
    /* Every row with an id at or below it was committed, and is in the generation once the scan ended; "":
     * ids are not integers. */
    char low_water[SOURCE_ID_MAX];
    char upto[SOURCE_ID_MAX]; /* where the scan ends; "": at the table's end */
};

/* The job's record as the last driver wrote it. */
struct record {
    uint64_t id;         /* mutex_id() of the driver that began the job; 0: that driver wrote no id */
    uint64_t generation; /* the one that is built; 0: no record */
    uint64_t made;       /* the token under which the shards were made that have what was scanned */
    enum job_step step;
    bool running; /* its last driver did not record its end */
    bool settled;
    bool scan_ended;
    bool verify_full;
    bool unconfirmed; /* its rollback, if there is one, is for a generation that failed its verification */
    uint64_t rows, rows_total, skipped_null;
    uint64_t started_ms, switched_ms;
    uint64_t dead_generation, dead_at_build; /* of what this driver has built; see note_dead() */
    /* Progress of the scan: tables (for blocks: their parts) from next_table on are not begun; ranges are
     * what is left of those begun. */
    bool blocks;
    uint64_t tables_hash; /* hash of the names of the source's tables */
    uint64_t keys_hash;   /* source_keys_hash() */
    uint64_t source;      /* source_identity() before anything was read; positions are valid for it only */
    /* Partitions made before this transaction are part of the identity. The sweep finds all rows of later
     * ones, because their writers ended after the previous settle. "": all partitions are part of it. */
    char newest[SOURCE_HORIZON_MAX];
    unsigned tables, next_table;
    unsigned range_count; /* number recorded; the record is sound if as many were read */
    struct scan_range *ranges;
    unsigned ranges_taken;
    struct table_mark *marks; /* one per table */
    unsigned marks_taken;
    char horizon[SOURCE_HORIZON_MAX]; /* rows of transactions from this id on came after the build began */
    /* Rows of transactions before this id are in the generation once the scan ended. */
    char swept[SOURCE_HORIZON_MAX];
    uint64_t system;              /* source_history() of the server that gave these ids */
    char coverage[24];            /* the follower's, since before the settle; "": none */
    char healed[RECORD_TEXT_MAX]; /* what was wrong after the cutover and was repaired; "": nothing */
    char reason[RECORD_TEXT_MAX];
};

/* A zero-initialised record is empty. */
void record_fini(struct record *r);
/* Make room for this many ranges and marks. Existing ones keep their values; new ones are zero. False: no
 * memory. */
MUST_CHECK bool record_make_room(struct record *r, unsigned ranges, unsigned marks);

/* Read a field of the record; unused fields are ignored. The strings need no terminator. False: no driver
 * wrote such a value, and a partial reading could make the job skip rows; the field then counts as absent. Or
 * no memory. */
MUST_CHECK bool checkpoint_take(struct record *r, const char *name, size_t name_length, const char *value,
                                size_t value_length);

/* True if the fields fit together. */
MUST_CHECK bool checkpoint_is_sound(const struct record *r);

/* Give @fn the fields that a checkpoint of the scan writes and, with @settled, also those of the settle
 * before it. */
typedef void checkpoint_fn(void *arg, const char *field, const char *value);
void checkpoint_each(const struct record *r, bool settled, checkpoint_fn *fn, void *arg);
/* Give @fn the low-water marks. */
void checkpoint_marks(const struct record *r, checkpoint_fn *fn, void *arg);
#endif
