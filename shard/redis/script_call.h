/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SCRIPT_CALL_H
#define SHARD_REDIS_SCRIPT_CALL_H
/* One EVAL: text, keys, arguments, copied as they are given. */
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"

enum { SCRIPT_ARGUMENTS_MAX = 4096 };

struct script_call {
    const char *text;
    size_t keys;
    size_t count; /* keys and arguments */
    struct buffer bytes;
    size_t *offset; /* where each begins in the bytes; there is room for @room */
    size_t room;
};

/* Start again; keys come before arguments. Zero-initialise it before. The storage is kept between calls:
 * script_fini() frees it. */
void script_begin(struct script_call *c, const char *text);
void script_fini(struct script_call *c);
void script_key(struct script_call *c, const struct key_name *name);
/* The filter's key of that kind (names_filter_key()). */
void script_filter_key(struct script_call *c, const struct names *names, const char *what);
void script_bytes(struct script_call *c, const void *bytes, size_t length);
void script_text(struct script_call *c, const char *text);
void script_number(struct script_call *c, uint64_t number);
/* As the view stores it: 16 hexadecimal digits. */
void script_incarnation(struct script_call *c, uint64_t incarnation);

/* Queue it for @where; the reply is read by script_reply() (or sync_client_reply()). */
MUST_CHECK enum err script_send(struct script_call *c, struct sync_client *l, unsigned where,
                                struct error *e);
/* Read an integer reply. ERR_REFUSED: Redis answered with an error. */
MUST_CHECK enum err script_reply(struct sync_client *l, unsigned where, long long *out, struct error *e);
MUST_CHECK enum err script_run(struct script_call *c, struct sync_client *l, unsigned where, long long *out,
                               struct error *e);
/* The same at the filter's metadata node, and script_fini(). */
MUST_CHECK enum err script_run_once(struct script_call *c, struct sync_client *l, const struct names *names,
                                    long long *out, struct error *e);
#endif
