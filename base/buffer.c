/* SPDX-License-Identifier: MIT */
#include "base/buffer.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

void buffer_init(struct buffer *b)
{
    *b = (struct buffer){0};
}

void buffer_fini(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){0};
}

void buffer_clear(struct buffer *b)
{
    b->length = 0;
    b->failed = false;
}

char *buffer_reserve(struct buffer *b, size_t n)
{
    if (b->failed)
        return NULL;
    if (b->capacity - b->length >= n)
        return b->data + b->length;
    size_t wanted = b->length + n;
    size_t capacity = b->capacity < 64 ? 64 : b->capacity;
    while (capacity < wanted && capacity <= SIZE_MAX / 2)
        capacity *= 2;
    char *data = wanted < n || capacity < wanted ? NULL : realloc(b->data, capacity);
    if (data == NULL) {
        b->failed = true;
        return NULL;
    }
    b->data = data;
    b->capacity = capacity;
    return data + b->length;
}

void buffer_append(struct buffer *b, const void *bytes, size_t n)
{
    if (n == 0)
        return;
    char *to = buffer_reserve(b, n);
    if (to == NULL)
        return;
    memcpy(to, bytes, n);
    b->length += n;
}

char *buffer_copy(const char *bytes, size_t length)
{
    char *copy = malloc(length + 1);
    if (copy != NULL && length > 0)
        memcpy(copy, bytes, length);
    if (copy != NULL)
        copy[length] = '\0';
    return copy;
}

void buffer_puts(struct buffer *b, const char *text)
{
    buffer_append(b, text, strlen(text));
}

void buffer_percent(struct buffer *b, const char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)bytes[i];
        bool plain = isalnum(c) || (c != '\0' && strchr("-._~", c) != NULL);
        buffer_printf(b, plain ? "%c" : "%%%02X", c);
    }
}

/* Nearly always there is room: then the text is made once. */
void buffer_printf(struct buffer *b, const char *format, ...)
{
    size_t room = b->failed ? 0 : b->capacity - b->length;
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(room == 0 ? NULL : b->data + b->length, room, format, ap);
    va_end(ap);
    char *to = n < 0 ? NULL : buffer_reserve(b, (size_t)n + 1);
    if (to != NULL && (size_t)n >= room)
        (void)vsnprintf(to, (size_t)n + 1, format, again);
    if (to != NULL)
        b->length += (size_t)n;
    va_end(again);
}

bool buffer_failed(const struct buffer *b)
{
    return b->failed;
}

const char *buffer_text(struct buffer *b)
{
    char *end = buffer_reserve(b, 1);
    if (end == NULL)
        return "";
    *end = '\0';
    return b->data;
}

static void append_header(struct buffer *b, char type, size_t n)
{
    char text[24];
    text[0] = type;
    char *end = number_write(text + 1, n);
    *end++ = '\r';
    *end++ = '\n';
    buffer_append(b, text, (size_t)(end - text));
}

void buffer_command(struct buffer *b, size_t argc, const char *const *argv, const size_t *lengths)
{
    append_header(b, '*', argc);
    for (size_t i = 0; i < argc; i++) {
        size_t length = lengths != NULL ? lengths[i] : strlen(argv[i]);
        append_header(b, '$', length);
        buffer_append(b, argv[i], length);
        buffer_append(b, "\r\n", 2);
    }
    (void)buffer_text(b);
}
