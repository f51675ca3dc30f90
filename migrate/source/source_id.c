/* SPDX-License-Identifier: MIT */
/* Ids as COPY writes them: a tab between columns, a backslash before bytes that would end a column or a
 * line. */
#include <string.h>

#include "migrate/source/source_internal.h"

static const char plain[] = "\b\f\n\r\t\v\\", escaped[] = "bfnrtv\\";

void source_put_value(struct buffer *out, const char *bytes, size_t length)
{
    for (const char *p = bytes; p < bytes + length; p++) {
        const char *at = memchr(plain, *p, sizeof(plain) - 1);
        if (at != NULL)
            buffer_puts(out, "\\");
        buffer_append(out, at != NULL ? &escaped[at - plain] : p, 1);
    }
}

void source_put_id(struct buffer *out, const PGresult *r, int row, unsigned columns)
{
    for (int c = 0; c < (int)columns; c++) {
        if (c > 0)
            buffer_puts(out, "\t");
        source_put_value(out, PQgetvalue(r, row, c), (size_t)PQgetlength(r, row, c));
    }
}

void source_put_literals(struct buffer *out, const char *id)
{
    buffer_puts(out, "'");
    for (const char *p = id; *p != '\0'; p++) {
        const char *at = *p == '\\' && p[1] != '\0' ? strchr(escaped, p[1]) : NULL;
        if (at != NULL) {
            buffer_append(out, &plain[at - escaped], 1);
            p++;
        } else if (*p == '\t') {
            buffer_puts(out, "', '");
        } else {
            buffer_append(out, p, 1);
            if (*p == '\'')
                buffer_puts(out, "'");
        }
    }
    buffer_puts(out, "'");
}

void source_put_bound(struct buffer *out, const struct source_table *t, const char *operator, const char * id)
{
    if (id[0] == '\0') {
        buffer_puts(out, "true");
        return;
    }
    buffer_printf(out, "(%s) %s (", t->id_piece, operator);
    source_put_literals(out, id);
    buffer_puts(out, ")");
}
