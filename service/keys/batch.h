/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_KEYS_BATCH_H
#define SERVICE_KEYS_BATCH_H
/* Very many keys, checked or added in slices: a few are under way side by side, others are served in between,
 * the answers keep the order of the keys. Knows no protocol: whoever asks says where the keys lie and reads
 * the answers when all are there. Belongs to one thread. */
#include <event2/event.h>
#include "service/keys/pending_query.h"

struct batch;

struct batch_key {
    const char *bytes;
    size_t length;
};

typedef struct batch_key batch_key_fn(const void *owner, size_t i);
typedef void batch_done_fn(void *owner);

struct batch_options {
    struct key_query asked;
    struct event_base *base; /* of this thread */
    bool ends_when_full;     /* with the first key that a full filter refuses; else each is asked */
    size_t count;
    batch_key_fn *key; /* key @i; where it lies it stays until batch_free() */
    batch_done_fn *on_done;
    void *owner; /* argument of both */
};

/* NULL: no memory. */
struct batch *batch_new(const struct batch_options *o);
/* At any time, from inside on_done too; what is under way ends by itself. */
void batch_free(struct batch *b);

/* Start what may be started; once more changes nothing. Where all is answered at once, batch_is_answered()
 * is true after it; else on_done is called when it is. */
void batch_start(struct batch *b);
bool batch_is_answered(const struct batch *b);

/* --- then --- */

/* NULL: some keys have an answer. Else none has, for this reason. */
const struct failure *batch_failure(const struct batch *b);
const struct key_query *batch_query(const struct batch *b);
/* How many keys have an answer or an error: all, but where it ended with one that a full filter refused. */
size_t batch_end(const struct batch *b);
/* @why: of ANSWER_ERROR, else NULL. */
enum answer batch_answer(const struct batch *b, size_t i, const struct failure **why);
#endif
