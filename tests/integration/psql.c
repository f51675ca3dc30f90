/* SPDX-License-Identifier: MIT */
#include "tests/integration/psql.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/database.h"

enum { ARGS_MAX = 32, PSQL_MS = 60000 };

char *psql_file(const struct temp_postgres *p, const char *name, const char *const *variables, int *status)
{
    char program[PATH_MAX + 16];
    char file[PATH_MAX];
    (void)snprintf(program, sizeof(program), "%s/psql", p->binaries);
    (void)snprintf(file, sizeof(file), "%s/%s.sql", SQL_DIRECTORY, name);
    const char *argv[ARGS_MAX] = {program, "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", p->dsn};
    size_t n = 6, before = strlen(PSQL_BEFORE);
    for (size_t i = 0; i < PSQL_VARIABLES_MAX && variables[i] != NULL; i++) {
        bool command = strncmp(variables[i], PSQL_BEFORE, before) == 0;
        argv[n++] = command ? "-c" : "-v";
        argv[n++] = variables[i] + (command ? before : 0);
    }
    argv[n++] = "-f";
    argv[n++] = file;
    char *output = NULL;
    struct error e = {0};
    must(process_run(argv, PSQL_MS, &output, status, &e), &e);
    return output;
}
