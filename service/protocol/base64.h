/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_BASE64_H
#define SERVICE_PROTOCOL_BASE64_H
/* Base64 as in RFC 4648, section 4: the standard alphabet, padded. */
#include <stdbool.h>
#include <stddef.h>
#include "base/buffer.h"

void base64_encode(struct buffer *out, const void *bytes, size_t length);

/* Append the decoded bytes. False: @text is not canonical (a character outside the alphabet, wrong padding,
 * or bits behind the last byte that are not zero); some bytes may have been appended. */
bool base64_decode(struct buffer *out, const char *text, size_t length);
#endif
