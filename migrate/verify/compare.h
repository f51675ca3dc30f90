/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_VERIFY_COMPARE_H
#define MIGRATE_VERIFY_COMPARE_H
/* Does a generation in Redis hold all keys of the source? Hashes of several threads are tested against whole
 * shards that were read into memory; where those of all layers do not fit, hashes are spilled to files by
 * ranges of shards (partitions.h), and each range is read and tested at the end. Either way every shard and
 * the source are read once.
 *
 * A key counts as present where any layer has all its bits, as in a check. What comes into the generation
 * after its shard was read, and layers that it gets after compare_new(), are not seen: whoever finds a key
 * missing asks for it again.
 *
 * One thread, the driver's, uses all of this but for the writers; it alone uses the input. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/verify/log_input.h"
#include "migrate/build/periodic.h"
#include "shard/filter/generation.h"
#include "shard/filter/hash.h"

enum { COMPARE_WRITERS_MAX = 64, COMPARE_MISSING_MAX = 1000000 };

struct compare;
struct compare_writer;

/* Pointers are borrowed for as long as the compare lives. */
struct compare_options {
    struct log_input *input; /* of the generation */
    uint64_t memory;         /* bytes of shards at the most; but one shard is held, and one or two of other
                              * layers */
    unsigned writers;        /* 1 .. COMPARE_WRITERS_MAX */
    const char *spill_dir;   /* NULL or "": none, then all shards must fit */
    uint64_t spill_bytes;    /* as of a build */
    periodic_fn *poll;       /* NULL: nobody is asked in the course of a load or a finish */
    void *poll_arg;
};

/* Reads nothing. ERR_CONFIG, ERR_RANGE, ERR_IO, ERR_NOMEM as build_new(). */
MUST_CHECK enum err compare_new(struct compare **out, const struct compare_options *o, struct error *e);
/* No writer may be at work. */
void compare_free(struct compare *c);

/* Read all shards, before anything is put. Where they do not fit nothing is done. ERR_LOST: a shard is not
 * there with all its tags: lost, or the view moved on. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED, what @poll
 * says: call again. */
MUST_CHECK enum err compare_load(struct compare *c, struct error *e);

/* --- writers: each is used by one thread at a time, and by any --- */

struct compare_writer *compare_writer(struct compare *c, unsigned index);
void compare_put(struct compare_writer *w, struct key_hash h);
/* As build_page_end(): after each page, and before the thread waits or ends. ERR_IO. */
MUST_CHECK enum err compare_page_end(struct compare_writer *w, struct error *e);

/* From any thread: so much is spilled that writers should not begin another page before compare_finish(). */
bool compare_is_full(const struct compare *c);

/* --- the driver --- */

/* Test what was put before the page ends that came before this call. Hashes may be put, and this be called,
 * again. Where shards are read here (not after a load) writers may go on meanwhile; else none may be at work.
 * Errors as of compare_load(): call again, nothing is forgotten nor counted twice. But ERR_IO: start over.
 * ERR_CONFLICT: there was no compare_load() that succeeded. */
MUST_CHECK enum err compare_finish(struct compare *c, struct error *e);

/* Hashes that were tested by what was finished; those that are in no layer (more than once where they were
 * put more than once); the first COMPARE_MISSING_MAX that were found of these, sorted by high and low half,
 * valid until the next call but these three. */
uint64_t compare_tested(const struct compare *c);
uint64_t compare_missing_total(const struct compare *c);
const struct key_hash *compare_missing(const struct compare *c, size_t *count);

/* 1: all shards are in memory. */
uint32_t compare_partitions(const struct compare *c);
#endif
