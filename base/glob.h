/* SPDX-License-Identifier: MIT */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H
/* Patterns as Redis knows them: * ? [abc] [^a-z] and \ before a literal character. Distances between
 * words. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a pattern that a client may give. A match costs up to one step for each byte of the pattern and of
 * the name. */
enum { GLOB_PATTERN_MAX = 1024 };

/* True if all of @text matches; ASCII letters match in either case. Takes at most (pattern length * text
 * length) steps. */
bool glob_match(const char *pattern, size_t pattern_length, const char *text, size_t text_length);
/* As glob_match(), but case-sensitive. */
bool glob_match_case(const char *pattern, size_t pattern_length, const char *text, size_t text_length);

/* Edit distance of two words: insertions, deletions, replacements and swaps of neighbours. SIZE_MAX if a word
 * is longer than 32 bytes. */
size_t glob_distance(const char *a, const char *b);
#endif
