/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_POOL_H
#define MIGRATE_SOURCE_POOL_H
/* A few connections to Postgres that many sources use in turn: a source that rests has none. All its sources
 * have one dsn and one timeout. Any thread may call; a source is one thread's. */
#include "migrate/source/source.h"

enum { POOL_MOST = 16 };

struct pool;

/* At most @limit connections, 1 to POOL_MOST. NULL: no memory. */
struct pool *pool_new(unsigned limit);
/* Its sources are closed. Fine with NULL. */
void pool_free(struct pool *p);

/* source_open() over one of the pool's connections, when it is this source's turn; the watch may end the
 * wait. The source has the connection until source_rest() or source_close(). Errors as of source_open(). */
MUST_CHECK enum err pool_open(struct pool *p, struct source **out, const struct source_config *config,
                              unsigned timeout_ms, struct error *e);

/* Before a source is asked again: wait for its turn. ERR_UNREACHABLE, too, where connections lead to another
 * server than when it was opened, or to one that was restarted: what it was told does not hold there; close
 * it and open it again. Does nothing for a source that has a connection. */
MUST_CHECK enum err source_take(struct source *s, struct error *e);
/* Let others have it: nothing may be asked until source_take(). Does nothing for a source of no pool. */
void source_rest(struct source *s);
#endif
