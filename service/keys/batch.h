/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_BATCH_H
#define SERVICE_KEYS_BATCH_H
/* Very many keys, checked or added in slices. A few slices run at the same time, other clients are served in
 * between, and the answers are in the order of the keys. A batch knows no protocol: its owner says where the
 * keys lie, and reads the answers when all are there. A batch belongs to one thread. */
#include <event2/event.h>
#include "service/keys/key_operation.h"

struct batch;

struct batch_key {
    const char *bytes;
    size_t length;
};

typedef struct batch_key batch_key_fn(const void *owner, size_t i);
typedef void batch_done_fn(void *owner);

struct batch_options {
    struct key_query asked;
    struct event_base *base; /* the event loop of this thread */
    /* The batch ends with the first key that a full filter refuses; otherwise all keys are tried. */
    bool ends_when_full;
    size_t count;
    batch_key_fn *key; /* returns key @i; its bytes must stay in place until batch_free() */
    batch_done_fn *on_done;
    void *owner; /* argument of both functions */
};

/* NULL: no memory. */
struct batch *batch_new(const struct batch_options *o);
/* May be called at any time, even inside on_done. Operations under way run to their end. */
void batch_free(struct batch *b);

/* Start the slices that may be started; a second call changes nothing. If all keys are answered at once,
 * batch_is_answered() is true afterwards. Otherwise on_done is called when they are. */
void batch_start(struct batch *b);
bool batch_is_answered(const struct batch *b);

/* --- results, once all keys are answered --- */

/* NULL: some keys have an answer. Otherwise no key has one, for this reason. */
const struct failure *batch_failure(const struct batch *b);
const struct key_query *batch_query(const struct batch *b);
/* How many keys have an answer or an error: all of them, unless the batch ended with a key that a full filter
 * refused. */
size_t batch_end(const struct batch *b);
/* The answer to key @i. *@why is set for ANSWER_ERROR, else NULL. */
enum answer batch_answer(const struct batch *b, size_t i, const struct failure **why);
#endif
