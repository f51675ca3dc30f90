/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_BUILD_H
#define MIGRATE_BUILD_BUILD_H
/* The keys of a build: rows from several threads and the lanes' entries after S0 go into the shards of the
 * last layer of the generation that a builder writes (shard/generations/build.h). If the bitmaps of all
 * shards fit into memory, the writers set bits in them. If not, hashes are spilled to files by ranges of
 * shards, and each range gets its bitmaps during a flush. Either way the source is read once.
 *
 * The driver's thread makes all calls but those of the writers, and only this thread uses the builder and its
 * connection. After an error that set the builder's `anew`, nothing that was put counts: free this, call
 * builder_start(), and make a new one. After any other error the call may be repeated. The builder then takes
 * over from itself first, so after ERR_FENCED the caller must check that it still has the lease. ERR_IO,
 * ERR_NOMEM: as for build_flush().
 *
 * build_free() drops what was put and not written. The next build begins with the lanes' entries behind the
 * last flush that did not fail; rows the caller must put again. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/build/spill.h"
#include "shard/filter/hash.h"
#include "shard/generations/build.h"

struct build;

/* @builder is borrowed. Beside the bitmaps the build uses at most 16 MiB of buffers, and LOG_OUTPUT_MAX
 * shards. ERR_CONFIG: memory or spill_dir is unsuitable; the text says what is needed. ERR_RANGE: the number
 * of writers. ERR_IO: a file in spill_dir. ERR_NOMEM. */
MUST_CHECK enum err build_new(struct build **out, struct builder *builder, const struct build_options *o,
                              struct error *e);
/* No writer may be at work. */
void build_free(struct build *b);

/* --- writers, numbered from 0: any thread may use one, but one thread at a time --- */

/* Put the hash of a row's key under the builder's seed. It takes no lock, except once per page while a flush
 * takes what this writer put before. */
void build_put(struct build *b, unsigned writer, struct key_hash h);

/* Hand all that was put before to the next flush. Call it after each page, and before the thread waits or
 * ends: a flush waits for writers in the middle of a page. Never waits for Redis. ERR_IO (or ERR_NOMEM): a
 * writer, not necessarily this one, could not spill hashes; the text names the directory. The build is then
 * unusable: start over from the last checkpoint with a new one. */
MUST_CHECK enum err build_page_end(struct build *b, unsigned writer, struct error *e);

/* --- from any thread --- */

/* The first is true when enough is spilled that the driver should flush soon; the second, when writers should
 * begin no page before it has. */
bool build_wants_flush(const struct build *b);
bool build_is_full(const struct build *b);
/* Bytes of spilled hashes on disk. */
uint64_t build_spilled_bytes(const struct build *b);

/* --- the driver --- */

/* Put the lanes' entries behind the builder's positions. ERR_LOST sets `anew`. */
MUST_CHECK enum err build_follow(struct build *b, struct error *e);

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

/* Flush what was put, and the entries that the lanes have now. Then record a checkpoint with @rows: the
 * caller's note of its rows, taken before this call. */
MUST_CHECK enum err build_checkpoint(struct build *b, const void *rows, size_t length, struct error *e);

/* Call it when all rows are put and their pages ended: flushes them and all entries, and makes the generation
 * the one that is read. @heals: as for builder_cutover(). */
MUST_CHECK enum err build_cutover(struct build *b, bool heals, struct error *e);
#endif
