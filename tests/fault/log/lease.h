/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_LEASE_H
#define TESTS_FAULT_LOG_LEASE_H
/* A lease: a key that expires. It saves work; nothing relies on it. */
#include <stdbool.h>
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"

enum { LEASE_MS = 500 };

/* Take it, or have it for LEASE_MS more. @number: who; not 0. False: another one has it, or Redis does not
 * answer. */
bool builder_lease(struct sync_client *l, const struct names *names, const char *what, unsigned number);
#endif
