/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_BUILD_H
#define MIGRATE_BUILD_BUILD_H
/* Puts hashes from several threads into the shards of one layer in Redis. If the bitmaps of all shards fit
 * into memory, the writers set bits in them. If not, hashes are spilled to files by ranges of shards, and
 * each range gets its bitmaps during a flush. Either way the source is read once.
 *
 * The driver's thread makes all calls but those of the writers, and only this thread uses the output. */
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/build/log_output.h"
#include "migrate/build/periodic.h"
#include "shard/filter/generation.h"
#include "shard/filter/hash.h"

enum { BUILD_WRITERS_MAX = 64 };

struct build;
struct build_writer;

/* Of a build, or of a compare (migrate/verify/compare.h), which does not use the last three. Pointers are
 * borrowed to its end. */
struct build_options {
    uint64_t memory;       /* bytes of bitmaps at most, but at least one shard (of each layer) is held */
    unsigned writers;      /* 1 .. BUILD_WRITERS_MAX */
    const char *spill_dir; /* NULL or "": no spilling; all bitmaps must fit */
    uint64_t spill_bytes;  /* disk space at which build_is_full(); later hashes are still accepted */
    periodic_fn *poll;     /* called during a flush, a load or a finish; NULL: none */
    void *poll_arg;
    struct log_output *output; /* from here on log_build_new() fills them in */
    struct geometry geometry;  /* the layer's */
    unsigned layer;
};

/* Beside the bitmaps the build uses at most 16 MiB of buffers, and LOG_OUTPUT_MAX shards. ERR_CONFIG: memory
 * or spill_dir is unsuitable; the text says what is needed. ERR_RANGE: the number of writers. ERR_IO: a file
 * in spill_dir. ERR_NOMEM. */
MUST_CHECK enum err build_new(struct build **out, const struct build_options *o, struct error *e);
/* No writer may be at work. */
void build_free(struct build *b);

/* --- writers: any thread may use one, but one thread at a time --- */

struct build_writer *build_writer(struct build *b, unsigned index);

/* Put a key's hash, in the form that hash_place() expects for the generation. It takes no lock, except once
 * per page while a flush takes what this writer put before. */
void build_put(struct build_writer *w, struct key_hash h);

/* Hand all that was put before to the next flush. Call it after each page, and before the thread waits or
 * ends: a flush waits for writers in the middle of a page. Never waits for Redis. ERR_IO (or ERR_NOMEM): a
 * writer, not necessarily this one, could not spill hashes; the text names the directory. The build is then
 * unusable: start over from the last checkpoint with a new one. */
MUST_CHECK enum err build_page_end(struct build_writer *w, struct error *e);

/* --- from any thread --- */

/* The first is true when enough is spilled that the driver should flush soon; the second, when writers should
 * begin no page before it has. */
bool build_wants_flush(const struct build *b);
bool build_is_full(const struct build *b);
/* Bytes of spilled hashes on disk. */
uint64_t build_spilled_bytes(const struct build *b);

/* --- the driver --- */

/* OR into the shards all that was put before the page ends that preceded this call, and wait until it has
 * arrived. Writers may go on meanwhile. After an error nothing is lost: call it again. Errors: ERR_LOST,
 * ERR_REFUSED, ERR_UNREACHABLE, ERR_TIMEOUT, ... of the output; the error of @poll; ERR_TIMEOUT also if a
 * writer does not end its page. The exception is ERR_IO (or ERR_NOMEM), when hashes could not be spilled or
 * read back: start over as after build_page_end(). */
MUST_CHECK enum err build_flush(struct build *b, struct error *e);

/* How many keys had an unset bit and were flushed since the last call. A key that is put before two flushes
 * counts once, unless hashes are spilled. */
uint64_t build_take_count(struct build *b);

/* 1: all bitmaps are in memory. */
uint32_t build_partitions(const struct build *b);
#endif
