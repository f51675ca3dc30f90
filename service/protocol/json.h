/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_JSON_H
#define SERVICE_PROTOCOL_JSON_H
/* Text and bytes as JSON. Pure. */
#include <stddef.h>
#include "base/buffer.h"

/* Append @bytes as a JSON string. Invalid UTF-8 becomes U+FFFD. */
void json_put_text(struct buffer *out, const char *bytes, size_t length);

/* Append @bytes as a JSON string if they are UTF-8. Otherwise append {"base64":"..."}, which keeps every
 * byte. */
void json_put_bytes(struct buffer *out, const char *bytes, size_t length);
#endif
