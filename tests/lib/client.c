/* SPDX-License-Identifier: MIT */
#include "tests/lib/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/time.h>

#include "base/clock.h"
#include "base/number.h"

enum err client_open(struct client *c, uint16_t port, unsigned timeout_ms, struct error *e)
{
    *c = (struct client){.port = port};
    struct timeval t = {.tv_sec = timeout_ms / 1000, .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    c->redis = redisConnectWithTimeout("127.0.0.1", port, t);
    if (c->redis == NULL)
        return error_set(e, ERR_NOMEM, "no memory for a connection");
    if (c->redis->err == 0 && redisSetTimeout(c->redis, t) == REDIS_OK)
        return ERR_OK;
    enum err err = error_set(e, ERR_UNREACHABLE, "127.0.0.1:%u: %s", port, c->redis->errstr);
    client_close(c);
    return err;
}

void client_close(struct client *c)
{
    if (c->redis != NULL)
        redisFree(c->redis);
    c->redis = NULL;
}

enum err client_wait_ping(uint16_t port, unsigned deadline_ms, struct process *watched, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    struct error last = {"never tried"};
    while (clock_mono_us() < until) {
        if (watched != NULL && !process_running(watched))
            return error_set(e, ERR_IO, "it ended with status %d", process_exit_status(watched));
        struct client c;
        if (client_open(&c, port, 1000, &last) == ERR_OK) {
            redisReply *r = client_command(&c, "PING");
            /* a server that asks for a password is ready, too */
            bool pong = r != NULL && r->str != NULL &&
                        (strcmp(r->str, "PONG") == 0 || strncmp(r->str, "NOAUTH", 6) == 0);
            (void)error_set(&last, ERR_IO, "PING: %s", r != NULL && r->str != NULL ? r->str : "no reply");
            freeReplyObject(r);
            client_close(&c);
            if (pong)
                return ERR_OK;
        }
        clock_sleep_us(20000);
    }
    return error_set(e, ERR_TIMEOUT, "no PONG within %u ms: %s", deadline_ms, last.text);
}

redisReply *client_command(struct client *c, const char *format, ...)
{
    if (c->redis == NULL)
        return NULL;
    va_list ap;
    va_start(ap, format);
    redisReply *r = redisvCommand(c->redis, format, ap);
    va_end(ap);
    return r;
}

redisReply *client_argv(struct client *c, size_t argc, const char *const argv[], const size_t lengths[])
{
    if (c->redis == NULL)
        return NULL;
    return redisCommandArgv(c->redis, (int)argc, (const char **)argv, lengths);
}

/* Say why @r is not a reply of @type. */
static enum err unexpected(const struct client *c, const redisReply *r, int type, const char *format,
                           struct error *e)
{
    if (r == NULL)
        return error_set(e, ERR_IO, "%s: no reply: %s", format,
                         c->redis != NULL ? c->redis->errstr : "not connected");
    if (r->type == REDIS_REPLY_ERROR)
        return error_set(e, ERR_REFUSED, "%s", r->str);
    return error_set(e, ERR_PARSE, "%s: reply of type %d (%s), not %d", format, r->type,
                     r->str != NULL ? r->str : "", type);
}

enum err client_integer(struct client *c, int64_t *out, struct error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *r = c->redis == NULL ? NULL : redisvCommand(c->redis, format, ap);
    va_end(ap);
    enum err err = ERR_OK;
    if (r == NULL || r->type != REDIS_REPLY_INTEGER)
        err = unexpected(c, r, REDIS_REPLY_INTEGER, format, e);
    else
        *out = r->integer;
    freeReplyObject(r);
    return err;
}

enum err client_ok(struct client *c, struct error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    redisReply *r = c->redis == NULL ? NULL : redisvCommand(c->redis, format, ap);
    va_end(ap);
    enum err err = ERR_OK;
    if (r == NULL || r->type != REDIS_REPLY_STATUS || strcmp(r->str, "OK") != 0)
        err = unexpected(c, r, REDIS_REPLY_STATUS, format, e);
    freeReplyObject(r);
    return err;
}

/* Repeat the command while its reply is an error that begins with @refusal. */
static enum err try_while(struct client *c, const char *refusal, unsigned deadline_ms, struct error *e,
                          const char *command)
{
    uint64_t until = clock_mono_us() + deadline_ms * 1000ull;
    enum err err;
    struct error why = {""};
    while ((err = client_ok(c, &why, command)) == ERR_REFUSED &&
           strncmp(why.text, refusal, strlen(refusal)) == 0 && clock_mono_us() < until)
        clock_sleep_us(20000);
    return err == ERR_OK ? err : error_set(e, err, "%s: %s", command, why.text);
}

enum err client_when_free(struct client *c, unsigned deadline_ms, struct error *e, const char *command)
{
    return try_while(c, "BUSY ", deadline_ms, e, command);
}

enum err client_save(struct client *c, struct error *e)
{
    return try_while(c, "ERR Background save already in progress", 20000, e, "SAVE");
}

enum { CHUNK = 500 };

/* Send @command @filter with the keys [first, first + count), count <= CHUNK. The reply is an array of as
 * many integers. NULL: *@err says why. */
static redisReply *many(struct client *c, const char *command, const char *filter, client_key_fn *key,
                        uint64_t first, size_t count, enum err *err, struct error *e)
{
    char keys[CHUNK][CLIENT_KEY_MAX];
    const char *argv[CHUNK + 2] = {command, filter};
    size_t lengths[CHUNK + 2] = {strlen(command), strlen(filter)};
    for (size_t i = 0; i < count; i++) {
        lengths[i + 2] = key(first + i, keys[i]);
        argv[i + 2] = keys[i];
    }
    redisReply *r = client_argv(c, count + 2, argv, lengths);
    if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != count) {
        *err = unexpected(c, r, REDIS_REPLY_ARRAY, command, e);
        freeReplyObject(r);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        if (r->element[i]->type != REDIS_REPLY_INTEGER) {
            *err = unexpected(c, r->element[i], REDIS_REPLY_INTEGER, command, e);
            freeReplyObject(r);
            return NULL;
        }
    return r;
}

static size_t chunk_of(uint64_t done, uint64_t count)
{
    return count - done < CHUNK ? (size_t)(count - done) : CHUNK;
}

enum err client_mexists(struct client *c, const char *filter, client_key_fn *key, uint64_t first,
                        uint64_t count, uint64_t *present, uint64_t *first_absent, struct error *e)
{
    bool missed = false;
    *present = 0;
    for (uint64_t done = 0; done < count; done += chunk_of(done, count)) {
        enum err err = ERR_OK;
        redisReply *r = many(c, "BF.MEXISTS", filter, key, first + done, chunk_of(done, count), &err, e);
        if (r == NULL)
            return err;
        for (size_t i = 0; i < r->elements; i++) {
            *present += r->element[i]->integer == 1;
            if (r->element[i]->integer != 1 && !missed) {
                missed = true;
                if (first_absent != NULL)
                    *first_absent = first + done + i;
            }
        }
        freeReplyObject(r);
    }
    return ERR_OK;
}

enum err client_madd(struct client *c, const char *filter, client_key_fn *key, uint64_t first, uint64_t count,
                     struct error *e)
{
    for (uint64_t done = 0; done < count; done += chunk_of(done, count)) {
        enum err err = ERR_OK;
        redisReply *r = many(c, "BF.MADD", filter, key, first + done, chunk_of(done, count), &err, e);
        if (r == NULL)
            return err;
        freeReplyObject(r);
    }
    return ERR_OK;
}

static void value_text(const redisReply *r, char *out, size_t size)
{
    if (r != NULL && r->type == REDIS_REPLY_INTEGER)
        (void)snprintf(out, size, "%lld", r->integer);
    else
        (void)snprintf(out, size, "%s", r != NULL && r->str != NULL ? r->str : "");
}

/* NULL: *@err says why. */
static redisReply *fetch_status(struct client *c, const char *filter, enum err *err, struct error *e)
{
    redisReply *r = client_command(c, "TB.STATUS %s", filter);
    if (r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements % 2 == 0)
        return r;
    *err = unexpected(c, r, REDIS_REPLY_ARRAY, "TB.STATUS", e);
    freeReplyObject(r);
    return NULL;
}

static const redisReply *find_field(const redisReply *status, const char *field)
{
    for (size_t i = 0; i + 1 < status->elements; i += 2)
        if (status->element[i]->str != NULL && strcasecmp(status->element[i]->str, field) == 0)
            return status->element[i + 1];
    return NULL;
}

enum err client_status(struct client *c, const char *filter, const char *field, char *out, size_t size,
                       struct error *e)
{
    enum err err = ERR_OK;
    redisReply *r = fetch_status(c, filter, &err, e);
    if (r == NULL)
        return err;
    const redisReply *value = find_field(r, field);
    if (value != NULL)
        value_text(value, out, size);
    else
        err = error_set(e, ERR_NOT_FOUND, "TB.STATUS %s has no field %s", filter, field);
    freeReplyObject(r);
    return err;
}

/* Read a number, or the time in a field "..._at", in milliseconds. */
static bool to_number(const char *field, const char *text, int64_t *out)
{
    size_t length = strlen(field);
    double seconds;
    if (length < 3 || strcmp(field + length - 3, "_at") != 0)
        return number_i64(text, strlen(text), out);
    if (!number_double(text, strlen(text), &seconds))
        return false;
    *out = (int64_t)(seconds * 1000 + 0.5);
    return true;
}

enum err client_status_number(struct client *c, const char *filter, const char *field, int64_t *out,
                              struct error *e)
{
    char text[64];
    enum err err = client_status(c, filter, field, text, sizeof(text), e);
    if (err != ERR_OK)
        return err;
    if (!to_number(field, text, out))
        return error_set(e, ERR_PARSE, "TB.STATUS %s: %s is no number: %s", filter, field, text);
    return ERR_OK;
}

/* Append the whole status as "a=b c=d", cut to the size of @e. */
static void describe(struct error *e, const redisReply *r)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < r->elements && n < sizeof(e->text); i += 2) {
        char value[128];
        value_text(r->element[i + 1], value, sizeof(value));
        int m = snprintf(e->text + n, sizeof(e->text) - n, "%s=%s ", r->element[i]->str, value);
        n += m > 0 ? (size_t)m : 0;
    }
}

