/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_FOLLOWING_H
#define TESTS_INTEGRATION_FOLLOWING_H
/* What tests of the follower share, whatever its mode is: an installation with two coordinators whose
 * filter's table is followed, and tests that hold for all modes. */
#include "tests/integration/fixture.h"

enum { FOLLOWING_ROWS = 2000, FOLLOWING_SOON_MS = 20000, FOLLOWING_ROLL_CALL_MS = 50000 };

extern struct fixture following;

/* @filter: more lines of the filter. @expansion: of [rebuild]. Also for tests that begin again. */
int following_start(const char *filter, const char *expansion);
int following_teardown(void **state);

/* Rows with numbers that no other test has: the first of @count. */
uint64_t following_numbers(uint64_t count);

/* All these codes are reported present by coordinator @d within a few seconds. */
void following_soon(unsigned d, uint64_t first, uint64_t count);
/* The same behind a restart of Redis and a coordinator's death. Writers of a log wait for the one who died,
 * as keys of it may be lost, for half a minute; then no key is said to be absent until the table has healed
 * it. */
void following_back(unsigned d, uint64_t first, uint64_t count);
/* Wait until the follower follows. */
void following_running(unsigned d);
/* The coordinator that has the lease, of those that run; as coordinator @d says. */
unsigned following_owner(unsigned d);
/* Run a file of sql/. */
void following_psql(const char *name, const char *const *variables);
/* One value. The caller frees it. */
char *following_value(const char *sql);
/* Insert @count rows that nobody adds, and expect them. */
void following_expect_rows(unsigned d, uint64_t count);

/* --- tests for all modes --- */
void following_test_rows_follow(void **state);
void following_test_late_commits(void **state);
void following_test_copy(void **state);
void following_test_each_phase(void **state);
void following_test_rows_keep_coming(void **state);
void following_test_owner_killed(void **state);
void following_test_redis_restarted(void **state);
void following_test_postgres_restarted(void **state);
#endif
