/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_DSN_H
#define MIGRATE_SOURCE_DSN_H
/* What a connection string says, without connecting. */
#include <stdbool.h>

/* Whether nobody between this machine and Postgres can pose as it: by a Unix socket, an address of this
 * machine, or sslmode=verify-full. Defaults and PG* variables of the environment count, service files do not.
 * A string that is none counts as safe: connecting says what is wrong. */
bool dsn_is_verified(const char *dsn);
#endif
