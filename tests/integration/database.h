/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DATABASE_H
#define TESTS_INTEGRATION_DATABASE_H
/* What tests against a real Postgres share: a server for a group of tests, sessions beside the one under
 * test. */
#include <libpq-fe.h>

#include "base/error.h"
#include "migrate/source/source.h"
#include "tests/lib/temp_postgres.h"

/* CMocka group fixtures; *state is a struct temp_postgres. */
int database_setup(void **state);
int database_teardown(void **state);

/* The same with a server of more settings; for a setup of the test's own. */
int database_start(void **state, const char *settings);

PGconn *database_connect(const struct temp_postgres *p, const char *database, const char *application);

/* Run SQL that must succeed. */
void database_run(PGconn *pg, const char *format, ...) PRINTF_LIKE(2, 3);

/* The first value of the first row; the caller frees it. */
char *database_value(PGconn *pg, const char *format, ...) PRINTF_LIKE(2, 3);

/* Open a source that must open: id column "id", key column "code". */
struct source *database_source(const struct temp_postgres *p, const char *table, const char *where);

/* A new table of the reference schema with rows whose ids are 3, 6, 9 ... and whose codes are 'c' and the id.
 */
void database_short_links(PGconn *pg, const char *table, unsigned rows);

/* Fails the test with the error's text. */
void must(enum err err, const struct error *e);
#endif
