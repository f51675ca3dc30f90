/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_VERIFY_LOG_CHECK_H
#define MIGRATE_VERIFY_LOG_CHECK_H
/* Tests whether keys are in the shards that a builder has written: for the verification before a cutover.
 * Blocking. */
#include "shard/generations/build.h"

/* Look up @count hashes under the filter's seed in the blocks of the generation that @b builds; @found[i]:
 * whether hash i is present. The errors of fold_is_lost(), with `anew`: a shard is missing or is something
 * else. */
MUST_CHECK enum err log_check(struct builder *b, const struct key_hash *hashes, size_t count, uint8_t *found,
                              struct error *e);
#endif
