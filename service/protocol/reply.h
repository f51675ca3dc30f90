/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_PROTOCOL_REPLY_H
#define SERVICE_PROTOCOL_REPLY_H
/* Encoding of replies in RESP2, RESP3 and JSON into a buffer. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "base/error.h"

/* JSON, for HTTP: text and bytes as json_put_bytes() writes them; a double that JSON cannot express becomes
 * null. Its objects are written by fields_end() (field.h) only. */
enum { REPLY_JSON = 4, REPLY_DEPTH_MAX = 3 };

struct reply {
    struct buffer *out;
    int protocol; /* 2, 3 or REPLY_JSON */
    /* JSON: the arrays that are not complete yet, and how many elements of each are to come. */
    unsigned depth;
    uint32_t left[REPLY_DEPTH_MAX];
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
void reply_map(struct reply *r, size_t pairs); /* RESP2: array of 2 * pairs; not for JSON */
/* Write the name of a value that follows. */
void reply_name(struct reply *r, const char *name);
/* Write a map, or an array, whose @count pairs or elements a reply of the same protocol has as @content. */
void reply_content(struct reply *r, bool map, size_t count, const struct buffer *content);
#endif
