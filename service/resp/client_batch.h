/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_BATCH_H
#define SERVICE_RESP_CLIENT_BATCH_H
/* A command of very many keys: worked off as a batch (batch.h), and its reply is written in parts, so that
 * other clients are served in between. Belongs to the client's worker. */
#include "service/resp/client.h"
#include "service/meter/meter.h"

struct client_batch;

enum {
    CLIENT_BATCH_KEYS = 512, /* more keys than this, or more bytes in them, are a batch */
    CLIENT_BATCH_BYTES = 256 * 1024
};

/* Takes over what the client's present command lies in, as the keys point into that. NULL: no memory. */
struct client_batch *client_batch_new(struct client *c, const struct key_command *k);
void client_batch_free(struct client_batch *cb);

/* Start what may be started. True: all is answered, the reply may be written; else client_advance() is
 * called when it is. */
bool client_batch_start(struct client_batch *cb);
/* Then: append the next part of the reply to @out. True: that was the end of it. */
bool client_batch_write(struct client_batch *cb, struct reply *out);
/* And how it ended. */
enum outcome client_batch_outcome(const struct client_batch *cb);
#endif
