/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_KEY_QUEUE_H
#define EXPANSION_JOB_KEY_QUEUE_H
/* Keys from several threads to one: bounded, those who put wait for room. */
#include <stdbool.h>
#include <stddef.h>

struct key_queue;

/* NULL: no memory. */
struct key_queue *key_queue_new(void);
/* Nobody may use it any more. */
void key_queue_free(struct key_queue *b);

/* From any thread; waits while it is full. False: it was closed, or there is no memory. */
bool key_queue_put(struct key_queue *b, const char *key, size_t length);
/* Whether a key was ever refused for want of memory: what is taken out is not all then. */
bool key_queue_failed(struct key_queue *b);
/* Nobody waits from now on, nothing more is taken in. */
void key_queue_close(struct key_queue *b);

/* Takes out up to @max keys, which live until the next call; waits @wait_ms for the first. Returns how many.
 */
size_t key_queue_take(struct key_queue *b, size_t max, const char **keys, size_t *lengths, unsigned wait_ms);
#endif
