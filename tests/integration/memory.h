/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_MEMORY_H
#define TESTS_INTEGRATION_MEMORY_H
/* Measures the memory that clients cost the daemon: they send many bytes and read nothing, and the peak of
 * the daemon's resident set is read. */
#include "tests/integration/fixture.h"

enum { POUR_MS = 600, POUR_MAX = 16 * 1024 * 1024 /* bytes of one connection */ };

/* Call it before the daemon starts: sanitizers then return freed memory at once, so that it is not
 * counted. */
void memory_count_what_is_held(void);

/* Begin to measure: set the peak to the present resident set. */
void memory_reset_peak(const struct fixture *f);
/* The resident set, in bytes. */
size_t memory_now(const struct fixture *f);
/* The resident set once it has stopped changing, when all work has ended and closed clients are gone. Waits
 * 10 s at most. */
size_t memory_at_rest(const struct fixture *f);
size_t memory_peak(const struct fixture *f);

/* Send @first once and then @again repeatedly on each of the connections, as fast as they take it, for
 * POUR_MS or until each has had POUR_MAX bytes. */
void memory_pour(const int *fds, size_t count, const char *first, const char *again, size_t again_length);
#endif
