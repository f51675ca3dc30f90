/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_INBOX_H
#define EXPANSION_INBOX_H
/* Keys from several threads to one: bounded, those who put wait for room. */
#include <stdbool.h>
#include <stddef.h>

struct inbox;

/* NULL: no memory. */
struct inbox *inbox_new(void);
/* Nobody may use it any more. */
void inbox_free(struct inbox *b);

/* From any thread; waits while it is full. False: it was closed, or there is no memory. */
bool inbox_put(struct inbox *b, const char *key, size_t length);
/* Whether a key was ever refused for want of memory: what is taken out is not all then. */
bool inbox_failed(struct inbox *b);
/* Nobody waits from now on, nothing more is taken in. */
void inbox_close(struct inbox *b);

/* Takes out up to @max keys, which live until the next call; waits @wait_ms for the first. Returns how many.
 */
size_t inbox_take(struct inbox *b, size_t max, const char **keys, size_t *lengths, unsigned wait_ms);
#endif
