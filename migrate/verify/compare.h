/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_VERIFY_COMPARE_H
#define MIGRATE_VERIFY_COMPARE_H
/* Checks that a generation in Redis holds all keys of the source. Hashes of several threads are tested
 * against whole shards that the input has read into memory. If the shards of all layers do not fit, hashes
 * are spilled to files by ranges of shards (partitions.h), and each range is read and tested at the end.
 * Either way each shard and the source are read once.
 *
 * A key counts as present if some layer has all its bits, as in a check. The compare may not see what
 * enters the generation after its shard was read, nor layers added after compare_new(): check a missing key
 * again before you report it.
 *
 * The driver's thread makes all calls but those of the writers, and only this thread uses the input. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "migrate/build/build.h"
#include "migrate/verify/log_input.h"

enum { COMPARE_MISSING_MAX = 1000000 };

struct compare;

/* @input, which is borrowed, reads the generation; this call reads no shards. ERR_CONFIG, ERR_RANGE, ERR_IO,
 * ERR_NOMEM: as build_new(). */
MUST_CHECK enum err compare_new(struct compare **out, struct log_input *input, const struct build_options *o,
                                struct error *e);
/* No writer may be at work. */
void compare_free(struct compare *c);

/* Read all shards, before anything is put. Does nothing if they do not fit into memory. ERR_LOST: a shard or
 * one of its tags is missing: data were lost, or the view changed. ERR_UNREACHABLE, ERR_TIMEOUT, ERR_REFUSED,
 * the error of @poll: call it again. */
MUST_CHECK enum err compare_load(struct compare *c, struct error *e);

/* --- writers, numbered from 0: any thread may use one, but one thread at a time --- */

void compare_put(struct compare *c, unsigned writer, struct key_hash h);
/* As build_page_end(): call it after each page, and before the thread waits or ends. ERR_IO. */
MUST_CHECK enum err compare_page_end(struct compare *c, unsigned writer, struct error *e);

/* From any thread. True if so much is spilled that writers should begin no page before compare_finish(). */
bool compare_is_full(const struct compare *c);

/* --- the driver --- */

/* Test what was put before the page ends that preceded this call. Hashes may be put afterwards, and this be
 * called again. Writers may go on during the call if it reads shards; if compare_load() has read them, no
 * writer may be at work. Errors as of compare_load(): call it again; nothing is lost or counted twice.
 * ERR_IO: start over. ERR_CONFLICT: no compare_load() has succeeded. */
MUST_CHECK enum err compare_finish(struct compare *c, struct error *e);

/* Of the hashes that were finished: how many were tested; how many are in no layer (a hash counts as often as
 * it was put); the first COMPARE_MISSING_MAX of these, sorted by high and low half, valid until a call other
 * than these three. */
uint64_t compare_tested(const struct compare *c);
uint64_t compare_missing_total(const struct compare *c);
const struct key_hash *compare_missing(const struct compare *c, size_t *count);

#endif
