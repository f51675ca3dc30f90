/* SPDX-License-Identifier: MIT */
#include "service/protocol/reply.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/protocol/json.h"

enum {
    INTEGER_MAX = 20, /* length of "-9223372036854775808" */
    HEADER_MAX = 1 + INTEGER_MAX + 2,
    LINE_MAX_BYTES = 1024 /* of an error's text; a longer text is cut */
};

/* --- JSON --- */

static bool is_json(const struct reply *r)
{
    return r->protocol == REPLY_JSON;
}

/* Write the comma before a value or a name, unless it is the first, or the value of a name. */
static void separate(struct buffer *out)
{
    if (out->length > 0 && strchr("[{:", out->data[out->length - 1]) == NULL)
        buffer_puts(out, ",");
}

/* A value is complete: close the arrays of which it is the last element. */
static void end_value(struct reply *r)
{
    for (; r->depth > 0 && --r->left[r->depth - 1] == 0; r->depth--)
        buffer_puts(r->out, "]");
}

static void json_literal(struct reply *r, const char *text)
{
    separate(r->out);
    buffer_puts(r->out, text);
    end_value(r);
}

static void json_bytes(struct reply *r, const void *bytes, size_t length)
{
    separate(r->out);
    json_put_bytes(r->out, bytes, length);
    end_value(r);
}

/* --- RESP --- */

/* Digits are written from the end, two at a step. Most replies are integers and bulk headers, so printf would
 * cost more than the rest of the reply. */
static size_t put_unsigned(char *to, uint64_t value)
{
    static const char pairs[] =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243"
        "4445464748495051525354555657585960616263646566676869707172737475767778798081828384858687"
        "888990919293949596979899";
    char digits[INTEGER_MAX];
    size_t at = sizeof(digits);
    while (value >= 100) {
        at -= 2;
        memcpy(digits + at, pairs + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10) {
        at -= 2;
        memcpy(digits + at, pairs + value * 2, 2);
    } else {
        digits[--at] = (char)('0' + value);
    }
    memcpy(to, digits + at, sizeof(digits) - at);
    return sizeof(digits) - at;
}

static void end_line(char *to)
{
    to[0] = '\r';
    to[1] = '\n';
}

/* Write @type, @value and the line's end to @to, which has HEADER_MAX bytes. */
static size_t put_header(char *to, char type, uint64_t value)
{
    to[0] = type;
    size_t n = 1 + put_unsigned(to + 1, value);
    end_line(to + n);
    return n + 2;
}

static void header(struct reply *r, char type, uint64_t value)
{
    char *to = buffer_reserve(r->out, HEADER_MAX);
    if (to != NULL)
        r->out->length += put_header(to, type, value);
}

static void line(struct reply *r, char type, const char *text)
{
    size_t length = strlen(text);
    char *to = buffer_reserve(r->out, length + 3);
    if (to == NULL)
        return;
    to[0] = type;
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        to[1 + i] = c < 0x20 || c == 0x7f ? ' ' : text[i];
    }
    end_line(to + 1 + length);
    r->out->length += length + 3;
}

void reply_simple(struct reply *r, const char *text)
{
    if (is_json(r))
        json_bytes(r, text, strlen(text));
    else
        line(r, '+', text);
}

void reply_error(struct reply *r, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof(text), format, ap);
    va_end(ap);
    line(r, '-', text);
}

void reply_failure(struct reply *r, enum err code, const char *format, ...)
{
    const struct error_code *row = error_code_of(code);
    const char *begin = row != NULL ? row->reply : "ERR";
    char text[LINE_MAX_BYTES];
    if (strchr(begin, ' ') != NULL) {
        line(r, '-', begin);
        return;
    }
    int n = snprintf(text, sizeof(text), "%s ", begin);
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text + n, sizeof(text) - (size_t)n, format, ap);
    va_end(ap);
    line(r, '-', text);
}

bool reply_is_of_redisbloom(enum err code)
{
    return code == ERR_RANGE || code == ERR_NOMEM;
}

void reply_integer(struct reply *r, int64_t value)
{
    if (is_json(r)) {
        char text[INTEGER_MAX + 1];
        (void)snprintf(text, sizeof(text), "%" PRIi64, value);
        json_literal(r, text);
        return;
    }
    if (value >= 0) {
        header(r, ':', (uint64_t)value);
        return;
    }
    char *to = buffer_reserve(r->out, 1 + HEADER_MAX);
    if (to == NULL)
        return;
    to[0] = ':';
    r->out->length += 1 + put_header(to + 1, '-', 0 - (uint64_t)value);
}

