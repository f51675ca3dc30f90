/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_REPLY_H
#define SERVICE_PROTOCOL_REPLY_H
/* Encoding of replies in RESP2 and RESP3 into a buffer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

/* Not on the wire: RESP3 whose decimals are doubles rather than text, to be made JSON of. */
enum { REPLY_TYPED = 4 };

struct reply {
    struct buffer *out;
    int protocol; /* 2, 3 or REPLY_TYPED */
};

void reply_simple(struct reply *r, const char *text); /* +OK */
/* -text; control characters become blanks so that a line stays a line. */
void reply_error(struct reply *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* An error that begins as the table in base/error.h says of @code. Where RedisBloom has a text of its own for
 * it that is the reply, and @format is not used. */
void reply_failure(struct reply *r, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);
/* What RedisBloom says of a filter that it could not make is said for @code, by RedisBloom's text. */
bool reply_is_of_redisbloom(enum err code);
void reply_integer(struct reply *r, int64_t value);
void reply_boolean(struct reply *r, bool value); /* RESP2: 1 or 0 */
/* The same of @count values, each 0 or 1. */
void reply_booleans(struct reply *r, const uint8_t *values, size_t count);
void reply_double(struct reply *r, double value); /* RESP2: bulk string */
void reply_null(struct reply *r);
void reply_bulk(struct reply *r, const void *bytes, size_t length);
void reply_text(struct reply *r, const char *text);                            /* bulk from a C string */
void reply_printf(struct reply *r, const char *format, ...) PRINTF_LIKE(2, 3); /* bulk */
void reply_verbatim(struct reply *r, const void *bytes, size_t length);        /* text; RESP2: bulk */
void reply_array(struct reply *r, size_t count);
/* An array of @count items, which were written apart. */
void reply_array_of(struct reply *r, size_t count, const struct buffer *items);
void reply_map(struct reply *r, size_t pairs); /* RESP2: array of 2 * pairs */
#endif
