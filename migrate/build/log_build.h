/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_LOG_BUILD_H
#define MIGRATE_BUILD_LOG_BUILD_H
/* The keys of a build of a filter that is a log: rows from several threads, and the entries of the lanes
 * after S0, into the shards of the generation that a builder has (shard/generations/build.h). Bitmaps lie in
 * memory, or hashes are spilled (build.h).
 *
 * One thread, the driver's, uses all of this but for the writers, and the builder and its link. After an
 * error that left the builder `again` nothing that was put counts: free this, builder_start(), and make
 * another one. After any other the call may be repeated; then the builder takes over from itself first, so
 * whoever met ERR_FENCED makes sure that it still has the lease. ERR_IO, ERR_NOMEM: as build_flush(). */
#include "migrate/build/build.h"
#include "migrate/build/log_output.h"
#include "shard/generations/build.h"

/* As of struct build_options. */
struct log_build_options {
    struct builder *builder; /* borrowed */
    uint64_t memory;
    unsigned writers; /* of rows: 1 .. BUILD_WRITERS_MAX - 1 */
    const char *spill_dir;
    uint64_t spill_bytes;
    periodic_fn *poll; /* may use the link */
    void *poll_arg;
};

struct log_build {
    struct builder *builder;
    struct build *build; /* for build_is_full() and other figures */
    struct log_output output;
    unsigned entries; /* the writer of what the lanes have */
};

/* As build_new(). */
MUST_CHECK enum err log_build_new(struct log_build **out, const struct log_build_options *o, struct error *e);
/* No writer may be at work. */
void log_build_free(struct log_build *b);

/* Put the hash of a row's key under the filter's seed (the builder's). Of one thread at a time for each
 * writer. */
void log_build_put(struct log_build *b, unsigned writer, struct key_hash h);
/* As build_page_end(). */
MUST_CHECK enum err log_build_page_end(struct log_build *b, unsigned writer, struct error *e);

/* Put the entries that the lanes have behind the builder's positions. ERR_LOST, with `again`. */
MUST_CHECK enum err log_build_follow(struct log_build *b, struct error *e);

/* Bring to Redis all that was put before page ends that came before this call, and the entries that are there
 * now; then record it, with @rows: what the caller noted of the rows before this call. */
MUST_CHECK enum err log_build_checkpoint(struct log_build *b, const void *rows, size_t length,
                                         struct error *e);

/* All rows are put, and their pages ended: bring them and all entries to Redis, and make the generation the
 * one that is read. @heals: as builder_cutover(). */
MUST_CHECK enum err log_build_cutover(struct log_build *b, bool heals, struct error *e);
#endif
