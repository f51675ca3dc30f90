/* SPDX-License-Identifier: MIT */
#include "migrate/change/feed.h"

/* The letter that follows the backslash; 0: the byte needs no escape. */
static char escape_of(char c)
{
    switch (c) {
    case '\b':
        return 'b';
    case '\f':
        return 'f';
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    case '\v':
        return 'v';
    case '\\':
        return '\\';
    default:
        return '\0';
    }
}

void feed_put_value(struct buffer *out, const char *bytes, size_t length)
{
    const char *end = bytes + length;
    const char *plain = bytes;
    for (const char *p = bytes; p < end; p++) {
        char letter = escape_of(*p);
        if (letter == '\0')
            continue;
        buffer_append(out, plain, (size_t)(p - plain));
        buffer_append(out, (const char[]){'\\', letter}, 2);
        plain = p + 1;
    }
    buffer_append(out, plain, (size_t)(end - plain));
}
