/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_KEYS_CLI_FILE_H
#define SERVICE_CLI_KEYS_CLI_FILE_H
/* The file that "twinbloom dump" writes and "twinbloom restore" reads:
 *   "TWBLFILE", u32 version, u32 0
 *   for each piece: u64 position, u32 length, u32 0, the bytes, u64 XXH3-64 of all that
 *   u64 0, u32 0, u32 0, u64 number of pieces, u64 the chain of their checksums: XXH3-64 of each, its seed
 *   being the one before it (0 for the first)
 * Numbers are little-endian. Only the service understands a piece. A file without its end was cut. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "base/buffer.h"
#include "base/error.h"

enum { FILE_PIECE_MAX = 16 << 20 };

struct dump_file {
    FILE *stream;   /* the caller's; all else is 0 before the first call */
    uint64_t bytes; /* bytes read or written so far */
    uint64_t count; /* pieces */
    uint64_t sum;   /* checksum over the pieces' checksums */
};

/* ERR_IO. */
MUST_CHECK enum err dump_file_write_start(struct dump_file *f, struct error *e);
MUST_CHECK enum err dump_file_write(struct dump_file *f, uint64_t position, const void *bytes, size_t length,
                                    struct error *e);
MUST_CHECK enum err dump_file_write_end(struct dump_file *f, struct error *e);

/* ERR_PARSE: not such a file. ERR_LOST: the file is cut here. ERR_IO. */
MUST_CHECK enum err dump_file_read_start(struct dump_file *f, struct error *e);
/* Read the next piece into @bytes, which is cleared first; *@end: there is none, the file is complete. */
MUST_CHECK enum err dump_file_read(struct dump_file *f, uint64_t *position, struct buffer *bytes, bool *end,
                                   struct error *e);
#endif
