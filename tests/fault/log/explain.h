/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_EXPLAIN_H
#define TESTS_FAULT_LOG_EXPLAIN_H
/* Why a key is absent: where it lies, and what Redis has of it. */
#include "tests/fault/log/world.h"

/* Say on stderr: who was told of @key, and when; its hash, as entries have it; whether its lane still has an
 * entry of it; and for each generation whether its bits are set in Redis, and up to where it is folded. */
void explain_key(struct log_world *w, uint64_t key);

/* Keep what happened in the world, and the files of its servers, in a new directory that is named on stderr.
 * Their append-only files have every command. The servers are stopped. */
void explain_keep(struct log_world *w);
#endif
