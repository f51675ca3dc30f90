/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_TAILING_H
#define TESTS_INTEGRATION_TAILING_H
/* What tests of the tail share, whatever its mode is: an installation with two coordinators whose filter's
 * table is followed, and tests that hold for all modes. */
#include "tests/integration/fixture.h"

enum { TAILING_ROWS = 2000, TAILING_SOON_MS = 20000, TAILING_ROLL_CALL_MS = 50000 };

extern struct fixture tailing;

/* @filter: more lines of the filter. @expansion: of [rebuild]. Also for tests that begin anew. */
int tailing_start(const char *filter, const char *expansion);
int tailing_teardown(void **state);

/* Rows with numbers that no other test has: the first of @count. */
uint64_t tailing_numbers(uint64_t count);

/* All these codes are reported present by coordinator @d within a few seconds. */
void tailing_soon(unsigned d, uint64_t first, uint64_t count);
/* The same behind a restart of Redis and a coordinator's death. Writers of a log wait for the one who died,
 * as keys of it may be lost, for half a minute; then no key is said to be absent until the table has healed
 * it. */
void tailing_back(unsigned d, uint64_t first, uint64_t count);
/* Wait until the tail follows. */
void tailing_running(unsigned d);
/* The coordinator that has the lease, of those that run; as coordinator @d says. */
unsigned tailing_owner(unsigned d);
/* Run a file of sql/. */
void tailing_psql(const char *name, const char *const *variables);
/* One value. The caller frees it. */
char *tailing_value(const char *sql);
/* Insert @count rows that nobody adds, and expect them. */
void tailing_expect_rows(unsigned d, uint64_t count);

/* --- tests for all modes --- */
void tailing_test_rows_follow(void **state);
void tailing_test_late_commits(void **state);
void tailing_test_copy(void **state);
void tailing_test_each_phase(void **state);
void tailing_test_rows_keep_coming(void **state);
void tailing_test_owner_killed(void **state);
void tailing_test_redis_restarted(void **state);
void tailing_test_postgres_restarted(void **state);
#endif
