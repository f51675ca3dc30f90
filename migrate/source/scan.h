/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SCAN_H
#define MIGRATE_SOURCE_SCAN_H
/* Rows of a source, page by page, each page a short transaction of its own: in the order of the ids
 * (WHERE id > after AND id <= upto ORDER BY id LIMIT n, never OFFSET), or in the order in which they lie in
 * the table's blocks. Rows come by COPY. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "migrate/source/source.h"

/* What is still to be read of a table. An id is in COPY's text form (a backslash before what would end a line
 * or a column), a tab between columns. */
struct scan_range {
    unsigned table; /* of the source; of blocks: of source_parts() */
    bool blocks;
    char after[SOURCE_ID_MAX]; /* exclusive; "": from the beginning. Of blocks: number of the first one */
    char upto[SOURCE_ID_MAX];  /* inclusive; "": none. Of blocks: number behind the last one; "": the whole
                                * table  in one page */
};

/* @key NULL: SQL NULL. It lives until the function returns. */
typedef void scan_row_fn(void *arg, const char *key, size_t length);

struct scan_options {
    size_t limit;                    /* rows of a page; of blocks: blocks */
    const struct source_part *parts; /* of blocks */
    const char *newer;   /* of blocks: only rows written by transactions that got their id at or after this
                            horizon; NULL: all */
    unsigned timeout_ms; /* without a further row */
    scan_row_fn *row;
    void *arg;
};

/* Read the next page of @range, which is moved behind it when all of its rows were handed out; *@rows of
 * them.
 * *@ended: nothing is left. On error @range stays, rows may have been handed out. ERR_TIMEOUT,
 * ERR_UNREACHABLE: the connection is gone, open the source again. ERR_CHANGED: the part was written again,
 * its blocks hold other rows than they did. Or what the watch says. */
MUST_CHECK enum err scan_page(struct source *s, struct scan_range *range, const struct scan_options *o,
                              size_t *rows, bool *ended, struct error *e);

/* The keys of rows of @table whose @ids are known. */
MUST_CHECK enum err scan_keys_of(struct source *s, unsigned table, const char *const *ids, size_t count,
                                 const struct scan_options *o, struct error *e);

/* A random sample of about @count keys of rows that were written by transactions which got their id before
 * @horizon ("": of all), by TABLESAMPLE where a table is large. Calls @fn for each (key not NULL, not empty).
 */
MUST_CHECK enum err scan_sample(struct source *s, const char *horizon, size_t count, scan_row_fn *fn,
                                void *arg, struct error *e);
#endif
