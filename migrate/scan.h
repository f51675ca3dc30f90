/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SCAN_H
#define MIGRATE_SCAN_H
/* Keyset scan: pages WHERE id > after AND id <= upto ORDER BY id LIMIT n, never OFFSET. The next page is
 * asked for before the present one is handed out, so that Postgres reads while the caller hashes. Each page
 * is its own short transaction. */
#include <stddef.h>
#include <stdint.h>
#include "migrate/source.h"

enum { SCAN_ID_MAX = 256 };

struct scan;

struct scan_row {
    const char *key; /* NULL for SQL NULL */
    size_t length;
};

/* A page lives until the next scan_next() or scan_close(). NULL and empty keys are in it; the caller skips
 * them. */
struct scan_page {
    size_t count;
    const struct scan_row *rows;
    char last_id[SCAN_ID_MAX]; /* of the last row: where to go on */
};

/* @after: exclusive lower bound, "" for the beginning. @upto: inclusive upper bound, "" for none. One scan at
 * a time on a source; other source functions must not be called until scan_close(). */
MUST_CHECK enum err scan_open(struct scan **out, struct source *s, const char *after, const char *upto,
                              size_t page_rows, struct error *e);

/* The next page; page->count == 0 at the end. ERR_TIMEOUT after @timeout_ms without the page;
 * ERR_UNREACHABLE: the connection is gone: close scan and source and open both again at the last page's id.
 * Or what the watch says. */
MUST_CHECK enum err scan_next(struct scan *scan, struct scan_page *page, unsigned timeout_ms,
                              struct error *e);
/* Take what has come of the next page, without waiting. Call it now and then while working on a long page:
 * else Postgres waits, its socket full, until the work is done. */
void scan_take(struct scan *scan);
void scan_close(struct scan *scan);

/* A random sample of about @count keys whose id is <= @upto ("" for none), by TABLESAMPLE where the table is
 * large. Calls @fn for each (key not NULL, not empty). */
typedef void scan_sample_fn(void *arg, const char *key, size_t length);
MUST_CHECK enum err scan_sample(struct source *s, const char *upto, size_t count, scan_sample_fn *fn,
                                void *arg, struct error *e);
#endif
