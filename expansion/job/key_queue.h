/* SPDX-License-Identifier: MIT */
#ifndef EXPANSION_JOB_KEY_QUEUE_H
#define EXPANSION_JOB_KEY_QUEUE_H
/* A bounded queue of keys from several threads to one; those who put wait for room. */
#include <stdbool.h>
#include <stddef.h>

struct key_queue;

/* NULL: no memory. */
struct key_queue *key_queue_new(void);
/* No thread may use it any more. */
void key_queue_free(struct key_queue *b);

/* From any thread; waits while the queue is full. False: the queue is closed, or there is no memory. */
bool key_queue_put(struct key_queue *b, const char *key, size_t length);
/* True if a key was rejected for lack of memory: then the keys taken out are not all. */
bool key_queue_failed(struct key_queue *b);
/* Accept no more keys; whoever waits for room returns. */
void key_queue_close(struct key_queue *b);

/* Take up to @max keys, which live until the next call; wait up to @wait_ms for the first. Returns their
 * number. */
size_t key_queue_take(struct key_queue *b, size_t max, const char **keys, size_t *lengths, unsigned wait_ms);
#endif
