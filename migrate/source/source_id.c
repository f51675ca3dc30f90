/* SPDX-License-Identifier: MIT */
/* Ids as COPY writes them: a tab between columns, a backslash before bytes that would end a column or a
 * line. */
#include <string.h>

#include "migrate/source/source_internal.h"

static const char plain[] = "\b\f\n\r\t\v\\", escaped[] = "bfnrtv\\";

void source_put_id(struct buffer *out, const PGresult *r, int row, unsigned columns)
{
    for (unsigned c = 0; c < columns; c++) {
        if (c > 0)
            buffer_puts(out, "\t");
        for (const char *p = PQgetvalue(r, row, (int)c); *p != '\0'; p++) {
            const char *at = strchr(plain, *p);
            if (at != NULL)
                buffer_puts(out, "\\");
            buffer_append(out, at != NULL ? &escaped[at - plain] : p, 1);
        }
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
