/* SPDX-License-Identifier: MIT */
#ifndef BASE_BACKGROUND_H
#define BASE_BACKGROUND_H
/* Work that takes processor time and is not urgent. */
#include <stdint.h>

/* Do what is left of the work, until the monotonic time @until, us. A later call continues where this one
 * ended. */
typedef void background_fn(void *arg, uint64_t until);

/* Run @run to its end: first on a thread that is nicer than others, at most until @until, then on the calling
 * thread without a bound. */
void background_run(background_fn *run, void *arg, uint64_t until);
#endif
