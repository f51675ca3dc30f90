/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_EXPLAIN_H
#define TESTS_FAULT_LOG_EXPLAIN_H
/* Explains why a key is absent: the key's place, and the data that Redis has about it. */
#include "tests/fault/log/world.h"

/* Print to stderr: which worker was told first that @key is added, and when; its hash, as entries have it;
 * whether its lane still has an entry of it; and for each generation whether its bits are set in Redis, and
 * up to where its lane is folded. */
void explain_key(struct log_world *w, uint64_t key);

/* Keep the world's notes and the files of its servers in a new directory, which is named on stderr. The
 * append-only files have every command. The servers are stopped. */
void explain_keep(struct log_world *w);
#endif
