/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_SPILL_FILE_H
#define MIGRATE_BUILD_SPILL_FILE_H
/* One unlinked file that holds hashes by partition. It vanishes with the process, however the process ends.
 * Hashes are written and read in chunks with a checksum. Chunks of one partition lie together in extents, so
 * that a partition is read in long runs. Only the process that wrote the file reads it, so numbers are in
 * native byte order. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

/* A chunk as written: this header, then @count hashes. The caller leaves room for the header. */
struct spill_chunk {
    uint64_t checksum; /* XXH3-64 of the rest of the chunk */
    uint32_t partition;
    uint32_t count;
    uint64_t offset; /* the chunk's place in the file */
    struct key_hash hashes[];
};

enum { SPILL_CHUNK_BYTES_MAX = 256 * 1024, SPILL_EXTENT_BYTES = 1024 * 1024 };

struct spill_file;

/* Make the file in directory @dir, with mode 0600. ERR_CONFIG: the directory cannot be used. ERR_IO.
 * ERR_NOMEM. */
MUST_CHECK enum err spill_file_new(struct spill_file **out, const char *dir, uint32_t partitions,
                                   struct error *e);
void spill_file_free(struct spill_file *f);

/* Write @chunk, of at most SPILL_CHUNK_BYTES_MAX bytes in all, whose hashes and count the caller has filled
 * in. From any thread. ERR_IO: also if the disk is full; the file's contents are then unusable. ERR_NOMEM. */
MUST_CHECK enum err spill_file_append(struct spill_file *f, uint32_t partition, struct spill_chunk *chunk,
                                      struct error *e);

/* --- for one thread, while no thread appends --- */

bool spill_file_holds(const struct spill_file *f, uint32_t partition);
/* Give all hashes of a partition to @fn, in several calls; any code but ERR_OK from @fn ends the reading.
 * ERR_IO: the file cannot be read or is damaged; the text names the directory. */
typedef enum err spill_hashes_fn(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e);
MUST_CHECK enum err spill_file_read(struct spill_file *f, uint32_t partition, spill_hashes_fn *fn, void *arg,
                                    struct error *e);
/* Drop the hashes of a partition and free their space. */
void spill_file_forget(struct spill_file *f, uint32_t partition);

/* --- from any thread --- */

/* Bytes of chunks that were not dropped; bytes that the file occupies on disk (roughly). */
uint64_t spill_file_live(const struct spill_file *f);
uint64_t spill_file_bytes(const struct spill_file *f);
#endif
