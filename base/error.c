/* SPDX-License-Identifier: MIT */
#include "base/error.h"

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

const char *error_name(enum err code)
{
    switch (code) {
    case ERR_OK:
        return "ok";
#define X(c, value, name, meaning)                                                                           \
    case c:                                                                                                  \
        return name;
        ERROR_CODES(X)
#undef X
    }
    return "unknown";
}
