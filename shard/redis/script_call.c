/* SPDX-License-Identifier: MIT */
#include "shard/redis/script_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/number.h"

enum { ROOM_FIRST = 32 /* a power of two, like SCRIPT_ARGUMENTS_MAX */ };

void script_begin(struct script_call *c, const char *text)
{
    c->text = text;
    c->keys = c->count = 0;
    buffer_clear(&c->bytes);
}

void script_begin_view(struct script_call *c, const char *text, const struct names *names)
{
    script_begin(c, text);
    script_filter_key(c, names, "view");
}

void script_fini(struct script_call *c)
{
    buffer_fini(&c->bytes);
    free(c->offset);
    c->offset = NULL;
    c->room = 0;
}

static bool make_room(struct script_call *c)
{
    size_t room = c->room == 0 ? ROOM_FIRST : 2 * c->room;
    if (c->count < c->room)
        return true;
    size_t *offset = c->count < SCRIPT_ARGUMENTS_MAX ? realloc(c->offset, room * sizeof(*offset)) : NULL;
    if (offset == NULL)
        return false;
    c->offset = offset;
    c->room = room;
    return true;
}

struct buffer *script_argument(struct script_call *c)
{
    if (make_room(c))
        c->offset[c->count++] = c->bytes.length;
    else
        c->bytes.failed = true;
    return &c->bytes;
}

void script_bytes(struct script_call *c, const void *bytes, size_t length)
{
    buffer_append(script_argument(c), bytes, length);
}

void script_key(struct script_call *c, const struct key_name *name)
{
    script_bytes(c, name->text, name->length);
    c->keys++;
}

void script_filter_key(struct script_call *c, const struct names *names, const char *what)
{
    struct key_name name;
    names_filter_key(names, what, &name);
    script_key(c, &name);
}

void script_buffer(struct script_call *c, const struct buffer *bytes)
{
    script_bytes(c, bytes->data, bytes->length);
    c->bytes.failed |= buffer_failed(bytes);
}

void script_text(struct script_call *c, const char *text)
{
    script_bytes(c, text, strlen(text));
}

void script_number(struct script_call *c, uint64_t number)
{
    char digits[20];
    script_bytes(c, digits, (size_t)(number_write(digits, number) - digits));
}

void script_field(struct script_call *c, const char *name, const char *value)
{
    script_text(c, name);
    script_text(c, value);
}

void script_number_field(struct script_call *c, const char *name, uint64_t value)
{
    script_text(c, name);
    script_number(c, value);
}

void script_incarnation(struct script_call *c, uint64_t incarnation)
{
    buffer_printf(script_argument(c), "%016" PRIx64, incarnation);
}

/* Fill the argument vector. Returns the number of arguments. */
static size_t vector(const struct script_call *c, char keys[24], const char **argv, size_t *lengths)
{
    argv[0] = "EVAL";
    lengths[0] = 4;
    argv[1] = c->text;
    lengths[1] = strlen(c->text);
    argv[2] = keys;
    lengths[2] = (size_t)snprintf(keys, 24, "%zu", c->keys);
    for (size_t i = 0; i < c->count; i++) {
        size_t end = i + 1 < c->count ? c->offset[i + 1] : c->bytes.length;
        argv[3 + i] = c->bytes.data == NULL ? "" : c->bytes.data + c->offset[i];
        lengths[3 + i] = end - c->offset[i];
    }
    return 3 + c->count;
}

enum err script_send(struct script_call *c, struct sync_client *l, unsigned where, struct error *e)
{
    const char *argv[3 + SCRIPT_ARGUMENTS_MAX];
    size_t lengths[3 + SCRIPT_ARGUMENTS_MAX];
    char keys[24];
    if (buffer_failed(&c->bytes))
        return error_set(e, ERR_NOMEM, "script: out of memory or too many arguments");
    size_t argc = vector(c, keys, argv, lengths);
    return sync_client_append(l, where, argc, argv, lengths, e);
}

enum err script_ask(struct script_call *c, struct sync_client *l, unsigned where, redisReply **out,
                    struct error *e)
{
    enum err code = script_send(c, l, where, e);
    return code == ERR_OK ? sync_client_reply(l, where, out, e) : code;
}

enum err script_reply(struct sync_client *l, unsigned where, long long *out, struct error *e)
{
    SCOPED(scope_reply) redisReply *reply = NULL;
    enum err code = sync_client_reply(l, where, &reply, e);
    if (code != ERR_OK)
        return code;
    if (reply->type == REDIS_REPLY_INTEGER)
        *out = reply->integer;
    else if (reply->type == REDIS_REPLY_ERROR)
        code = sync_client_refusal(l, where, reply, e);
    else
        code = error_set(e, ERR_REFUSED, "Redis node %s: unexpected reply to a script",
                         sync_client_name(l, where));
    return code;
}

enum err script_run(struct script_call *c, struct sync_client *l, unsigned where, long long *out,
                    struct error *e)
{
    enum err code = script_send(c, l, where, e);
    return code != ERR_OK ? code : script_reply(l, where, out, e);
}

enum err script_run_once(struct script_call *c, struct sync_client *l, const struct names *names,
                         long long *out, struct error *e)
{
    enum err code = script_run(c, l, sync_client_home(l, names), out, e);
    script_fini(c);
    return code;
}
