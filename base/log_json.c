/* SPDX-License-Identifier: MIT */
/* Converts a log line to JSON. */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>
#include "base/log.h"
#include "base/utf8.h"

struct json {
    char *out;
    size_t size, length;
};

static void put(struct json *j, const char *bytes, size_t n)
{
    if (j->size - j->length <= n)
        return; /* cannot happen if the caller gives LOG_JSON_MAX bytes */
    memcpy(j->out + j->length, bytes, n);
    j->length += n;
}

/* Write one character of a string; returns how many bytes of @from it took. */
static size_t put_character(struct json *j, const char *from, size_t left)
{
    char text[UTF8_JSON_MAX + 1];
    size_t taken, n = utf8_json(text, from, left, &taken);
    if (*from == '\0')
        put(j, "\xef\xbf\xbd", 3);
    else
        put(j, text, n);
    return taken;
}

static void put_string(struct json *j, const char *from, size_t length)
{
    put(j, "\"", 1);
    for (size_t i = 0; i < length;)
        i += put_character(j, from + i, length - i);
    put(j, "\"", 1);
}

/* Write a double-quoted text with " and \ escaped. Returns the bytes up to and including the closing
 * quote. */
static size_t put_quoted(struct json *j, const char *from, size_t length)
{
    size_t i = 1;
    put(j, "\"", 1);
    while (i < length && from[i] != '"') {
        i += from[i] == '\\' && i + 1 < length;
        i += put_character(j, from + i, length - i);
    }
    put(j, "\"", 1);
    return i < length ? i + 1 : length;
}

static size_t digits(const char *text, size_t length)
{
    size_t n = 0;
    while (n < length && isdigit((unsigned char)text[n]))
        n++;
    return n;
}

/* True if the text is a JSON number without exponent, of at most 15 digits before the point: a double holds
 * these. */
static bool is_number(const char *text, size_t length)
{
    enum { DIGITS_MAX = 15 };
    size_t at = length > 0 && text[0] == '-', whole = digits(text + at, length - at);
    if (whole == 0 || whole > DIGITS_MAX || (whole > 1 && text[at] == '0'))
        return false;
    at += whole;
    if (at < length && text[at] == '.') {
        size_t n = digits(text + at + 1, length - at - 1);
        if (n == 0)
            return false;
        at += 1 + n;
    }
    return at == length;
}

size_t log_json(char *out, size_t size, const char *line, size_t length)
{
    struct json j = {.out = out, .size = size};
    put(&j, "{", 1);
    for (size_t at = 0; at < length;) {
        if (line[at] == ' ') {
            at++;
            continue;
        }
        size_t name = 0, value = 0;
        while (at + name < length && line[at + name] != '=' && line[at + name] != ' ')
            name++;
        if (j.length > 1)
            put(&j, ",", 1);
        put_string(&j, line + at, name);
        put(&j, ":", 1);
        at += name;
        at += at < length && line[at] == '=';
        while (at + value < length && line[at + value] != ' ')
            value++;
        if (at < length && line[at] == '"')
            value = put_quoted(&j, line + at, length - at);
        else if (is_number(line + at, value))
            put(&j, line + at, value);
        else
            put_string(&j, line + at, value);
        at += value;
    }
    put(&j, "}", 1);
    return j.length;
}
