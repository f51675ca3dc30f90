/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_REPLIES_H
#define SHARD_REDIS_WIRE_REPLIES_H
/* Turn bytes into replies, with hiredis' reader. No I/O.
 *
 * The reader moves the rest of its buffer to the front for each KiB that it has read, so it is fed little by
 * little. */
#include <stdbool.h>
#include <stddef.h>
#include <hiredis/hiredis.h>
#include "base/error.h"

enum { REPLIES_CHUNK = 16384 };

struct replies {
    redisReader *reader;
    size_t slice;    /* number of bytes to feed next */
    size_t from, to; /* the part of @chunk that was filled and not fed yet */
    char chunk[REPLIES_CHUNK];
};

/* False: no memory. */
MUST_CHECK bool replies_init(struct replies *r);
/* @r may be zeroed. */
void replies_fini(struct replies *r);

/* Where to put up to REPLIES_CHUNK bytes, once replies_next() has returned NULL; then say how many there
 * are. */
char *replies_room(struct replies *r);
void replies_filled(struct replies *r, size_t n);

/* The next reply, for freeReplyObject(); *@out is NULL if more bytes are needed. ERR_PARSE: the bytes are not
 * the protocol. ERR_NOMEM. After an error no more replies come. */
MUST_CHECK enum err replies_next(struct replies *r, redisReply **out, struct error *e);

/* For SCOPED(): free a reply. */
static inline void scope_reply(redisReply **reply)
{
    freeReplyObject(*reply);
}
#endif
