/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_FEED_H
#define MIGRATE_FEED_H
/* Rows that changed in the source's tables, as a stream or an outbox tells of them. */
#include <stddef.h>
#include <stdint.h>

struct feed_row {
    uint32_t relid; /* of the table, or of the partition that holds the row */
    const char *id; /* values of the id columns in COPY's text form, a tab between columns */
    size_t length;
};

/* Lives until the next call for the same feed. */
struct feed_batch {
    size_t count;
    const struct feed_row *rows;
    uint64_t mark; /* to confirm when all rows up to here were taken over */
};
#endif
