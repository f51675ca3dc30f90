/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_FEED_H
#define MIGRATE_CHANGE_FEED_H
/* A change feed: ids of rows that were inserted or updated, from an outbox or a replication stream. A row may
 * come more than once, and in any order. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct feed_row {
    uint32_t relid; /* the table's, or that of the partition that holds the row */
    const char *id; /* values of the id columns in COPY's text form, separated by tabs */
    size_t length;
};

/* The rows live until the next call that fetches some. */
struct feed_batch {
    size_t count;
    const struct feed_row *rows;
    uint64_t mark; /* confirm it when all rows up to here are taken over; it may advance even if count is 0 */
    bool all;      /* outbox only: all rows that were committed when it was read have been handed out */
};
#endif
