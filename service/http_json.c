/* SPDX-License-Identifier: MIT */
#include "service/http_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"
#include "service/http_base64.h"

enum { DEPTH_MAX = 16 };

/* --- text --- */

/* The length of the UTF-8 character that @bytes begin with; 0: there is none. */
static size_t utf8_length(const unsigned char *bytes, size_t left)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } form[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t n = 1; n <= 4; n++) {
        if ((bytes[0] & form[n - 1].mask) != form[n - 1].lead)
            continue;
        uint32_t code = bytes[0] & (unsigned char)~form[n - 1].mask;
        if (n > left)
            return 0;
        for (size_t i = 1; i < n; i++) {
            if ((bytes[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (bytes[i] & 0x3f);
        }
        bool good = code >= form[n - 1].least && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
        return good ? n : 0;
    }
    return 0;
}

static void put_character(struct buffer *out, const char *at, size_t n)
{
    unsigned char c = (unsigned char)*at;
    if (n == 0)
        buffer_puts(out, "\xef\xbf\xbd");
    else if (c == '"' || c == '\\')
        buffer_printf(out, "\\%c", c);
    else if (c < 0x20 || c == 0x7f)
        buffer_printf(out, "\\u%04x", (unsigned)c);
    else
        buffer_append(out, at, n);
}

void http_json_text(struct buffer *out, const char *bytes, size_t length)
{
    buffer_puts(out, "\"");
    for (size_t i = 0; i < length;) {
        size_t n = utf8_length((const unsigned char *)bytes + i, length - i);
        put_character(out, bytes + i, n);
        i += n == 0 ? 1 : n;
    }
    buffer_puts(out, "\"");
}

static bool is_utf8(const char *bytes, size_t length)
{
    size_t n = 0;
    for (size_t i = 0; i < length; i += n)
        if ((n = utf8_length((const unsigned char *)bytes + i, length - i)) == 0)
            return false;
    return true;
}

void http_json_bytes(struct buffer *out, const char *bytes, size_t length)
{
    if (is_utf8(bytes, length)) {
        http_json_text(out, bytes, length);
        return;
    }
    buffer_puts(out, "{\"base64\":\"");
    http_base64_encode(out, bytes, length);
    buffer_puts(out, "\"}");
}

/* --- replies --- */

struct reader {
    struct buffer *out;
    const char *at, *end;
};

/* The line after the type byte; the reader moves behind its end. */
static bool take_line(struct reader *r, const char **text, size_t *length)
{
    const char *cr = memchr(r->at, '\r', (size_t)(r->end - r->at));
    if (cr == NULL || cr + 1 >= r->end || cr[1] != '\n')
        return false;
    *text = r->at;
    *length = (size_t)(cr - r->at);
    r->at = cr + 2;
    return true;
}

/* In the shortest form that is this number, as reply_double() has it. */
static bool take_double(struct reader *r, const char *text, size_t length)
{
    char shorter[40];
    double value;
    if (!number_double(text, length, &value)) {
        buffer_puts(r->out, "null"); /* nan, inf */
        return true;
    }
    (void)snprintf(shorter, sizeof(shorter), "%.15g", value);
    if (strtod(shorter, NULL) != value)
        (void)snprintf(shorter, sizeof(shorter), "%.17g", value);
    buffer_puts(r->out, shorter);
    return true;
}

static bool take_integer(struct reader *r, const char *text, size_t length)
{
    int64_t value;
    if (!number_i64(text, length, &value))
        return false;
    buffer_printf(r->out, "%" PRIi64, value);
    return true;
}

static bool take_boolean(struct reader *r, const char *text, size_t length)
{
    if (length != 1 || (*text != 't' && *text != 'f'))
        return false;
    buffer_puts(r->out, *text == 't' ? "true" : "false");
    return true;
}

/* The bytes behind a line that gives their number. */
static bool take_bytes(struct reader *r, uint64_t length, const char **bytes)
{
    size_t left = (size_t)(r->end - r->at);
    if (left < 2 || length > left - 2 || memcmp(r->at + length, "\r\n", 2) != 0)
        return false;
    *bytes = r->at;
    r->at += length + 2;
    return true;
}

static bool take_bulk(struct reader *r, uint64_t length)
{
    const char *bytes;
    if (!take_bytes(r, length, &bytes))
        return false;
    http_json_bytes(r->out, bytes, length);
    return true;
}

static bool take_value(struct reader *r, unsigned depth);

static bool take_array(struct reader *r, uint64_t count, unsigned depth)
{
    buffer_puts(r->out, "[");
    for (uint64_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_puts(r->out, ",");
        if (!take_value(r, depth))
            return false;
    }
    buffer_puts(r->out, "]");
    return true;
}

/* Names are text that we have chosen. */
static bool take_name(struct reader *r)
{
    const char *text;
    size_t length;
    char type = r->at == r->end ? '\0' : *r->at++;
    if ((type != '$' && type != '+') || !take_line(r, &text, &length))
        return false;
    uint64_t bytes = length;
    if (type == '$' && (!number_u64(text, length, &bytes) || !take_bytes(r, bytes, &text)))
        return false;
    http_json_text(r->out, text, bytes);
    return true;
}

static bool take_map(struct reader *r, uint64_t pairs, unsigned depth)
{
    buffer_puts(r->out, "{");
    for (uint64_t i = 0; i < pairs; i++) {
        if (i > 0)
            buffer_puts(r->out, ",");
        if (!take_name(r))
            return false;
        buffer_puts(r->out, ":");
        if (!take_value(r, depth))
            return false;
    }
    buffer_puts(r->out, "}");
    return true;
}

static bool take_counted(struct reader *r, char type, const char *text, size_t length, unsigned depth)
{
    uint64_t count;
    if (!number_u64(text, length, &count))
        return false;
    if (type == '$')
        return take_bulk(r, count);
    return type == '*' ? take_array(r, count, depth) : take_map(r, count, depth);
}

static bool take_value(struct reader *r, unsigned depth)
{
    const char *text;
    size_t length;
    if (depth == DEPTH_MAX || r->at == r->end || buffer_failed(r->out))
        return false;
    char type = *r->at++;
    if (!take_line(r, &text, &length))
        return false;
    switch (type) {
    case '+':
        http_json_bytes(r->out, text, length);
        return true;
    case ':':
        return take_integer(r, text, length);
    case ',':
        return take_double(r, text, length);
    case '#':
        return take_boolean(r, text, length);
    case '_':
        buffer_puts(r->out, "null");
        return length == 0;
    case '$':
    case '*':
    case '%':
        return take_counted(r, type, text, length, depth + 1);
    default:
        return false;
    }
}

enum err http_json_reply(struct buffer *out, const char *reply, size_t length, struct error *e)
{
    size_t before = out->length;
    struct reader r = {.out = out, .at = reply, .end = reply + length};
    bool good = take_value(&r, 0) && r.at == r.end;
    if (good && !buffer_failed(out))
        return ERR_OK;
    out->length = before;
    if (buffer_failed(out))
        return error_set(e, ERR_NOMEM, "out of memory");
    return error_set(e, ERR_PARSE, "byte %zu of a reply is not understood", (size_t)(r.at - reply));
}
