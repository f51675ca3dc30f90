/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LEASE_H
#define TESTS_FAULT_LOG_LEASE_H
/* A lease: a key that expires. It only saves work; correctness does not depend on it. */
#include <stdbool.h>
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"

enum { LEASE_MS = 500 };

/* Take the lease, or renew it for LEASE_MS. @number, which is not 0, names the holder. False: another one has
 * the lease, or Redis does not answer. */
bool builder_lease(struct sync_client *l, const struct names *names, const char *what, unsigned number);
#endif
