/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_SPILL_H
#define MIGRATE_BUILD_SPILL_H
/* Hashes of several threads, by partition, on disk: two files. While one thread reads one of them the writers
 * fill the other. Writers take no lock but at the beginning and at the end of a page. */
#include <stdbool.h>
#include <stdint.h>
#include "migrate/build/periodic.h"
#include "migrate/build/spill_file.h"

enum {
    SPILL_BUFFERS_BYTES = 16 * 1024 * 1024, /* of all writers together, at most */
    SPILL_BUFFER_BYTES_MIN = 256            /* a writer's, of a partition: 64 writers, 1024 partitions */
};

struct spill;
struct spill_writer;

/* Files in @dir, which is not empty. @writers: 1 to 64, @partitions: 1 to 1024. ERR_CONFIG: the directory
 * cannot be used. ERR_IO, ERR_NOMEM. */
MUST_CHECK enum err spill_new(struct spill **out, const char *dir, uint32_t partitions, unsigned writers,
                              struct error *e);
void spill_free(struct spill *s);

/* --- writers: each by one thread at a time --- */

struct spill_writer *spill_writer(struct spill *s, unsigned index);
/* Where a hash cannot be written it is dropped, and all that follow are: spill_page_end() and the reader's
 * functions say so. */
void spill_put(struct spill_writer *w, uint32_t partition, struct key_hash h);
/* What was put before may be read. Also what a thread does before it waits for anything, or ends. ERR_IO, of
 * any writer. */
MUST_CHECK enum err spill_page_end(struct spill_writer *w, struct error *e);

/* --- the reader: one thread --- */

/* Have all that was put before be in the sealed file, and writers go on with the other one. Waits until all
 * writers have ended the page that they are at, which bounds it; asks @periodic meanwhile. Where the sealed
 * file still has hashes nothing is done; where a seal was begun it is ended. ERR_IO, of any writer.
 * ERR_TIMEOUT: a writer does not end its page. What @periodic says. */
MUST_CHECK enum err spill_seal(struct spill *s, struct periodic *periodic, struct error *e);
/* True where a seal was begun and not ended, or the sealed file still has hashes. */
bool spill_is_sealed(const struct spill *s);
/* Of the sealed file: whether it has hashes of a partition; then as spill_file_read(), spill_file_forget().
 */
bool spill_holds(const struct spill *s, uint32_t partition);
MUST_CHECK enum err spill_read(struct spill *s, uint32_t partition, spill_hashes_fn *fn, void *arg,
                               struct error *e);
void spill_forget(struct spill *s, uint32_t partition);

/* Bytes on disk. From any thread. */
uint64_t spill_bytes(const struct spill *s);
#endif
