/* SPDX-License-Identifier: MIT */
#ifndef SQL_SQL_H
#define SQL_SQL_H
/* The SQL statements, one file each, embedded by the build. A file runs in psql as it is, as it uses
 * psql's variables: operators can try by hand what the program sends.
 *   :"name"  an identifier      psql -v name=id        here: quoted and put into the text
 *   :name    a piece of SQL     psql -v name='code'    here: put into the text as it is
 *   :'name'  a value            psql -v name=100       here: a parameter $1, $2, ...
 * `::` casts and quoted literals are left alone. */
#include <stddef.h>
#include "base/buffer.h"
#include "base/error.h"

/* The text of sql/<name>.sql; NULL: there is no such file. */
const char *sql_text(const char *name);

/* What a variable stands for. A list of bindings ends with a row of NULLs; of two with one name the first
 * counts. */
struct sql_binding {
    const char *name;
    const char *text; /* an unquoted identifier, a piece of SQL, or a value */
};
#define SQL_BINDINGS(...) ((const struct sql_binding[]){__VA_ARGS__, {NULL, NULL}})

/* The values of a rendered statement: $1 is text[0]. */
enum { SQL_VALUES_MAX = 4 };
struct sql_values {
    size_t count;
    const char *text[SQL_VALUES_MAX];
};

/* Render statement @name for libpq: without comments and the final semicolon, with identifiers and pieces
 * from @bindings (NULL: none); *@values: their texts for $1, $2, ... @values NULL, for a protocol without
 * parameters: the caller has quoted the values, and they are put into the text. ERR_NOT_FOUND: there is no
 * such statement. ERR_CONFIG: a variable has no binding. */
MUST_CHECK enum err sql_render(const char *name, const struct sql_binding *bindings,
                               struct sql_values *values, struct buffer *out, struct error *e);
#endif
