/* SPDX-License-Identifier: MIT */
#include "service/protocol/base64.h"

#include <string.h>
#include <openssl/evp.h>

void base64_encode(struct buffer *out, const void *bytes, size_t length)
{
    char *to = buffer_reserve(out, (length + 2) / 3 * 4 + 1); /* EVP_EncodeBlock() adds a NUL */
    if (to != NULL)
        out->length += (size_t)EVP_EncodeBlock((unsigned char *)to, bytes, (int)length);
}

/* EVP_DecodeBlock() takes more than what is canonical, so what it has decoded is encoded again. */
bool base64_decode(struct buffer *out, const char *text, size_t length)
{
    SCOPED(buffer_fini) struct buffer again = {0};
    size_t before = out->length, padding = 0;
    if (length % 4 != 0 || length == 0)
        return length == 0;
    while (padding < 2 && text[length - 1 - padding] == '=')
        padding++;
    char *to = buffer_reserve(out, length / 4 * 3);
    if (to == NULL)
        return true; /* the buffer has failed */
    int n = EVP_DecodeBlock((unsigned char *)to, (const unsigned char *)text, (int)length);
    if (n < 3)
        return false;
    out->length += (size_t)n - padding;
    base64_encode(&again, out->data + before, out->length - before);
    out->failed |= buffer_failed(&again);
    bool same = again.length == length && memcmp(again.data, text, length) == 0;
    return same || out->failed;
}
