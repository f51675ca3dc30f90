/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_FOLLOWING_H
#define TESTS_INTEGRATION_FOLLOWING_H
/* Shared parts of the tests of the follower, for any mode: an installation with two coordinators whose
 * filter's table is followed, and tests that hold for all modes. */
#include "tests/integration/fixture.h"

enum { FOLLOWING_ROWS = 2000, FOLLOWING_SOON_MS = 20000, FOLLOWING_ROLL_CALL_MS = 50000 };

extern struct fixture following;

/* Start the installation, or start it again. @filter: more lines of the filter. @expansion: lines of
 * [rebuild]. */
int following_start(const char *filter, const char *expansion);
int following_teardown(void **state);

/* Take @count row numbers that no other test uses. Returns the first one. */
uint64_t following_numbers(uint64_t count);

/* Coordinator @d must report all these codes present within a few seconds. */
void following_soon(unsigned d, uint64_t first, uint64_t count);
/* As above for another filter of that table, which may be rebuilt first. */
void following_soon_in(unsigned d, const char *filter, uint64_t first, uint64_t count);
/* As following_soon() after a restart of Redis and a coordinator's death. Writers of a log wait 20 s
 * for the dead writer, whose keys may be lost. Then no key is reported absent until the filter is healed from
 * the table. */
void following_back(unsigned d, uint64_t first, uint64_t count);
/* Wait until coordinator @d reports the follower as running. */
void following_running(unsigned d);
/* Stop all coordinators; start them again. */
void following_stop(void);
void following_start_again(void);
/* Have coordinator 0 rebuild, and wait until the build is on hold. */
void following_hold(void);
/* Have that build cut over, and wait until the follower has its question: what is committed by now? */
void following_ask(void);
/* Wait until it has cut over, with @count rows from @first on, by the follower's word, and has ended. */
void following_answered(uint64_t first, uint64_t count);
/* The running coordinator that has the lease, as coordinator @d reports it. */
unsigned following_owner(unsigned d);
/* Run a file of sql/. */
void following_psql(const char *name, const char *const *variables);
/* The value of a query. The caller frees it. */
char *following_value(const char *sql);
/* Insert @count rows whose keys no client adds, and expect them at coordinator @d. */
void following_expect_rows(unsigned d, uint64_t count);

/* Wait until Postgres has @count slots of that name that were read once. */
void following_slots(const char *slot, const char *count);
/* Wait until the mark of @table is its largest id: then no gap is open. */
void following_mark(struct client *redis, const char *filter, const char *table);
/* Configure all coordinators anew: @expansion, and the filter FILTER, to whose section @filter is added.
 * @load: and reload them. */
void following_configure(const char *expansion, const char *filter, bool load);
/* As above, for followers by a slot. */
void following_rewrite(const char *filter);

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
