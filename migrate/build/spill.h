/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_SPILL_H
#define MIGRATE_BUILD_SPILL_H
/* Hashes of several threads on disk, by partition, in two files. While one thread reads one file, the writers
 * fill the other. A writer takes a lock only at the beginning and at the end of a page. */
#include <stdbool.h>
#include <stdint.h>
#include "migrate/build/log_output.h"
#include "migrate/build/partitions.h"
#include "migrate/build/spill_file.h"

enum {
    SPILL_BUFFERS_BYTES = 16 * 1024 * 1024, /* bytes of all writers together, at most */
    SPILL_BUFFER_BYTES_MIN = 256            /* per writer and partition, with 64 writers, 1024 partitions */
};

struct spill;
struct spill_writer;

enum { BUILD_WRITERS_MAX = 64 };

/* Of a build, or of a compare (migrate/verify/compare.h). Strings are borrowed to its end. */
struct build_options {
    uint64_t memory;       /* bytes of bitmaps at most, but at least one shard (of each layer) is held */
    unsigned writers;      /* 1 .. BUILD_WRITERS_MAX */
    const char *spill_dir; /* NULL or "": no spilling; all bitmaps must fit */
    uint64_t spill_bytes;  /* disk space at which build_is_full(); later hashes are still accepted */
    /* Called during a flush, a load or a finish; it may use the builder's connection. */
    struct work poll;
};

/* Plan the partitions of all @layers layers @g, and make the files for @writers if they are several; else
 * *@out stays NULL. ERR_RANGE: the number of writers. ERR_CONFIG: memory or spill_dir is unsuitable; the text
 * says what is needed. ERR_IO, ERR_NOMEM. */
MUST_CHECK enum err spill_plan(struct spill **out, struct partitions *p, const struct geometry *g,
                               unsigned layers, const struct build_options *o, unsigned writers,
                               struct error *e);

/* Make the files in @dir, which is not "". @writers: 1 to 64, @partitions: 1 to 1024. ERR_CONFIG: the
 * directory cannot be used. ERR_IO, ERR_NOMEM. */
MUST_CHECK enum err spill_new(struct spill **out, const char *dir, uint32_t partitions, unsigned writers,
                              struct error *e);
void spill_free(struct spill *s);

/* --- writers: one thread at a time uses each --- */

struct spill_writer *spill_writer(struct spill *s, unsigned index);
/* If a hash cannot be written, it and all later ones are dropped; spill_page_end() and the reader's functions
 * report that. */
void spill_put(struct spill_writer *w, uint32_t partition, struct key_hash h);
/* Make all that was put before readable. A thread calls this also before it waits for anything, or ends.
 * ERR_IO, of any writer. */
MUST_CHECK enum err spill_page_end(struct spill_writer *w, struct error *e);

/* --- the reader: one thread --- */

/* Move all that was put before into the sealed file; writers go on with the other file. Waits until all
 * writers have ended their page, and calls @periodic meanwhile. If the sealed file still has hashes, the call
 * does nothing; if a seal was begun, the call completes it. ERR_IO, of any writer. ERR_TIMEOUT: a writer does
 * not end its page. The error of @periodic. */
MUST_CHECK enum err spill_seal(struct spill *s, struct periodic *periodic, struct error *e);
/* True if a seal was begun and not completed, or the sealed file still has hashes. */
bool spill_is_sealed(const struct spill *s);
/* The sealed file, for spill_file_holds(), spill_file_read() and spill_file_forget(). */
struct spill_file *spill_sealed(const struct spill *s);

/* Give each partition of what was put before to @fn, and forget it when @fn has read it. What an earlier call
 * that failed has sealed comes first. Errors as of spill_seal(), or of @fn. */
typedef enum err spill_partition_fn(void *arg, uint32_t partition, struct error *e);
MUST_CHECK enum err spill_drain(struct spill *s, struct periodic *periodic, spill_partition_fn *fn, void *arg,
                                struct error *e);

/* Bytes on disk. From any thread. */
uint64_t spill_bytes(const struct spill *s);
#endif
