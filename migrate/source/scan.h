/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_SCAN_H
#define MIGRATE_SOURCE_SCAN_H
/* Rows of a source, page by page, each page in a short transaction of its own: by id (WHERE id > after AND id
 * <= upto ORDER BY id LIMIT n, never OFFSET), or in the order of the table's blocks. Rows come by COPY. */
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"
#include "migrate/source/source.h"

/* The rest of a table that is to be read. An id is in COPY's text form (with a backslash before bytes that
 * would end a line or a column), with a tab between columns. */
struct scan_range {
    unsigned table; /* index in the source; for blocks: in source_parts() */
    bool blocks;
    char after[SOURCE_ID_MAX]; /* exclusive; "": from the beginning. Blocks: number of the first one */
    /* Inclusive; "": to the end. For blocks: the number behind the last one; "": the whole table as one
     * page. */
    char upto[SOURCE_ID_MAX];
};

/* Keys in a buffer, each behind its length. Take up to @max of them, which live as long as the buffer is not
 * changed, from *@at on, 0 at first; returns their number. */
void scan_keep_key(struct buffer *keys, const char *key, size_t length);
size_t scan_kept_keys(const struct buffer *kept, size_t *at, size_t max, const char **keys, size_t *lengths);

/* @key NULL: SQL NULL. The key lives until the function returns. */
typedef void scan_row_fn(void *arg, const char *key, size_t length);

struct scan_options {
    size_t limit;                    /* rows per page; for blocks: blocks */
    const struct source_part *parts; /* for blocks */
    /* For blocks: only rows written by transactions with ids at or after this horizon; NULL: all rows. */
    const char *newer;
    unsigned timeout_ms; /* between two rows */
    scan_row_fn *row;
    void *arg;
};

/* Read the next page of @range, which advances when all of its rows were handed out; *@rows: their number.
 * *@ended: nothing is left. On error @range stays, though rows may have been handed out. ERR_TIMEOUT.
 * ERR_UNREACHABLE: the connection is lost, open the source again. ERR_CHANGED: the part was rewritten, so its
 * blocks hold other rows. Or the watch's error. */
MUST_CHECK enum err scan_page(struct source *s, struct scan_range *range, const struct scan_options *o,
                              size_t *rows, bool *ended, struct error *e);

/* Read the keys of the rows of @table with these @ids. */
MUST_CHECK enum err scan_keys_of(struct source *s, unsigned table, const char *const *ids, size_t count,
                                 const struct scan_options *o, struct error *e);

/* A random sample of about @count keys of rows that were written by transactions with ids before @horizon
 * ("": all rows); large tables use TABLESAMPLE. Calls @fn for each key (not NULL). */
MUST_CHECK enum err scan_sample(struct source *s, const char *horizon, size_t count, scan_row_fn *fn,
                                void *arg, struct error *e);
#endif
