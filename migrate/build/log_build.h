/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_BUILD_LOG_BUILD_H
#define MIGRATE_BUILD_LOG_BUILD_H
/* The keys of a build: rows from several threads and the lanes' entries after S0 go into the shards of the
 * generation that a builder writes (shard/generations/build.h). Bitmaps are in memory, or hashes are spilled
 * (build.h).
 *
 * The driver's thread makes all calls but those of the writers, and only this thread uses the builder and
 * its connection. After an error that set the builder's `anew`, nothing that was put counts: free this, call
 * builder_start(), and make a new one. After any other error the call may be repeated. The builder then takes
 * over from itself first, so after ERR_FENCED the caller must check that it still has the lease. ERR_IO,
 * ERR_NOMEM: as for build_flush().
 *
 * log_build_free() drops what was put and not written. The next one begins with the lanes' entries behind the
 * last flush that did not fail; rows the caller must put again. */
#include "migrate/build/build.h"
#include "migrate/build/log_output.h"
#include "shard/generations/build.h"

struct log_build {
    struct builder *builder;
    struct build *build; /* exposed for build_is_full() and figures */
    struct log_output output;
    unsigned entries; /* index of the writer for the lanes' entries */
};

/* @builder is borrowed. o->writers: for rows, 1 .. BUILD_WRITERS_MAX - 1. o->poll may use the builder's
 * connection. Errors as of build_new(). */
MUST_CHECK enum err log_build_new(struct log_build **out, struct builder *builder,
                                  const struct build_options *o, struct error *e);
/* No writer may be at work. */
void log_build_free(struct log_build *b);

/* Put the hash of a row's key under the builder's seed. Each writer is used by one thread at a time. */
void log_build_put(struct log_build *b, unsigned writer, struct key_hash h);
/* As build_page_end(). */
MUST_CHECK enum err log_build_page_end(struct log_build *b, unsigned writer, struct error *e);

/* Put the lanes' entries behind the builder's positions. ERR_LOST sets `anew`. */
MUST_CHECK enum err log_build_follow(struct log_build *b, struct error *e);

/* Bring to Redis all that was put before the page ends that preceded this call, and the entries that the
 * lanes have now. Then record a checkpoint with @rows: the caller's note of its rows, taken before this
 * call. */
MUST_CHECK enum err log_build_checkpoint(struct log_build *b, const void *rows, size_t length,
                                         struct error *e);

/* Call it when all rows are put and their pages ended: brings them and all entries to Redis, and makes the
 * generation the one that is read. @heals: as for builder_cutover(). */
MUST_CHECK enum err log_build_cutover(struct log_build *b, bool heals, struct error *e);
#endif
