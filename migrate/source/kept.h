/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_KEPT_H
#define MIGRATE_SOURCE_KEPT_H
/* A connection to Postgres that is kept between short questions about sources, so that the next one does not
 * wait for a new session of the server. Its answers are as fresh as those of a new one: names are resolved
 * anew, under the session that it began with, and whatever goes wrong is asked again on a new connection.
 * Owned by one thread, which asks about one source at a time. */
#include <stdint.h>
#include "base/error.h"
#include "migrate/source/source.h"

/* It is closed when nobody has asked for so long; and when it is so old, as what a server knows of a role and
 * its settings is that of the session's beginning. */
enum { KEPT_IDLE_US = 60 * 1000 * 1000, KEPT_LIFE_US = 600 * 1000 * 1000 };

struct kept;

/* @application (borrowed): what Postgres shows of it, see struct source_config. NULL: no memory. */
struct kept *kept_new(const char *application);
/* Fine with NULL. */
void kept_free(struct kept *k);

/* source_open() and source_check(). It goes over the connection that is kept where that is one to the same
 * dsn with the same timeout. @config's application and watch do not matter: nothing is called. ERR_CONFIG,
 * ERR_UNREACHABLE, ERR_TIMEOUT, as from these. */
MUST_CHECK enum err kept_open(struct kept *k, struct source **out, const struct source_config *config,
                              unsigned timeout_ms, struct error *e);

/* In place of source_close(), for a source of kept_open(): its connection is kept if all is well with it.
 * Fine with NULL. */
void kept_close(struct kept *k, struct source *s);

/* Close what is kept too long by now (clock_mono_us()), or for another dsn or timeout than these. */
void kept_tidy(struct kept *k, const char *dsn, unsigned timeout_ms, uint64_t now);
#endif
