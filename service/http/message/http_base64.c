/* SPDX-License-Identifier: MIT */
#include "service/http/message/http_base64.h"

#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void http_base64_encode(struct buffer *out, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;
    for (size_t i = 0; i < length; i += 3) {
        size_t n = length - i < 3 ? length - i : 3;
        uint32_t group = (uint32_t)from[i] << 16;
        group |= n > 1 ? (uint32_t)from[i + 1] << 8 : 0;
        group |= n > 2 ? from[i + 2] : 0;
        const char four[4] = {alphabet[group >> 18], alphabet[group >> 12 & 63],
                              n > 1 ? alphabet[group >> 6 & 63] : '=', n > 2 ? alphabet[group & 63] : '='};
        buffer_append(out, four, sizeof(four));
    }
}

/* The value of a character; -1: it is not in the alphabet. */
static int value_of(char c)
{
    const char *at = c == '\0' ? NULL : strchr(alphabet, c);
    return at == NULL ? -1 : (int)(at - alphabet);
}

/* Decode @n characters, 2 to 4, to @n - 1 bytes. */
static bool decode_group(struct buffer *out, const char *text, size_t n)
{
    uint32_t group = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i < n ? value_of(text[i]) : 0;
        if (value < 0)
            return false;
        group = group << 6 | (uint32_t)value;
    }
    if ((n == 2 && (group & 0xffff) != 0) || (n == 3 && (group & 0xff) != 0))
        return false;
    const unsigned char three[3] = {(unsigned char)(group >> 16), (unsigned char)(group >> 8),
                                    (unsigned char)group};
    buffer_append(out, three, n - 1);
    return true;
}

bool http_base64_decode(struct buffer *out, const char *text, size_t length)
{
    if (length % 4 != 0)
        return false;
    for (size_t i = 0; i < length; i += 4) {
        size_t n = 4;
        if (i + 4 == length) /* padding is allowed at the end only */
            n = text[i + 3] != '=' ? 4 : text[i + 2] != '=' ? 3 : 2;
        if (!decode_group(out, text + i, n))
            return false;
    }
    return true;
}