void reply_booleans(struct reply *r, const uint8_t *values, size_t count)
{
    static const char text[4][5] = {":0\r\n", ":1\r\n", "#f\r\n", "#t\r\n"};
    const char(*of)[5] = &text[r->protocol >= 3 ? 2 : 0];
    char *to = buffer_reserve(r->out, 4 * count);
    if (to == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        memcpy(to + 4 * i, of[values[i]], 4);
    r->out->length += 4 * count;
}

void reply_boolean(struct reply *r, bool value)
{
    const uint8_t one = value;
    if (is_json(r))
        json_literal(r, value ? "true" : "false");
    else
        reply_booleans(r, &one, 1);
}

void reply_double(struct reply *r, double value)
{
    char text[40];
    if (isnan(value)) {
        (void)snprintf(text, sizeof(text), "nan");
    } else if (isinf(value)) {
        (void)snprintf(text, sizeof(text), value > 0 ? "inf" : "-inf");
    } else {
        (void)snprintf(text, sizeof(text), "%.15g", value);
        if (strtod(text, NULL) != value) /* the shorter form is a different number */
            (void)snprintf(text, sizeof(text), "%.17g", value);
    }
    if (is_json(r))
        json_literal(r, isfinite(value) ? text : "null");
    else if (r->protocol >= 3)
        line(r, ',', text);
    else
        reply_text(r, text);
}

void reply_null(struct reply *r)
{
    if (is_json(r))
        json_literal(r, "null");
    else
        buffer_puts(r->out, r->protocol >= 3 ? "_\r\n" : "$-1\r\n");
}

void reply_bulk(struct reply *r, const void *bytes, size_t length)
{
    if (is_json(r)) {
        json_bytes(r, bytes, length);
        return;
    }
    if (length > SIZE_MAX - HEADER_MAX - 2) {
        r->out->failed = true;
        return;
    }
    char *to = buffer_reserve(r->out, HEADER_MAX + length + 2);
    if (to == NULL)
        return;
    size_t n = put_header(to, '$', length);
    if (length > 0)
        memcpy(to + n, bytes, length);
    end_line(to + n + length);
    r->out->length += n + length + 2;
}

void reply_text(struct reply *r, const char *text)
{
    reply_bulk(r, text, strlen(text));
}

void reply_pair(struct reply *r, const char *name, const char *value)
{
    reply_text(r, name);
    reply_text(r, value);
}

void reply_printf(struct reply *r, const char *format, ...)
{
    char *text;
    va_list ap;
    va_start(ap, format);
    int n = vasprintf(&text, format, ap);
    va_end(ap);
    if (n < 0) {
        r->out->failed = true;
        return;
    }
    reply_bulk(r, text, (size_t)n);
    free(text);
}

void reply_verbatim(struct reply *r, const void *bytes, size_t length)
{
    if (r->protocol < 3) {
        reply_bulk(r, bytes, length);
        return;
    }
    header(r, '=', length + 4);
    buffer_puts(r->out, "txt:");
    buffer_append(r->out, bytes, length);
    buffer_puts(r->out, "\r\n");
}

void reply_array(struct reply *r, size_t count)
{
    if (!is_json(r)) {
        header(r, '*', count);
    } else if (count == 0) {
        json_literal(r, "[]");
    } else {
        assert(r->depth < REPLY_DEPTH_MAX);
        separate(r->out);
        buffer_puts(r->out, "[");
        r->left[r->depth++] = (uint32_t)count;
    }
}

void reply_map(struct reply *r, size_t pairs)
{
    if (r->protocol >= 3)
        header(r, '%', pairs);
    else
        header(r, '*', pairs * 2);
}

void reply_name(struct reply *r, const char *name)
{
    if (!is_json(r)) {
        reply_text(r, name);
        return;
    }
    separate(r->out);
    json_put_text(r->out, name, strlen(name));
    buffer_puts(r->out, ":");
}

void reply_content(struct reply *r, bool map, size_t count, const struct buffer *content)
{
    if (is_json(r)) {
        separate(r->out);
        buffer_puts(r->out, map ? "{" : "[");
    } else if (map) {
        reply_map(r, count);
    } else {
        reply_array(r, count);
    }
    buffer_append(r->out, content->data, content->length);
    r->out->failed |= buffer_failed(content);
    if (is_json(r)) {
        buffer_puts(r->out, map ? "}" : "]");
        end_value(r);
    }
}
