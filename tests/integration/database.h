/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_DATABASE_H
#define TESTS_INTEGRATION_DATABASE_H
/* Shared parts of tests with a real Postgres: a server for a group of tests, and sessions beside the one
 * under test. */
#include <libpq-fe.h>

#include "base/error.h"
#include "migrate/source/source.h"
#include "tests/lib/temp_postgres.h"

/* CMocka group fixtures; *state is a struct temp_postgres. */
int database_setup(void **state);
int database_teardown(void **state);

/* As database_setup(), with more settings of the server; for setups that tests write themselves. */
int database_start(void **state, const char *settings);

PGconn *database_connect(const struct temp_postgres *p, const char *database, const char *application);

/* Run SQL that must succeed. */
void database_run(PGconn *pg, const char *format, ...) PRINTF_LIKE(2, 3);

/* The first value of the first row of a query. The caller frees it. */
char *database_value(PGconn *pg, const char *format, ...) PRINTF_LIKE(2, 3);

/* Open a source with the id column "id" and the key column "code". A failure fails the test. */
struct source *database_source(const struct temp_postgres *p, const char *table, const char *where);

/* Make a table of the reference schema, with rows whose ids are 3, 6, 9 ... and whose codes are 'c' and the
 * id. */
void database_short_links(PGconn *pg, const char *table, unsigned rows);

/* Fail the test with the error's text unless @err is ERR_OK. */
void must(enum err err, const struct error *e);
#endif
