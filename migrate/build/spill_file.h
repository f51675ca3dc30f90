/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_SPILL_FILE_H
#define MIGRATE_BUILD_SPILL_FILE_H
/* One nameless file that holds hashes by partition. It is gone with the process, however that ends. Hashes
 * come and go in chunks, each with its checksum; chunks of one partition lie together in extents, so that
 * reading one back is reading long runs. The file is for the process that wrote it: numbers are in its own
 * order of bytes. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "shard/filter/hash.h"

/* A chunk, as it is written: this, then @count hashes. The caller leaves room for it. */
struct spill_chunk {
    uint64_t checksum; /* XXH3-64 of all that follows */
    uint32_t magic;
    uint32_t partition;
    uint32_t count;
    uint32_t zero;
    uint64_t offset; /* in the file */
    struct key_hash hashes[];
};

enum { SPILL_CHUNK_BYTES_MAX = 256 * 1024, SPILL_EXTENT_BYTES = 1024 * 1024 };

struct spill_file;

/* In the directory @dir, with mode 0600. ERR_CONFIG: the directory cannot be used. ERR_IO. ERR_NOMEM. */
MUST_CHECK enum err spill_file_new(struct spill_file **out, const char *dir, uint32_t partitions,
                                   struct error *e);
void spill_file_free(struct spill_file *f);

/* Write @chunk, of at most SPILL_CHUNK_BYTES_MAX bytes in all, whose hashes and count are filled in. From any
 * thread. ERR_IO: also where there is no space; what is in the file is then of no use. ERR_NOMEM. */
MUST_CHECK enum err spill_file_append(struct spill_file *f, uint32_t partition, struct spill_chunk *chunk,
                                      struct error *e);

/* --- by one thread, while nobody appends --- */

bool spill_file_holds(const struct spill_file *f, uint32_t partition);
/* Give all hashes of a partition to @fn, some at a time; any other code than ERR_OK from it ends the reading.
 * ERR_IO: the file cannot be read, or is damaged; the text names the directory. */
typedef enum err spill_hashes_fn(void *arg, const struct key_hash *hashes, uint32_t count, struct error *e);
MUST_CHECK enum err spill_file_read(struct spill_file *f, uint32_t partition, spill_hashes_fn *fn, void *arg,
                                    struct error *e);
/* Forget them, and give their space back. */
void spill_file_forget(struct spill_file *f, uint32_t partition);

/* --- from any thread --- */

/* Bytes of chunks that were not forgotten; bytes that the file occupies on disk (roughly). */
uint64_t spill_file_live(const struct spill_file *f);
uint64_t spill_file_bytes(const struct spill_file *f);
#endif
