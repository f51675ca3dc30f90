/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_LIST_H
#define SERVICE_PROTOCOL_LIST_H
/* Reads what field.h writes, in RESP2: a flat list name, value, name, value. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/buffer.h"

/* The value of @name; NULL: there is none. */
const redisReply *list_field(const redisReply *list, const char *name);

/* A value as text (cut to @size) or as number; false if it is missing, empty or of another kind. */
bool list_text(const redisReply *list, const char *name, char *out, size_t size);
/* The bytes of a string, which may have NULs; false, and no bytes, if it is missing, empty or of another
 * kind. */
bool list_bytes(const redisReply *list, const char *name, const char **bytes, size_t *length);
bool list_is(const redisReply *list, const char *name, const char *wanted);
bool list_count(const redisReply *list, const char *name, uint64_t *out);
/* Convert a time from Unix seconds to milliseconds. */
bool list_time(const redisReply *list, const char *name, uint64_t *ms);
bool list_decimal(const redisReply *list, const char *name, double *out);
/* The list in @bytes; NULL: they are none, or there is no memory. The caller frees it by freeReplyObject().
 */
redisReply *list_parse(const struct buffer *bytes);
#endif
