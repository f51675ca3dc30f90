/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_POOLED_H
#define MIGRATE_SOURCE_POOLED_H
/* A connection to Postgres that is kept between short questions about sources, so that the next question
 * needs no new session. Answers are as fresh as over a new connection: names are resolved again in a reset
 * session, and after any error the question is repeated over a new connection. One thread owns it, and asks
 * about one source at a time. */
#include <stdint.h>
#include "base/error.h"
#include "migrate/source/source.h"

/* Close the connection after this idle time; and at this age, because the server reads a role's rights and
 * settings at the beginning of a session. */
enum { POOLED_IDLE_US = 60 * 1000 * 1000, POOLED_LIFE_US = 600 * 1000 * 1000 };

struct pooled;

/* @application (borrowed): application_name, see struct source_config. NULL: no memory. */
struct pooled *pooled_new(const char *application);
/* Fine with NULL. */
void pooled_free(struct pooled *k);

/* source_open() and source_check(), over the pooled connection if that has the same dsn and timeout. Ignores
 * @config's application and watch. ERR_CONFIG, ERR_UNREACHABLE, ERR_TIMEOUT, as from these. */
MUST_CHECK enum err pooled_open(struct pooled *k, struct source **out, const struct source_config *config,
                                unsigned timeout_ms, struct error *e);

/* Use this instead of source_close() for a source of pooled_open(): it keeps the connection if it is usable.
 * NULL is fine. */
void pooled_close(struct pooled *k, struct source *s);

/* Close the connection if it is too old or idle for too long at @now (clock_mono_us()), or has another dsn or
 * timeout than these. */
void pooled_tidy(struct pooled *k, const char *dsn, unsigned timeout_ms, uint64_t now);
#endif
