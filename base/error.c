/* SPDX-License-Identifier: MIT */
#include "base/error.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum err error_set(struct error *e, enum err code, const char *format, ...)
{
    if (e == NULL)
        return code;
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(e->text, sizeof(e->text), format, ap);
    va_end(ap);
    return code;
}

enum err error_prefix(struct error *e, enum err code, const char *format, ...)
{
    if (e == NULL)
        return code;
    char old[sizeof(e->text)];
    memcpy(old, e->text, sizeof(old));
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(e->text, sizeof(e->text), format, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n + 2 < sizeof(e->text)) {
        char *at = e->text + n;
        size_t length = strnlen(old, sizeof(e->text) - (size_t)n - 3);
        memcpy(at, ": ", 2);
        memcpy(at + 2, old, length);
        at[2 + length] = '\0';
    }
    return code;
}

static const struct error_code rows[] = {
#define X(code, value, name, reply, http_status, exit_status, meaning, remedy)                               \
    {code, name, reply, http_status, exit_status, meaning, remedy},
    ERROR_CODES(X)
#undef X
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

const struct error_code *error_codes(size_t *count)
{
    *count = ROWS;
    return rows;
}

const struct error_code *error_code_of(enum err code)
{
    for (size_t i = 0; i < ROWS; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

const char *error_name(enum err code)
{
    const struct error_code *row = error_code_of(code);
    return row != NULL ? row->name : code == ERR_OK ? "ok" : "unknown";
}

static bool begins(const char *text, size_t length, const char *with)
{
    size_t n = strlen(with);
    return length >= n && memcmp(text, with, n) == 0 && (length == n || !isalpha((unsigned char)text[n]));
}

enum err error_of_reply(const char *text, size_t length)
{
    static const struct {
        const char *reply;
        enum err code;
    } others[] = {{"ERR Insufficient memory to create filter", ERR_NOMEM}, /* RedisBloom's text */
                  {"ERR could not create filter", ERR_RANGE},
                  {"LOADING", ERR_TIMEOUT}}; /* Redis is starting */
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (begins(text, length, others[i].reply))
            return others[i].code;
    for (size_t i = 0; i < ROWS; i++)
        if (begins(text, length, rows[i].reply))
            return rows[i].code;
    return ERR_REFUSED;
}
