/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CORE_LIMITS_H
#define SERVICE_CORE_LIMITS_H
/* The limit of open files of this process. */
#include <stdint.h>

/* Make room for @wanted connections in addition to @others files, as far as the system allows. Returns for
 * how many connections there is room. Any thread. */
uint64_t limits_connections(uint64_t wanted, uint64_t others);
#endif
