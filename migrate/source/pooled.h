/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_POOLED_H
#define MIGRATE_SOURCE_POOLED_H
/* A connection to Postgres that is kept between short questions about sources, so that the next one does not
 * wait for a new session of the server. Its answers are as fresh as those of a new one: names are resolved
 * again, under the session that it began with, and whatever goes wrong is asked again on a new connection.
 * Owned by one thread, which asks about one source at a time. */
#include <stdint.h>
#include "base/error.h"
#include "migrate/source/source.h"

/* It is closed when nobody has asked for so long; and when it is so old, as what a server knows of a role and
 * its settings is that of the session's beginning. */
enum { POOLED_IDLE_US = 60 * 1000 * 1000, POOLED_LIFE_US = 600 * 1000 * 1000 };

struct pooled;

/* @application (borrowed): what Postgres shows of it, see struct source_config. NULL: no memory. */
struct pooled *pooled_new(const char *application);
/* Fine with NULL. */
void pooled_free(struct pooled *k);

/* source_open() and source_check(). It goes over the connection that is kept where that is one to the same
 * dsn with the same timeout. @config's application and watch do not matter: nothing is called. ERR_CONFIG,
 * ERR_UNREACHABLE, ERR_TIMEOUT, as from these. */
MUST_CHECK enum err pooled_open(struct pooled *k, struct source **out, const struct source_config *config,
                                unsigned timeout_ms, struct error *e);

/* In place of source_close(), for a source of pooled_open(): its connection is kept if all is well with it.
 * Fine with NULL. */
void pooled_close(struct pooled *k, struct source *s);

/* Close what is kept too long by now (clock_mono_us()), or for another dsn or timeout than these. */
void pooled_tidy(struct pooled *k, const char *dsn, unsigned timeout_ms, uint64_t now);
#endif
