/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_BUILD_H
#define MIGRATE_BUILD_BUILD_H
/* Hashes of several threads to the shards of one layer, in Redis. Where the bitmaps of all shards fit into
 * memory the writers set bits of them; where they do not, hashes are spilled to files by ranges of shards,
 * and each range gets its bitmaps when it is flushed. Either way the source is read once.
 *
 * One thread, the driver's, uses all of this but for the writers; it alone uses the output. */
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

/* Pointers are borrowed for as long as the build lives. */
struct build_options {
    struct log_output *output;
    struct geometry geometry; /* of the layer */
    unsigned layer;
    uint64_t memory;       /* bytes of bitmaps at the most; but one shard is held at least */
    unsigned writers;      /* 1 .. BUILD_WRITERS_MAX */
    const char *spill_dir; /* NULL or "": none, then all bitmaps must fit */
    uint64_t spill_bytes;  /* on disk: where build_is_full(); what is put in spite of it is taken too */
    periodic_fn *poll;     /* NULL: nobody is asked in the course of a flush */
    void *poll_arg;
};

/* Beside the bitmaps: 16 MiB of buffers at the most, and LOG_OUTPUT_MAX shards.
 * ERR_CONFIG: memory or spill_dir will not do; the text says what is needed. ERR_RANGE: the number of
 * writers. ERR_IO: a file in spill_dir. ERR_NOMEM. */
MUST_CHECK enum err build_new(struct build **out, const struct build_options *o, struct error *e);
/* No writer may be at work. */
void build_free(struct build *b);

/* --- writers: each is used by one thread at a time, and by any --- */

struct build_writer *build_writer(struct build *b, unsigned index);

/* Put a key's hash, as hash_place() wants it for the generation. Never waits for a lock, but once a page
 * where a flush is taking what this writer has put before. */
void build_put(struct build_writer *w, struct key_hash h);

/* What was put before belongs to the next flush. To be called after each page, and before the thread waits or
 * ends: a flush waits for those who are in the middle of a page. Never waits for Redis. ERR_IO (or
 * ERR_NOMEM): hashes could not be spilled, by any writer; the text names the directory. The build is of no
 * use then: start over from the last checkpoint with another one. */
MUST_CHECK enum err build_page_end(struct build_writer *w, struct error *e);

/* --- from any thread --- */

/* So much is spilled that the driver should flush soon; that the writers should not begin another page
 * before it has. */
bool build_wants_flush(const struct build *b);
bool build_is_full(const struct build *b);
/* Bytes on disk. */
uint64_t build_spilled_bytes(const struct build *b);

/* --- the driver --- */

/* OR into the shards what was put before the page ends that came before this call, and wait until all of
 * it is there. Writers may go on meanwhile. On error nothing is forgotten: call again. ERR_LOST, ERR_REFUSED,
 * ERR_UNREACHABLE, ERR_TIMEOUT, ... of the output; what @poll says; ERR_TIMEOUT also where a writer does not
 * end its page. But ERR_IO (or ERR_NOMEM), hashes could not be spilled or read back: start over as with
 * build_page_end(). */
MUST_CHECK enum err build_flush(struct build *b, struct error *e);

/* Keys that were new (that had a bit unset) and were flushed since the last call. A key that comes in two
 * flushes counts once, unless hashes are spilled. */
uint64_t build_take_count(struct build *b);

/* 1: all bitmaps are in memory. */
uint32_t build_partitions(const struct build *b);
#endif
