/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_json.h"

#include <inttypes.h>
#include <string.h>
#include "base/number.h"
#include "base/utf8.h"
#include "service/http/message/http_base64.h"

enum { DEPTH_MAX = 16 };

/* --- text --- */

void http_json_text(struct buffer *out, const char *bytes, size_t length)
{
    buffer_puts(out, "\"");
    char text[UTF8_JSON_MAX + 1];
    for (size_t i = 0, taken; i < length; i += taken)
        buffer_append(out, text, utf8_json(text, bytes + i, length - i, &taken));
    buffer_puts(out, "\"");
}

void http_json_bytes(struct buffer *out, const char *bytes, size_t length)
{
    if (utf8_valid(bytes, length)) {
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

/* Read the line behind the type byte, and move the reader behind the line. */
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

/* The text is the number in its shortest exact form already. */
static bool take_double(struct reader *r, const char *text, size_t length)
{
    double value;
    if (number_double(text, length, &value))
        buffer_append(r->out, text, length);
    else
        buffer_puts(r->out, "null"); /* nan and inf are no JSON */
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

/* Read the bytes behind a line that gives their number. */
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

/* Read a name, which is a text of our own. */
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
