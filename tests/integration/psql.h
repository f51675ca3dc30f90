/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_PSQL_H
#define TESTS_INTEGRATION_PSQL_H
/* Runs files of sql/ in psql, as an operator does. SQL_DIRECTORY is their directory. */
#include "tests/lib/temp_postgres.h"

enum { PSQL_VARIABLES_MAX = 8 };

/* What follows it in a list of variables is a command that psql runs before the file. */
#define PSQL_BEFORE "before:"

/* Run sql/@name.sql with @variables ("name=value", up to PSQL_VARIABLES_MAX, a NULL after fewer). Returns the
 * output, without headers, which the caller frees. *@status: the exit status of psql. */
char *psql_file(const struct temp_postgres *p, const char *name, const char *const *variables, int *status);
#endif
