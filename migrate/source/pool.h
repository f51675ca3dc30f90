/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_POOL_H
#define MIGRATE_SOURCE_POOL_H
/* A few connections to Postgres that many sources share: a resting source has none. All sources of a pool
 * have the same dsn and timeout. Any thread may call; each source belongs to one thread. */
#include "migrate/source/source.h"

enum { POOL_MOST = 16 };

struct pool;

/* At most @limit connections, 1 to POOL_MOST. NULL: no memory. */
struct pool *pool_new(unsigned limit);
/* All its sources must be closed. NULL is fine. */
void pool_free(struct pool *p);

/* source_open() over one of the pool's connections; waits for its turn, and the watch may end the wait. The
 * source has the connection until source_rest() or source_close(). Errors as of source_open(). */
MUST_CHECK enum err pool_open(struct pool *p, struct source **out, const struct source_config *config,
                              unsigned timeout_ms, struct error *e);

/* Wait for a connection, before using a source that rested. ERR_UNREACHABLE also means that connections lead
 * to another server than when the source was opened, or that the server was restarted: what the source knows
 * is not valid there; close it and open it again. Does nothing if the source has a connection. */
MUST_CHECK enum err source_take(struct source *s, struct error *e);
/* Give the connection to others: do not use the source until source_take(). Does nothing if the source has no
 * pool. */
void source_rest(struct source *s);
#endif
