/* SPDX-License-Identifier: MIT */
#ifndef SHARD_CONTROL_KEY_CLIENT_H
#define SHARD_CONTROL_KEY_CLIENT_H
/* Checks and adds for a thread without an event loop: a job, a follower. They go through the log, like those
 * of every caller. Blocking; for one thread. */
#include "shard/control/filters.h"
#include "shard/request/key_request.h"

struct key_client;

/* Choose the filter for the next calls. *@c NULL: make the client first; it connects at the first call, and
 * borrows @fs and @nodes. ERR_RANGE, ERR_NOMEM. */
MUST_CHECK enum err key_client_open(struct key_client **c, struct filters *fs, const struct nodes *nodes,
                                    unsigned timeout_ms, const char *filter, size_t length, struct error *e);
/* @c may be NULL. */
void key_client_free(struct key_client *c);

/* Check or add any number of keys; @answers: enum key_answer of each. ERR_NOT_FOUND: there is no such filter.
 * Also the errors of key_done_fn. After an error some keys may have been added. */
MUST_CHECK enum err key_client_ask(struct key_client *c, bool adds, const char *const *keys,
                                   const size_t *lengths, size_t count, uint8_t *answers, struct error *e);
#endif
