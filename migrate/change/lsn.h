/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_CHANGE_LSN_H
#define MIGRATE_CHANGE_LSN_H
/* Log sequence numbers: positions in the write-ahead log, which Postgres writes as 16/B374D848. */
#include <stdbool.h>
#include <stdint.h>

enum { LSN_TEXT = 18 }; /* bytes, including the NUL */

/* False: @text is not an LSN. */
bool lsn_parse(const char *text, uint64_t *out);

/* Write @lsn to @out and return @out. */
const char *lsn_format(uint64_t lsn, char out[LSN_TEXT]);

/* The end of the last record before an insert position. When a page of the WAL is new and empty, Postgres
 * reports the insert position behind the page's header. A reader does not get there before the next record,
 * so nobody may wait for that position. @block and @segment: wal_block_size and wal_segment_size, bytes. */
uint64_t lsn_record_end(uint64_t insert, uint64_t block, uint64_t segment);
#endif
