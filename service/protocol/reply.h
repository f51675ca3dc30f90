/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_REPLY_H
#define SERVICE_PROTOCOL_REPLY_H
/* Encoding of replies in RESP2 and RESP3 into a buffer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

/* An internal protocol that is never sent: RESP3 whose decimals are doubles instead of text. JSON is made
 * from it. */
enum { REPLY_TYPED = 4 };

struct reply {
    struct buffer *out;
    int protocol; /* 2, 3 or REPLY_TYPED */
};

void reply_simple(struct reply *r, const char *text); /* +OK */
/* -text; control characters become blanks, so that the error stays one line */
void reply_error(struct reply *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* Write an error with the prefix that base/error.h has for @code. If RedisBloom has its own text for @code,
 * that text is the reply, and @format is not used. */
void reply_failure(struct reply *r, enum err code, const char *format, ...) PRINTF_LIKE(3, 4);
/* True if @code is replied by the text that RedisBloom has for a filter that it could not create. */
bool reply_is_of_redisbloom(enum err code);
void reply_integer(struct reply *r, int64_t value);
void reply_boolean(struct reply *r, bool value); /* RESP2: 1 or 0 */
/* Write @count booleans; each value is 0 or 1. */
void reply_booleans(struct reply *r, const uint8_t *values, size_t count);
void reply_double(struct reply *r, double value); /* RESP2: bulk string */
void reply_null(struct reply *r);
void reply_bulk(struct reply *r, const void *bytes, size_t length);
void reply_text(struct reply *r, const char *text);                            /* bulk from a C string */
void reply_pair(struct reply *r, const char *name, const char *value);         /* of a map */
void reply_printf(struct reply *r, const char *format, ...) PRINTF_LIKE(2, 3); /* bulk */
void reply_verbatim(struct reply *r, const void *bytes, size_t length);        /* text; RESP2: bulk */
void reply_array(struct reply *r, size_t count);
void reply_map(struct reply *r, size_t pairs); /* RESP2: array of 2 * pairs */
#endif
