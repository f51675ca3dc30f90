/* SPDX-License-Identifier: MIT */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H
/* Words. Patterns as Redis knows them: * ? [abc] [^a-z] and \ before a character that stands for itself. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a pattern that a client may give: each name costs as many steps as it has bytes for each of them.
 */
enum { GLOB_PATTERN_MAX = 1024 };

/* Whether all of @text matches, in any case of ASCII letters. Takes at most pattern times text steps,
 * whatever the pattern is. */
bool glob_match(const char *pattern, size_t pattern_length, const char *text, size_t text_length);
/* The same, where the case of letters counts. */
bool glob_match_case(const char *pattern, size_t pattern_length, const char *text, size_t text_length);

/* How alike two words are: insertions, deletions, replacements and swaps of neighbours. Words longer than 32
 * bytes are never alike (SIZE_MAX). */
size_t glob_distance(const char *a, const char *b);
#endif
