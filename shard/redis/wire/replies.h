/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_WIRE_REPLIES_H
#define SHARD_REDIS_WIRE_REPLIES_H
/* Bytes to replies, by hiredis' reader. No I/O.
 *
 * The reader moves what is left in its buffer to the front for each KiB that it has taken, so it is fed
 * little at a time. Replies that nobody keeps lie in memory that is used again for the next one. */
#include <stdbool.h>
#include <stddef.h>
#include <hiredis/hiredis.h>
#include "base/error.h"

enum { REPLIES_CHUNK = 16384 };

struct replies {
    redisReader *reader;
    struct arena *arena; /* of replies that nobody keeps; NULL: the caller owns each */
    bool given;          /* the last one, which may go */
    size_t slice;        /* so many bytes are fed next */
    size_t from, to;     /* of the chunk: read, and not fed yet */
    char chunk[REPLIES_CHUNK];
};

/* @keep: the caller owns each reply (freeReplyObject()); else one is valid until the next call. False: no
 * memory. */
MUST_CHECK bool replies_init(struct replies *r, bool keep);
/* Fine on a zeroed one. */
void replies_fini(struct replies *r);

/* Where the next REPLIES_CHUNK bytes at the most may be put, once replies_next() has found no more; then say
 * how many they are. */
char *replies_room(struct replies *r);
void replies_filled(struct replies *r, size_t n);

/* The next reply; *@out is NULL where more bytes are needed. ERR_PARSE: this is not the protocol. ERR_NOMEM.
 * After an error there is nothing more to be had. */
MUST_CHECK enum err replies_next(struct replies *r, redisReply **out, struct error *e);
#endif
