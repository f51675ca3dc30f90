/* SPDX-License-Identifier: MIT */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H
/* A growing byte buffer. When an append runs out of memory, the buffer is marked as failed and every later
 * append does nothing, so that a caller may build a whole message and check buffer_failed() once. */
#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

struct buffer {
    char *data; /* NUL-terminated only after buffer_text() or buffer_command() */
    size_t length;
    size_t capacity;
    bool failed;
};

/* A zero-initialised buffer is empty and valid, too. */
void buffer_init(struct buffer *b);
void buffer_fini(struct buffer *b);
void buffer_clear(struct buffer *b);

/* Make room for @n more bytes and return where they go; NULL: no memory. The caller then adds to
 * b->length. */
char *buffer_reserve(struct buffer *b, size_t n);
void buffer_append(struct buffer *b, const void *bytes, size_t n);
void buffer_puts(struct buffer *b, const char *text);
/* Percent-encoded, as one part of a URL. */
void buffer_percent(struct buffer *b, const char *bytes, size_t length);
void buffer_printf(struct buffer *b, const char *format, ...) PRINTF_LIKE(2, 3);
bool buffer_failed(const struct buffer *b);

/* NUL-terminate the data (the NUL is not counted in length) and return it; "" if memory failed. The buffer
 * owns it. */
const char *buffer_text(struct buffer *b);

/* Append one Redis command (an array of bulk strings) of @argc arguments, NUL-terminated as by buffer_text().
 * @lengths NULL: the arguments are C strings. */
void buffer_command(struct buffer *b, size_t argc, const char *const *argv, const size_t *lengths);

/* A copy of @bytes, NUL-terminated, for free(); NULL: no memory. */
char *buffer_copy(const char *bytes, size_t length);
#endif