typedef bool accept_fn(const char *field, const char *value, const void *wanted);

static bool same_text(const char *field, const char *value, const void *wanted)
{
    (void)field;
    return strcmp(value, wanted) == 0;
}

static bool at_least(const char *field, const char *value, const void *wanted)
{
    int64_t number;
    return to_number(field, value, &number) && number >= *(const int64_t *)wanted;
}

static enum err wait_for(struct client *c, const char *filter, const char *field, accept_fn *accept,
                         const void *wanted, unsigned deadline_ms, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    struct error last = {"never tried"};
    do {
        enum err err = ERR_OK;
        if (c->redis == NULL || c->redis->err != 0) {
            client_close(c);
            if (client_open(c, c->port, 5000, &last) != ERR_OK) {
                clock_sleep_us(20000);
                continue;
            }
        }
        redisReply *r = fetch_status(c, filter, &err, &last);
        if (r != NULL) {
            char text[256] = "";
            const redisReply *value = find_field(r, field);
            if (value != NULL)
                value_text(value, text, sizeof(text));
            describe(&last, r);
            freeReplyObject(r);
            if (value != NULL && accept(field, text, wanted))
                return ERR_OK;
        }
        clock_sleep_us(20000);
    } while (clock_mono_us() < until);
    (void)error_set(e, ERR_TIMEOUT, "%s", last.text);
    return ERR_TIMEOUT;
}

