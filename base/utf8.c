/* SPDX-License-Identifier: MIT */
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* The second byte shows overlong forms, surrogates and values beyond U+10FFFF. */
static bool is_second(unsigned char first, unsigned char second)
{
    unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= low && second <= high;
}

size_t utf8_sequence(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (n > left || !is_second(p[0], p[1]))
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool utf8_valid(const char *text, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i += n)
        if ((n = utf8_sequence(text + i, length - i)) == 0)
            return false;
    return true;
}

size_t utf8_json(char out[UTF8_JSON_MAX + 1], const char *text, size_t left, size_t *taken)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t n = utf8_sequence(text, left);
    *taken = n == 0 ? 1 : n;
    if (n == 0)
        return (size_t)snprintf(out, UTF8_JSON_MAX + 1, "\xef\xbf\xbd");
    if (p[0] == '"' || p[0] == '\\')
        return (size_t)snprintf(out, UTF8_JSON_MAX + 1, "\\%c", p[0]);
    if (p[0] < ' ' || p[0] == 0x7f)
        return (size_t)snprintf(out, UTF8_JSON_MAX + 1, "\\u%04x", (unsigned)p[0]);
    if (n == 2 && p[0] == 0xc2 && p[1] < 0xa0)
        return (size_t)snprintf(out, UTF8_JSON_MAX + 1, "\\u%04x", (unsigned)p[1]);
    memcpy(out, text, n);
    return n;
}
