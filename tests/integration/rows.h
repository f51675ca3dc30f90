/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_ROWS_H
#define TESTS_INTEGRATION_ROWS_H
/* Shared parts of the tests of the scan: a record of the rows that were read. The number after the first
 * letter of its key identifies a row. */
#include <stddef.h>

#include "migrate/source/scan.h"

enum { ROWS_MAX = 4096, ROWS_WAIT_MS = 20000 };

struct rows {
    unsigned char times[ROWS_MAX]; /* how often each row was seen */
    size_t count, nulls, empty;
};

/* A scan_row_fn whose argument is a struct rows. */
scan_row_fn rows_note;

/* Each third row of [from, to], as database_short_links() numbers them, must have been seen once, and no
 * other. */
void rows_expect(const struct rows *rows, unsigned from, unsigned to);

/* Read @range, which is changed, to its end, in pages of @limit rows (a range of blocks: blocks of @parts,
 * all rows). Returns how many pages had rows. */
size_t rows_read(struct source *s, struct scan_range *range, const struct source_part *parts, size_t limit,
                 scan_row_fn *fn, void *arg);

/* Read table @table of @s by id from @after to @upto. */
size_t rows_between(struct source *s, unsigned table, const char *after, const char *upto, size_t limit,
                    scan_row_fn *fn, void *arg);

/* The parts of a source. Release the list with free(). */
struct rows_parts {
    struct source_part *list;
    size_t count;
};
struct rows_parts rows_parts(struct source *s);
/* The range of all blocks of a part, or of a whole table. */
struct scan_range rows_part_range(const struct rows_parts *parts, unsigned part);
/* Read the rows of a source that are newer than the horizon @newer (NULL: all), by blocks, in pages of
 * @limit. */
void rows_newer(struct source *s, const char *newer, size_t limit, struct rows *rows);

/* A scan_row_fn that does nothing. */
scan_row_fn rows_ignore;

/* A scan_row_fn that appends the key and a bar to a struct buffer. */
scan_row_fn rows_join;
#endif
