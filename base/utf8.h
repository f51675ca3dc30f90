/* SPDX-License-Identifier: MIT */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H
/* UTF-8 as RFC 3629 has it. */
#include <stdbool.h>
#include <stddef.h>

/* The length of the well-formed sequence that begins at @text, of @left bytes (1 at least); 0: there is none.
 */
size_t utf8_sequence(const char *text, size_t left);
/* All of @text is well-formed. */
bool utf8_valid(const char *text, size_t length);

enum { UTF8_JSON_MAX = 6 };
/* The character at @text, of @left bytes (1 at least), as it stands in a string of JSON (RFC 8259), without a
 * NUL at its end: @out has the bytes, which are counted by the return value, *@taken is how many of @text
 * they stand for. C0, DEL and C1, which terminals obey, are escaped; a byte that is no UTF-8 becomes U+FFFD.
 */
size_t utf8_json(char out[UTF8_JSON_MAX + 1], const char *text, size_t left, size_t *taken);
#endif
