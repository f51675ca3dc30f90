/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_READING_H
#define TESTS_INTEGRATION_READING_H
/* Shared parts of the tests of readers: tables whose rows are numbered from 0 on over all tables, and a
 * record, page by page, of the rows that were read. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "migrate/source/readers.h"
#include "tests/integration/database.h"

#define READING_TABLES "r_none, r_large, r_small, r_empty, r_few, r_medium"
enum { READING_ROWS = 231003, READING_READERS = 4, READING_PAGE_ROWS = 5000 };

struct reading_pending {
    uint32_t *rows;
    size_t count, room;
};

struct reading {
    pthread_mutex_t lock;
    unsigned times[READING_ROWS]; /* how often a row was handed out in pages that ended */
    unsigned first[READING_ROWS]; /* after how many pages it came first; 0: it did not come */
    unsigned pages;
    struct reading_pending pending[READERS_MAX];
    unsigned nap_us;                /* the least time for a page; set before readers are started */
    unsigned at_once, most_at_once; /* pages that sleep for that time */
    unsigned fail_at;               /* the page that fails, with ERR_FULL; 0: none */
};

/* Make the tables of READING_TABLES, one of which has 210,000 rows. */
void reading_tables(PGconn *pg);

struct reading *reading_new(void);
void reading_free(struct reading *reading);

/* Options of readers of @s that note rows in @reading; @blocks NULL: by ids. */
struct readers_options reading_options(struct reading *reading, const struct source *s,
                                       const struct source_part *blocks, size_t block_count);
struct readers *reading_start(const struct readers_options *o);

/* Wait for the end; ERR_OK is expected. */
void reading_end(struct readers *r);
/* How many pages have ended. */
unsigned reading_pages(struct reading *reading);
/* How many pages were under way at the same time, at the most. */
unsigned reading_most_at_once(struct reading *reading);
/* Wait until @pages pages have ended in total. */
void reading_wait(struct reading *reading, unsigned pages);

/* The ranges that are left, the progress of these readers, and the number of pages that had ended by then. */
struct reading_left {
    struct readers_progress done;
    unsigned next_table;
    size_t count;
    struct scan_range ranges[READERS_RANGES_MAX];
    unsigned pages;
};
void reading_left(struct reading *reading, struct readers *r, struct reading_left *out);

/* Forget the rows that came later, as if the process that takes rows had died at that moment. */
void reading_forget(struct reading *reading, const struct reading_left *left);

/* By ids: each row must have come by then, or be in the ranges that are left. */
void reading_expect_left(struct reading *reading, const struct reading_left *left);
/* Each row must have come; with @once, exactly once. */
void reading_expect_all(struct reading *reading, bool once);
#endif
