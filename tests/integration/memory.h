/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_MEMORY_H
#define TESTS_INTEGRATION_MEMORY_H
/* What clients cost the daemon in memory: they pour bytes into it and read nothing; the peak of its resident
 * set tells. */
#include "tests/integration/fixture.h"

enum { POUR_MS = 600, POUR_MAX = 16 * 1024 * 1024 /* bytes of one connection */ };

/* Before the daemon starts: what a sanitizer keeps of freed memory is not counted as held. */
void memory_count_what_is_held(void);

/* Begin to measure: the peak is what is resident now. */
void memory_reset_peak(const struct fixture *f);
/* Bytes. */
size_t memory_now(const struct fixture *f);
/* The same once it has stopped to change: what has begun is over, and clients that closed are gone. Waits 10
 * s at most. */
size_t memory_at_rest(const struct fixture *f);
size_t memory_peak(const struct fixture *f);

/* Send @first once and then @again over and over on each of the connections, as they take it, for POUR_MS or
 * until each has had POUR_MAX bytes. */
void memory_pour(const int *fds, size_t count, const char *first, const char *again, size_t again_length);
#endif
