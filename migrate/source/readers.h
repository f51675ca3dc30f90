/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_READERS_H
#define MIGRATE_SOURCE_READERS_H
/* Several threads, each with a connection of its own, read disjoint ranges of a source. Whoever started them
 * looks after them from its own thread: how far they are, how fast they may be, when they rest, how they
 * ended. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/timing.h"
#include "migrate/source/scan.h"

enum { READERS_MAX = 64, READERS_RANGES_MAX = 3 * READERS_MAX };

struct readers;

/* How the work is spread. Ranges first; then tables (of blocks: parts) from @next_table on, cut into ranges
 * for all readers when their turn comes. */
struct readers_work {
    bool blocks;
    unsigned next_table, tables;
    struct scan_range *ranges; /* borrowed, copied; all are of blocks, or none, as `blocks` says */
    size_t range_count;
    const char (*upto)[SOURCE_ID_MAX]; /* by table: as far as it is read at the least; NULL, "": to
                                          its end. Borrowed */
    const struct source_part *parts;   /* of blocks; borrowed */
    const char *newer;                 /* as in scan_options; borrowed */
    bool primary;                      /* not from the standby */
};

struct readers_options {
    const struct source *source; /* resolved; each reader opens another one like it */
    const char *dsn;             /* NULL, "": as @source */
    unsigned count;
    unsigned at_once; /* as readers_at_once() */
    unsigned timeout_ms;
    unsigned page_ms;       /* how long a page should take */
    size_t page_rows;       /* and how many rows it has at the most */
    struct timing *timing;  /* borrowed; how long pages take is recorded there. NULL: nowhere */
    double rows_per_second; /* as readers_limit() */
    struct readers_work work;
    /* Called by reader @i's thread: for each row, and behind each page, whose rows are all handed out then. A
     * page that failed is handed out again. @page may wait; ERR_CANCELLED ends the reader. */
    void (*row)(void *arg, unsigned i, const char *key, size_t length);
    enum err (*page)(void *arg, unsigned i, struct error *e);
    void *arg;
};

struct readers_progress {
    uint64_t rows, skipped_null, skipped_empty; /* of pages that are complete */
    double page_ms;                             /* of the last page */
};

/* Strings are borrowed until readers_stop(). ERR_NOMEM; ERR_RANGE: more than READERS_RANGES_MAX ranges. */
MUST_CHECK enum err readers_start(struct readers **out, const struct readers_options *o, struct error *e);
/* Stop what is under way (a statement is cancelled), join, free. */
void readers_stop(struct readers *r);

/* True: all is read, or a reader failed, then *@code and @e say how. Waits up to @wait_ms for it. */
bool readers_ended(struct readers *r, unsigned wait_ms, enum err *code, struct error *e);
void readers_progress(struct readers *r, struct readers_progress *out);
/* What is left: the table to begin next, and the ranges that were begun, returns how many; every row of what
 * is not among them was handed out, and its page ended, before this call. *@done (NULL: not wanted) counts
 * just these. */
size_t readers_left(struct readers *r, unsigned *next_table, struct scan_range ranges[READERS_RANGES_MAX],
                    struct readers_progress *done);
/* Rows a second, all together; 0: no limit. */
void readers_limit(struct readers *r, double rows_per_second);
/* How many may be in a page at the same time, at least 1; 0: all. Pages that are under way end. */
void readers_at_once(struct readers *r, unsigned count);
/* No reader begins a page from now on. True when none is in one. */
bool readers_rest(struct readers *r);
void readers_go_on(struct readers *r);
#endif
