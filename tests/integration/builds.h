/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_BUILDS_H
#define TESTS_INTEGRATION_BUILDS_H
/* Bits into the shards of a generation that a builder has made: in memory, or with hashes spilled. Keys are
 * numbers. */
#include "migrate/build/build.h"
#include "tests/integration/log_builds.h"

enum { BUILDS_MS = 500 /* that the builder waits for an answer */ };

/* For CMocka: a test with builds_setup() and builds_teardown() that has NULL as its state, or this; and both.
 */
extern char builds_spilled[];
#define MEMORY(name) cmocka_unit_test_setup_teardown(name, builds_setup, builds_teardown)
#define SPILLED(name)                                                                                        \
    {                                                                                                        \
#name " (spilled)", name, builds_setup, builds_teardown, builds_spilled                              \
    }
#define BOTH(name) MEMORY(name), SPILLED(name)

/* Of the test. */
extern struct log_process builds;
extern struct build *builds_build; /* NULL: none yet */

/* The generation, with empty shards. */
int builds_setup(void **state);
/* The same with a second layer, of fewer shards. */
int builds_setup_two_layers(void **state);
int builds_teardown(void **state);

uint32_t builds_shards(void);

/* What build_new() wants for the first layer, with memory for all shards, or for one if @state is of a test
 * that spills. */
struct build_options builds_options(void **state);
/* builds_build, another one than before. */
void builds_make(struct build_options o);
void builds_flush(void);
void builds_flush_gives(enum err code);

/* The hash of key @number under the generation. */
struct key_hash builds_hash(uint64_t number);

/* Put the keys [first, first + count), and end the page. */
void builds_put(unsigned writer, uint64_t first, unsigned count);

/* Fail the test where one of the keys is not in the generation's shards. */
void builds_all_there(uint64_t first, unsigned count);

/* Rename a shard away, and back: lost, and found again. */
void builds_lose(uint32_t shard);
void builds_find(uint32_t shard);
#endif
