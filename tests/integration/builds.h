/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_BUILDS_H
#define TESTS_INTEGRATION_BUILDS_H
/* Builds and compares of a filter that a test made: in memory, or with hashes spilled. */
#include "migrate/build.h"
#include "migrate/fence_output.h"
#include "tests/integration/filters.h"

enum { BUILDS_SHARD_BYTES = 16 * 128 }; /* of filter_generation() */

/* For CMocka: a test with setup() and teardown() that has NULL as its state, or this; and both. */
extern char builds_spilled[];
#define MEMORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SPILLED(name)                                                                                        \
    {                                                                                                        \
#name " (spilled)", name, setup, teardown, builds_spilled                                            \
    }
#define BOTH(name) MEMORY(name), SPILLED(name)

/* As filter_make(), with several layers of so many shards, the last of which is written. */
void builds_make(struct filter *f, const uint32_t *shards, unsigned layers);

/* What build_new() wants for layer 0 of the generation in use, with memory for all shards and files in
 * @spill_dir. */
struct build_options builds_options(struct filter *f, const char *spill_dir);

/* The hash of key "k@number", as filter_add() and filter_check() have it. */
struct key_hash builds_hash(const struct filter *f, unsigned number);

/* Put the keys [first, first + count), and end the page. */
void builds_put(struct filter *f, struct build *b, unsigned writer, unsigned first, unsigned count);

/* Fail the test where one of the keys is not in the generation in use. */
void builds_all_there(struct filter *f, unsigned first, unsigned count);

/* Fail the test where a layer holds anything but the bits of these keys. */
void builds_layer_is(struct filter *f, unsigned layer, unsigned first, unsigned count);

/* Rename a shard of layer 0 away, and back: lost, and found again. */
void builds_lose(struct filter *f, uint32_t shard);
void builds_find(struct filter *f, uint32_t shard);
#endif
