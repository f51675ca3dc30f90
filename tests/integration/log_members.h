/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_LOG_MEMBERS_H
#define TESTS_INTEGRATION_LOG_MEMBERS_H
/* Filters that are logs, and members that check and add: each has all parts of a process, in threads of the
 * test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shard/view/log_view.h"
#include "tests/integration/lanes.h"
#include "tests/lib/log_member.h"

void log_members_open(struct log_member *m, const struct nodes *nodes, const struct names *names,
                      uint64_t memory, bool folds);

/* Check or add the keys "<first>", "<first + 1>", ... @answers: enum key_answer for each key. Returns the
 * error. */
MUST_CHECK enum err log_member_check(struct log_member *m, uint64_t first, unsigned count, uint8_t *answers,
                                     struct error *e);
MUST_CHECK enum err log_member_add(struct log_member *m, uint64_t first, unsigned count, uint8_t *answers,
                                   struct error *e);
/* Check the keys, and count those with this answer. An error fails the test. */
unsigned log_member_count(struct log_member *m, uint64_t first, unsigned count, enum key_answer answer);
/* Add the keys. Returns how many were new. */
unsigned log_member_added(struct log_member *m, uint64_t first, unsigned count);
/* The first number from @from on whose key is in @lane. */
uint64_t log_members_key_of(const struct log_view *v, unsigned lane, uint64_t from);
/* True if all shards are in memory. */
bool log_members_is_loaded(struct log_member *m);
/* Wait for that. */
void log_members_await_loaded(struct log_member *m);
/* The last error of the control, a moment later; "": its last call ended well. */
const char *log_members_failing(struct log_member *m);
#endif
