/* SPDX-License-Identifier: MIT */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H
/* A growing byte buffer. After an append failed for want of memory the buffer is marked; every later append
 * is a no-op, so that a caller may build a whole message and check buffer_failed() once. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

struct buffer {
    char *data; /* not NUL-terminated, unless its end was written by buffer_text() or buffer_command() */
    size_t length;
    size_t capacity;
    bool failed;
};

/* Zero-initialisation is a valid empty buffer too. */
void buffer_init(struct buffer *b);
void buffer_fini(struct buffer *b);
void buffer_clear(struct buffer *b);

/* Room for @n more bytes: returns where they go, or NULL. The caller then adds to b->length. */
char *buffer_reserve(struct buffer *b, size_t n);
void buffer_append(struct buffer *b, const void *bytes, size_t n);
void buffer_puts(struct buffer *b, const char *text);
void buffer_printf(struct buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
bool buffer_failed(const struct buffer *b);

/* NUL-terminate (not counted in length) and return the data; "" where memory failed. Owned by the buffer. */
const char *buffer_text(struct buffer *b);

/* Append one Redis command (an array of bulk strings) of @argc arguments, and end it as buffer_text() does.
 * @lengths NULL: they are strings. */
void buffer_command(struct buffer *b, size_t argc, const char *const *argv, const size_t *lengths);
#endif
