/* SPDX-License-Identifier: MIT */
#include "deploy/observe.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/number.h"

enum err observe_connect(redisContext **out, uint16_t port, unsigned timeout_ms, const char *who,
                         struct error *e)
{
    struct timeval timeout = {.tv_sec = timeout_ms / 1000,
                              .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    redisContext *c = redisConnectWithTimeout("127.0.0.1", port, timeout);
    if (c == NULL || c->err != 0) {
        (void)error_set(e, ERR_UNREACHABLE, "%s on 127.0.0.1:%u cannot be reached: %s", who, port,
                        c == NULL ? "no memory" : c->errstr);
        redisFree(c);
        return ERR_UNREACHABLE;
    }
    if (redisSetTimeout(c, timeout) != REDIS_OK) {
        redisFree(c);
        return error_set(e, ERR_IO, "%s: the deadline cannot be set", who);
    }
    *out = c;
    return ERR_OK;
}

unsigned observe_ports(const char *text, uint16_t *ports, unsigned max)
{
    unsigned n = 0;
    while (n < max) {
        size_t length = strcspn(text, ",");
        uint64_t port;
        if (!number_u64(text, length, &port) || port == 0 || port > UINT16_MAX)
            return 0;
        ports[n++] = (uint16_t)port;
        if (text[length] == '\0')
            return n;
        text += length + 1;
    }
    return 0;
}

/* Any scalar as text; "" for what has no text. */
static void scalar(const redisReply *r, char *text, size_t size)
{
    if (r->type == REDIS_REPLY_INTEGER)
        (void)snprintf(text, size, "%lld", r->integer);
    else if (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS)
        (void)snprintf(text, size, "%.*s", (int)r->len, r->str);
    else
        text[0] = '\0';
}

static bool text_field(const redisReply *list, const char *name, char *out, size_t size)
{
    out[0] = '\0';
    for (size_t i = 0; i + 1 < list->elements; i += 2) {
        const redisReply *r = list->element[i];
        if (r->type == REDIS_REPLY_INTEGER || r->str == NULL || strcasecmp(r->str, name) != 0)
            continue;
        scalar(list->element[i + 1], out, size);
        return true;
    }
    return false;
}

static bool number_field(const redisReply *list, const char *name, uint64_t *out)
{
    char text[32];
    return text_field(list, name, text, sizeof(text)) && number_u64(text, strlen(text), out);
}

static bool status_parse(const redisReply *list, struct status *s)
{
    uint64_t built = 0;
    char rate[32];
    memset(s, 0, sizeof(*s));
    bool whole = text_field(list, "phase", s->phase, sizeof(s->phase));
    whole &= number_field(list, "generation", &s->generation);
    whole &= number_field(list, "built", &built);
    s->built = built == 1;
    (void)number_field(list, "serving_generation", &s->serving);
    (void)number_field(list, "epoch", &s->epoch);
    (void)number_field(list, "keys", &s->items);
    (void)number_field(list, "capacity", &s->capacity);
    (void)text_field(list, "job_state", s->job_state, sizeof(s->job_state));
    (void)text_field(list, "job_step", s->job_step, sizeof(s->job_step));
    (void)number_field(list, "job_rows", &s->job_rows);
    (void)number_field(list, "job_rows_total", &s->job_rows_total);
    if (!text_field(list, "job_rows_per_second", rate, sizeof(rate)) ||
        !number_double(rate, strlen(rate), &s->job_rate))
        s->job_rate = 0;
    (void)text_field(list, "job_reason", s->job_reason, sizeof(s->job_reason));
    (void)text_field(list, "job_waiting_for", s->job_waiting_for, sizeof(s->job_waiting_for));
    (void)text_field(list, "job_error", s->job_error, sizeof(s->job_error));
    return whole;
}

enum err observe_status(redisContext *daemon, const char *filter, struct status *out, struct error *e)
{
    redisReply *r = redisCommand(daemon, "TB.STATUS %s", filter);
    if (r == NULL)
        return error_set(e, ERR_UNREACHABLE, "the daemon does not answer TB.STATUS: %s", daemon->errstr);
    enum err err = ERR_OK;
    if (r->type == REDIS_REPLY_ERROR)
        err = error_set(e, ERR_REFUSED, "TB.STATUS %s: %s", filter, r->str);
    else if (r->type != REDIS_REPLY_ARRAY || !status_parse(r, out))
        err = error_set(e, ERR_PARSE, "TB.STATUS %s: phase, generation or built is missing in the reply",
                        filter);
    freeReplyObject(r);
    return err;
}

/* MEMORY USAGE of the keys of one SCAN reply; a key that went away in between counts nothing. */
static enum err sum_keys(redisContext *node, const redisReply *keys, struct shard_memory *sum,
                         struct error *e)
{
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        redisReply *r = redisCommand(node, "MEMORY USAGE %b", key->str, key->len);
        if (r == NULL || r->type == REDIS_REPLY_ERROR) {
            (void)error_set(e, ERR_REFUSED, "MEMORY USAGE: %s", r == NULL ? node->errstr : r->str);
            freeReplyObject(r);
            return ERR_REFUSED;
        }
        if (r->type == REDIS_REPLY_INTEGER) {
            sum->shards++;
            sum->bytes += (uint64_t)r->integer;
        }
        freeReplyObject(r);
    }
    return ERR_OK;
}

enum err observe_shards(redisContext *node, const char *prefix, const char *filter, uint64_t generation,
                        struct shard_memory *sum, struct error *e)
{
    char cursor[32] = "0";
    char pattern[1024];
    (void)snprintf(pattern, sizeof(pattern), "%s:{%s.%llu.*}:????????????????*", prefix, filter,
                   (unsigned long long)generation);
    enum err err = ERR_OK;
    do {
        /* An incarnation has 16 digits. */
        redisReply *r = redisCommand(node, "SCAN %s MATCH %s COUNT 1000 TYPE string", cursor, pattern);
        if (r == NULL || r->type != REDIS_REPLY_ARRAY || r->elements != 2) {
            err = error_set(e, ERR_REFUSED, "SCAN: %s", r == NULL ? node->errstr : "unexpected reply");
        } else {
            scalar(r->element[0], cursor, sizeof(cursor));
            err = sum_keys(node, r->element[1], sum, e);
        }
        freeReplyObject(r);
    } while (err == ERR_OK && strcmp(cursor, "0") != 0);
    return err;
}
