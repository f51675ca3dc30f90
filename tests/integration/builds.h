/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_BUILDS_H
#define TESTS_INTEGRATION_BUILDS_H
/* Builds of bits into the shards of a builder's generation, in memory, or with spilled hashes. Keys are
 * numbers. */
#include "migrate/build/build.h"
#include "tests/integration/log_builds.h"

/* The builder's timeout is long, but for tests that set the other one before the setup; the teardown sets it
 * back. */
enum { BUILDS_LONG_MS = 20000, BUILDS_SHORT_MS = 500 };
extern unsigned builds_ms;

/* For CMocka: a test with builds_setup() and builds_teardown(), whose state is NULL, or builds_spilled;
 * BOTH() lists both tests. */
extern char builds_spilled[];
#define MEMORY(name) cmocka_unit_test_setup_teardown(name, builds_setup, builds_teardown)
#define SPILLED(name)                                                                                        \
    {                                                                                                        \
#name " (spilled)", name, builds_setup, builds_teardown, builds_spilled                              \
    }
#define BOTH(name) MEMORY(name), SPILLED(name)

/* The process and the build of the running test. */
extern struct log_process builds;
extern struct build *builds_build; /* NULL: none yet */

/* Make the generation, with empty shards. */
int builds_setup(void **state);
/* The same with a second layer, of fewer shards. */
int builds_setup_two_layers(void **state);
int builds_teardown(void **state);

uint32_t builds_shards(void);

/* Options of build_new(), with memory for all shards, or for one if @state is
 * builds_spilled. */
struct build_options builds_options(void **state);
/* Make builds_build with @o, and free the one before. */
void builds_make(struct build_options o);
void builds_flush(void);
void builds_flush_gives(enum err code);

/* The hash of key @number under the generation. */
struct key_hash builds_hash(uint64_t number);

/* Put the keys [first, first + count), and end the page. */
void builds_put(unsigned writer, uint64_t first, unsigned count);

/* Fail the test where one of the keys is not in the generation's shards. */
void builds_all_there(uint64_t first, unsigned count);

/* Rename a shard, so that it counts as lost, and back. */
void builds_lose(uint32_t shard);
void builds_find(uint32_t shard);
/* Give the last block of a shard another tag, and its own. */
void builds_spoil(uint32_t shard);
void builds_mend(uint32_t shard);
#endif
