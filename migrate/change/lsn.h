/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_LSN_H
#define MIGRATE_CHANGE_LSN_H
/* Positions in the write-ahead log, and how Postgres writes them: 16/B374D848. */
#include <stdbool.h>
#include <stdint.h>

enum { LSN_TEXT = 18 }; /* with the NUL */

/* False: @text is none. */
bool lsn_parse(const char *text, uint64_t *out);

/* Writes into @out and returns it. */
const char *lsn_format(uint64_t lsn, char out[LSN_TEXT]);

/* Where the last record before an insert position ends. Postgres tells the insert position behind the header
 * of a page that holds nothing else yet; who waits for a reader of the log to come there would wait for the
 * next record. @block and @segment: wal_block_size and wal_segment_size in bytes. */
uint64_t lsn_record_end(uint64_t insert, uint64_t block, uint64_t segment);
#endif
