/* SPDX-License-Identifier: MIT */
#ifndef BASE_BACKGROUND_H
#define BASE_BACKGROUND_H
/* Work that takes processor and is in no hurry. */
#include <stdint.h>

/* What is left to do, until the monotonic time @until, us; what it has done it does not do again. */
typedef void background_fn(void *arg, uint64_t until);

/* Have @run do its work, and wait for it: first on a thread that gives way to others, at most until @until;
 * then on this one, without a bound. */
void background_run(background_fn *run, void *arg, uint64_t until);
#endif
