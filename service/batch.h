/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_BATCH_H
#define SERVICE_BATCH_H
/* A command of very many keys, worked off in slices: its operations are made, and its reply is written, a few
 * hundred keys at a time, so that other clients are served in between. Slices go out side by side, results
 * keep the order of the keys. Belongs to the client's worker. */
#include "service/asking.h"
#include "service/client.h"

struct batch;

enum {
    BATCH_KEYS = 512, /* more keys than this, or more bytes in them, are a batch */
    BATCH_BYTES = 256 * 1024
};

/* Takes over what the client's present command lies in (@keys point into that). NULL: no memory. */
struct batch *batch_new(struct client *c, const struct question *q);
void batch_free(struct batch *b);

/* Start what may be started. client_advance() is called when there is something to write. */
void batch_advance(struct batch *b);

/* Nothing is under way and nothing more will be: the reply may be written. */
bool batch_is_answered(const struct batch *b);
/* Then: append the next part of the reply to @out. True: that was the end of it. */
bool batch_write(struct batch *b, struct reply *out);
#endif
