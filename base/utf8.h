/* SPDX-License-Identifier: MIT */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
/* UTF-8 as RFC 3629 defines it. */
#include <stdbool.h>
#include <stddef.h>

/* The length of the well-formed sequence at @text, of @left bytes (at least 1); 0: the sequence is
 * malformed. */
size_t utf8_sequence(const char *text, size_t left);
/* True if all of @text is well-formed. */
bool utf8_valid(const char *text, size_t length);

enum { UTF8_JSON_MAX = 6 };
/* Encode the character at @text, of @left bytes (at least 1), for a JSON string (RFC 8259). Writes to @out,
 * without a NUL, and returns the number of bytes; *@taken: how many bytes of @text they stand for. Terminal
 * control characters (C0, DEL, C1) are escaped; an invalid byte becomes U+FFFD. */
size_t utf8_json(char out[UTF8_JSON_MAX + 1], const char *text, size_t left, size_t *taken);
#endif
