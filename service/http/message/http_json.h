/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_HTTP_MESSAGE_HTTP_JSON_H
#define SERVICE_HTTP_MESSAGE_HTTP_JSON_H
/* JSON from bytes and from replies: what the admin thread answers is written once, for RESP, and made JSON of
 * here. Pure; no I/O. */
#include <stddef.h>
#include "base/buffer.h"
#include "base/error.h"

/* Append @bytes as a JSON string; what is no UTF-8 becomes U+FFFD. */
void http_json_text(struct buffer *out, const char *bytes, size_t length);

/* The same where the bytes are UTF-8; else {"base64":"..."}, which loses nothing. */
void http_json_bytes(struct buffer *out, const char *bytes, size_t length);

/* Append one whole reply in RESP3 (REPLY_TYPED): map to object, array, integer, double (null where it is none
 * in JSON), boolean, null, text. ERR_PARSE: it is an error reply, is cut, has more behind it or is no RESP3
 * that we write; what was appended is taken back. ERR_NOMEM. */
MUST_CHECK enum err http_json_reply(struct buffer *out, const char *reply, size_t length, struct error *e);
#endif
