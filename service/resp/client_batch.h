/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_RESP_CLIENT_BATCH_H
#define SERVICE_RESP_CLIENT_BATCH_H
/* A command with very many keys. It runs as a batch (batch.h), and its reply is written in parts, so that
 * other clients are served in between. A batch belongs to the client's worker. */
#include "service/resp/client.h"
#include "service/meter/meter.h"

struct client_batch;

enum {
    CLIENT_BATCH_KEYS = 512, /* a command with more keys than this, or more bytes in them, becomes a batch */
    CLIENT_BATCH_BYTES = 256 * 1024
};

/* Make a batch. It takes over the memory of the client's present command, because the keys point into that.
 * NULL: no memory. */
struct client_batch *client_batch_new(struct client *c, const struct key_command *k);
void client_batch_free(struct client_batch *cb);

/* Start the slices that may be started. True: all keys have answers, and the reply may be written. False:
 * client_advance() is called when they have. */
bool client_batch_start(struct client_batch *cb);
/* Call this then: it appends the next part of the reply to @out. True: the reply is complete. */
bool client_batch_write(struct client_batch *cb, struct reply *out);
/* How the whole batch ended. */
enum outcome client_batch_outcome(const struct client_batch *cb);
#endif
