/* SPDX-License-Identifier: MIT */
#include "service/protocol/json.h"

#include "base/utf8.h"
#include "service/protocol/base64.h"

void json_put_text(struct buffer *out, const char *bytes, size_t length)
{
    buffer_puts(out, "\"");
    char text[UTF8_JSON_MAX + 1];
    for (size_t i = 0, taken; i < length; i += taken)
        buffer_append(out, text, utf8_json(text, bytes + i, length - i, &taken));
    buffer_puts(out, "\"");
}

void json_put_bytes(struct buffer *out, const char *bytes, size_t length)
{
    if (utf8_valid(bytes, length)) {
        json_put_text(out, bytes, length);
        return;
    }
    buffer_puts(out, "{\"base64\":\"");
    base64_encode(out, bytes, length);
    buffer_puts(out, "\"}");
}
