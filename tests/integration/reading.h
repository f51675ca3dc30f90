/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_READING_H
#define TESTS_INTEGRATION_READING_H
/* What tests of readers share: tables whose rows have a number each, all together from 0 on, and who notes
 * which of them came, page by page. */
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
    unsigned first[READING_ROWS]; /* after how many pages for the first time; 0: it was not */
    unsigned pages;
    struct reading_pending pending[READERS_MAX];
    unsigned nap_us;                /* a page takes so long at the least; set before readers are started */
    unsigned at_once, most_at_once; /* pages that are in that time */
    unsigned fail_at;               /* the page that fails, with ERR_FULL; 0: none */
};

/* The tables of READING_TABLES: one with 210,000 rows. */
void reading_tables(PGconn *pg);

struct reading *reading_new(void);
void reading_free(struct reading *reading);

/* Readers of @s into @reading; @blocks NULL: by ids. */
struct readers_options reading_options(struct reading *reading, const struct source *s,
                                       const struct source_part *blocks, size_t block_count);
struct readers *reading_start(const struct readers_options *o);

/* Wait for the end; ERR_OK is expected. */
void reading_end(struct readers *r);
/* How many pages have ended. */
unsigned reading_pages(struct reading *reading);
/* How many pages were under way at the same time, at the most. */
unsigned reading_most_at_once(struct reading *reading);
/* Wait until @pages pages have ended, of all. */
void reading_wait(struct reading *reading, unsigned pages);

/* What is left, what these readers have read, and the pages that had ended by then. */
struct reading_left {
    struct readers_progress done;
    unsigned next_table;
    size_t count;
    struct scan_range ranges[READERS_RANGES_MAX];
    unsigned pages;
};
void reading_left(struct reading *reading, struct readers *r, struct reading_left *out);

/* As if whoever takes the rows had died at that moment: what came later was never seen. */
void reading_forget(struct reading *reading, const struct reading_left *left);

/* By ids: each row had come by then, or is among what is left. */
void reading_expect_left(struct reading *reading, const struct reading_left *left);
/* Each row came; @once: and no more than once. */
void reading_expect_all(struct reading *reading, bool once);
#endif
