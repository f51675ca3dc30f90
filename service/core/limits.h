/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_LIMITS_H
#define SERVICE_CORE_LIMITS_H
/* How many files this process may have open. */
#include <stdint.h>

/* Make room for @wanted connections beside @others files, as far as the system lets us; returns how many of
 * them there is room for. From any thread. */
uint64_t limits_connections(uint64_t wanted, uint64_t others);
#endif
