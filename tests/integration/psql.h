/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_PSQL_H
#define TESTS_INTEGRATION_PSQL_H
/* Files of sql/ in psql, as an operator runs them. SQL_DIRECTORY is where they are. */
#include "tests/lib/temp_postgres.h"

enum { PSQL_VARIABLES_MAX = 8 };

/* Run sql/@name.sql with @variables ("name=value", up to PSQL_VARIABLES_MAX, NULL behind the last of fewer):
 * what it prints, without headers; the caller frees it. *@status: how psql ended. */
char *psql_file(const struct temp_postgres *p, const char *name, const char *const *variables, int *status);
#endif
