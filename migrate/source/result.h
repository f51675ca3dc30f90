/* SPDX-License-Identifier: MIT */
#ifndef MIGRATE_SOURCE_RESULT_H
#define MIGRATE_SOURCE_RESULT_H
/* Columns of a result's first row, by name. */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include "base/number.h"

static inline const char *result_text(const PGresult *r, const char *column)
{
    return PQgetvalue(r, 0, PQfnumber(r, column));
}
static inline bool result_is_true(const PGresult *r, const char *column)
{
    return strcmp(result_text(r, column), "t") == 0;
}
/* False: it is no number, and *@out stays. */
static inline bool result_number(const PGresult *r, const char *column, uint64_t *out)
{
    return number_u64(result_text(r, column), strlen(result_text(r, column)), out);
}
static inline void result_copy(char *out, size_t size, const PGresult *r, const char *column)
{
    (void)snprintf(out, size, "%s", result_text(r, column));
}
#endif
