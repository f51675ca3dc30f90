/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_DSN_H
#define MIGRATE_SOURCE_DSN_H
/* Reads a connection string without connecting. */
#include <stdbool.h>

/* True if no other machine can impersonate Postgres: a Unix socket, a loopback address, or
 * sslmode=verify-full. Considers defaults and PG* environment variables, but not service files. An invalid
 * string counts as verified: connecting reports what is wrong with it. */
bool dsn_is_verified(const char *dsn);
#endif