enum err client_wait_status(struct client *c, const char *filter, const char *field, const char *wanted,
                            unsigned deadline_ms, struct error *e)
{
    enum err err = wait_for(c, filter, field, same_text, wanted, deadline_ms, e);
    return err == ERR_OK
               ? ERR_OK
               : error_prefix(e, err, "%s: %s is not %s after %u ms", filter, field, wanted, deadline_ms);
}

enum err client_wait_status_least(struct client *c, const char *filter, const char *field, int64_t wanted,
                                  unsigned deadline_ms, struct error *e)
{
    enum err err = wait_for(c, filter, field, at_least, &wanted, deadline_ms, e);
    return err == ERR_OK ? ERR_OK
                         : error_prefix(e, err, "%s: %s is not at least %lld after %u ms", filter, field,
                                        (long long)wanted, deadline_ms);
}

enum err client_scan(struct client *c, const char *pattern, client_name_fn *each, void *arg, struct error *e)
{
    char cursor[32] = "0";
    do {
        redisReply *r = client_command(c, "SCAN %s MATCH %s COUNT 1000", cursor, pattern);
        if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != 2) {
            enum err err = unexpected(c, r, REDIS_REPLY_ARRAY, "SCAN", e);
            freeReplyObject(r);
            return err;
        }
        (void)snprintf(cursor, sizeof(cursor), "%s", r->element[0]->str);
        for (size_t i = 0; i < r->element[1]->elements; i++)
            each(r->element[1]->element[i]->str, arg);
        freeReplyObject(r);
    } while (strcmp(cursor, "0") != 0);
    return ERR_OK;
}
