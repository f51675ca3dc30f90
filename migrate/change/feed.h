/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_FEED_H
#define MIGRATE_CHANGE_FEED_H
/* A feed: rows that were inserted or updated, by their ids, whatever they were read from. The same row may
 * come more than once, and in any order. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"

struct feed_row {
    uint32_t relid; /* of the table, or of the partition that holds the row */
    const char
        *id; /* the values of the id columns in COPY's text form, a tab between them; no NUL behind it */
    size_t length;
};

/* Rows live until the next call that fetches some. */
struct feed_batch {
    size_t count;
    const struct feed_row *rows;
    uint64_t mark; /* what to confirm when all rows up to here are taken over; it may move where count is 0 */
    bool all; /* an outbox's: with this batch all was handed out that was committed when it was asked for */
};

/* Append one value in COPY's text form: backslash, tab, newline and the like as escapes. */
void feed_put_value(struct buffer *out, const char *bytes, size_t length);

/* Append the tab between two values of an id. */
void feed_put_separator(struct buffer *out);
#endif
