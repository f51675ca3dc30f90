/* SPDX-License-Identifier: MIT */
#ifndef SQL_SQL_H
#define SQL_SQL_H
/* The SQL statements, one file each, embedded by the build. A file runs in psql as it is, as it uses
 * psql's variables: operators can try by hand what the program sends.
 *   :"name"  an identifier      psql -v name=id        here: quoted and put into the text
 *   :name    a piece of SQL     psql -v name='code'    here: put into the text as it is
 *   :'name'  a value            psql -v name=100       here: a parameter $1, $2, ... in the order of @params
 * `::` casts and quoted literals are left alone. */
#include <stddef.h>
#include "base/buffer.h"
#include "base/error.h"

/* The text of sql/<name>.sql; NULL: there is no such file. */
const char *sql_text(const char *name);

struct sql_binding {
    const char *name;
    const char *text; /* an unquoted identifier, or a piece of SQL */
};

/* Render statement @name for libpq: without comments and the final semicolon, with identifiers and pieces
 * from
 * @bindings, with values numbered by their position in @params. For a protocol without parameters
 * @literals[i], quoted by the caller, replaces @params[i]; NULL: they stay parameters. ERR_NOT_FOUND: no such
 * statement; ERR_CONFIG: a variable has neither a binding nor a param. */
MUST_CHECK enum err sql_render(const char *name, const struct sql_binding *bindings, size_t binding_count,
                               const char *const *params, const char *const *literals, size_t param_count,
                               struct buffer *out, struct error *e);
#endif
