/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_READERS_H
#define MIGRATE_SOURCE_READERS_H
/* Several threads, each with its own connection, read disjoint ranges of a source. The owner controls them
 * from its own thread: their progress, rate, pauses and end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/timing.h"
#include "migrate/source/scan.h"

enum { READERS_MAX = 64, READERS_RANGES_MAX = 3 * READERS_MAX };

struct readers;

/* What to read: first @ranges; then the tables (for blocks: the parts) from @next_table on, each cut into
 * ranges for all readers when its turn comes. */
struct readers_work {
    bool blocks;
    unsigned next_table, tables;
    struct scan_range *ranges; /* borrowed, copied; `blocks` tells their kind */
    size_t range_count;
    /* By table: read at least up to this id; NULL or "": to the table's end. Borrowed. */
    const char (*upto)[SOURCE_ID_MAX];
    const struct source_part *parts; /* for blocks; borrowed */
    const char *newer;               /* see struct scan_options; borrowed */
    const char *snapshot; /* for blocks: a source_snapshot_take(); NULL: each page has its own; borrowed */
    bool primary;         /* read from the primary, not the standby */
};

struct readers_options {
    const struct source *source; /* resolved; each reader opens a source like it */
    const char *dsn;             /* NULL, "": that of @source */
    /* A source_barrier(): each reader waits until its server shows everything up to there, at most for
     * @timeout_ms (ERR_TIMEOUT). NULL, "": it does not. Borrowed. */
    const char *barrier;
    unsigned count;
    unsigned at_once; /* see readers_pace() */
    unsigned timeout_ms;
    unsigned page_ms;       /* target duration of a page */
    size_t page_rows;       /* at most, of a page */
    struct timing *timing;  /* borrowed; records durations of pages. NULL: none */
    double rows_per_second; /* see readers_pace() */
    struct readers_work work;
    /* Reader @i's thread calls @row for each row, and @page after all rows of a page. The rows of a page that
     * failed are handed out again. @page may wait; ERR_CANCELLED from it ends the reader. While @is_full
     * (NULL: it never is) is true no page begins. */
    void (*row)(void *arg, unsigned i, const char *key, size_t length);
    enum err (*page)(void *arg, unsigned i, struct error *e);
    bool (*is_full)(const void *arg);
    void *arg;
};

struct readers_progress {
    uint64_t rows, skipped_null; /* counts of complete pages */
    double page_ms;              /* duration of the last page */
};

/* Strings are borrowed until readers_stop(). ERR_NOMEM; ERR_RANGE: more than READERS_RANGES_MAX ranges. */
MUST_CHECK enum err readers_start(struct readers **out, const struct readers_options *o, struct error *e);
/* Stop the readers (statements are cancelled), join the threads, free. */
void readers_stop(struct readers *r);

/* ERR_TIMEOUT: a server that @dsn ("": that of the source) leads to does not show a barrier. */
enum err readers_not_replayed(const char *dsn, const struct source_replay *replay, struct error *e);

/* True: all is read, or a reader failed, as *@code and @e tell. Waits for that, at most @wait_ms. */
bool readers_ended(struct readers *r, unsigned wait_ms, enum err *code, struct error *e);
void readers_progress(struct readers *r, struct readers_progress *out);
/* How many readers Postgres does not let in, while others read all; *@why: the reason. */
unsigned readers_left_out(struct readers *r, struct error *why);
/* What is left to read: the next table to begin, and the unfinished ranges, whose number is returned. All
 * other rows were handed out, and their pages ended, before this call. *@done (NULL: not wanted) counts
 * exactly those. */
size_t readers_left(struct readers *r, unsigned *next_table, struct scan_range ranges[READERS_RANGES_MAX],
                    struct readers_progress *done);
/* Rows per second of all readers together, 0: no limit; and how many readers may be in a page at the same
 * time, at least 1, 0: all. Pages under way end normally. */
void readers_pace(struct readers *r, double rows_per_second, unsigned at_once);
/* Let no reader begin a page from now on. True once no reader is in a page. */
bool readers_rest(struct readers *r);
void readers_go_on(struct readers *r);
#endif
