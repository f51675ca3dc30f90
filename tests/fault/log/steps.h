/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_STEPS_H
#define TESTS_FAULT_LOG_STEPS_H
/* Death at every step: a process A does something to the filter and is killed, or waits, at its n-th request
 * to Redis, for n = 1, 2, 3 and so on, until A ends before that. Another process ends the work. Nothing here
 * knows the steps. */
#include <stdbool.h>
#include <stdint.h>

struct step_kind {
    const char *name, *meaning;
};
extern const struct step_kind *const step_kinds; /* the last one has no name */

/* Try about @most requests for each moment; 0: all. True: the promises were kept. */
bool steps_run(const char *name, unsigned most, uint64_t seed);
#endif
