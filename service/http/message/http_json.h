/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_JSON_H
#define SERVICE_HTTP_MESSAGE_HTTP_JSON_H
/* Writes bytes and replies as JSON. The admin thread writes its answers once, as RESP, and they are converted
 * here. Pure; no I/O. */
#include <stddef.h>
#include "base/buffer.h"
#include "base/error.h"

/* Append @bytes as a JSON string. Invalid UTF-8 becomes U+FFFD. */
void http_json_text(struct buffer *out, const char *bytes, size_t length);

/* Append @bytes as a JSON string if they are UTF-8. Otherwise append {"base64":"..."}, which keeps every
 * byte. */
void http_json_bytes(struct buffer *out, const char *bytes, size_t length);

/* Append one complete reply in RESP3 (REPLY_TYPED): map becomes object; array, integer, boolean, null and
 * text stay; a double that JSON cannot express becomes null. ERR_PARSE: the reply is an error or incomplete,
 * is followed by more bytes, or has a type that is never written here; what was appended is removed.
 * ERR_NOMEM. */
MUST_CHECK enum err http_json_reply(struct buffer *out, const char *reply, size_t length, struct error *e);
#endif
