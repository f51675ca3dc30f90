/* SPDX-License-Identifier: MIT */
#ifndef SHARD_REDIS_SCRIPT_CALL_H
#define SHARD_REDIS_SCRIPT_CALL_H
/* One EVAL: its text, keys and arguments. Keys and arguments are copied. */
#include <stddef.h>
#include <stdint.h>
#include "base/buffer.h"
#include "shard/redis/sync_client.h"
#include "shard/filter/names.h"

enum { SCRIPT_ARGUMENTS_MAX = 4096 };

struct script_call {
    const char *text;
    size_t keys;
    size_t count; /* number of keys and arguments */
    struct buffer bytes;
    size_t *offset; /* where each key or argument begins in @bytes; an array of @room */
    size_t room;
};

/* Begin a call. Add all keys before the first argument. Zero-initialise @c once; later calls use its storage
 * again, and script_fini() frees it. */
void script_begin(struct script_call *c, const char *text);
/* As above, with the filter's view as the first key. */
void script_begin_view(struct script_call *c, const char *text, const struct names *names);
void script_fini(struct script_call *c);
void script_key(struct script_call *c, const struct key_name *name);
/* Add the filter's key @what (names_filter_key()). */
void script_filter_key(struct script_call *c, const struct names *names, const char *what);
/* Begin an argument, and give the buffer that takes its bytes, until the next argument begins. */
struct buffer *script_argument(struct script_call *c);
void script_bytes(struct script_call *c, const void *bytes, size_t length);
/* Add the buffer's bytes. If the buffer has failed, so has the call: script_send() says so. */
void script_buffer(struct script_call *c, const struct buffer *bytes);
void script_text(struct script_call *c, const char *text);
void script_number(struct script_call *c, uint64_t number);
/* Add a field's name and its value. */
void script_field(struct script_call *c, const char *name, const char *value);
void script_number_field(struct script_call *c, const char *name, uint64_t value);
/* Add the incarnation in the view's form: 16 hexadecimal digits. */
void script_incarnation(struct script_call *c, uint64_t incarnation);

/* Queue the call for @where. Read the reply with script_reply() or sync_client_reply(). */
MUST_CHECK enum err script_send(struct script_call *c, struct sync_client *l, unsigned where,
                                struct error *e);
/* Run the call, whose reply may be an error of Redis. */
MUST_CHECK enum err script_ask(struct script_call *c, struct sync_client *l, unsigned where, redisReply **out,
                               struct error *e);
/* Read an integer reply. ERR_REFUSED: Redis returned an error. */
MUST_CHECK enum err script_reply(struct sync_client *l, unsigned where, long long *out, struct error *e);
MUST_CHECK enum err script_run(struct script_call *c, struct sync_client *l, unsigned where, long long *out,
                               struct error *e);
/* script_run() at the filter's metadata node, then script_fini(). */
MUST_CHECK enum err script_run_once(struct script_call *c, struct sync_client *l, const struct names *names,
                                    long long *out, struct error *e);
#endif
