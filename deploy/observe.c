/* SPDX-License-Identifier: MIT */
#include "deploy/observe.h"

#include <stdio.h>
#include <string.h>
#include "base/number.h"
#include "service/protocol/list.h"

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

static bool status_parse(const redisReply *list, struct status *s)
{
    memset(s, 0, sizeof(*s));
    bool whole = list_text(list, "phase", s->phase, sizeof(s->phase));
    whole &= list_count(list, "generation", &s->generation);
    whole &= list_field(list, "built") != NULL;
    s->built = list_is(list, "built", "1");
    (void)list_count(list, "serving_generation", &s->serving);
    (void)list_count(list, "epoch", &s->epoch);
    (void)list_count(list, "keys", &s->items);
    (void)list_count(list, "capacity", &s->capacity);
    (void)list_text(list, "job_state", s->job_state, sizeof(s->job_state));
    (void)list_text(list, "job_step", s->job_step, sizeof(s->job_step));
    (void)list_count(list, "job_rows", &s->job_rows);
    (void)list_count(list, "job_rows_total", &s->job_rows_total);
    (void)list_decimal(list, "job_rows_per_second", &s->job_rate);
    (void)list_text(list, "job_reason", s->job_reason, sizeof(s->job_reason));
    (void)list_text(list, "job_waiting_for", s->job_waiting_for, sizeof(s->job_waiting_for));
    (void)list_text(list, "job_error", s->job_error, sizeof(s->job_error));
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
            (void)snprintf(cursor, sizeof(cursor), "%.*s", (int)r->element[0]->len, r->element[0]->str);
            err = sum_keys(node, r->element[1], sum, e);
        }
        freeReplyObject(r);
    } while (err == ERR_OK && strcmp(cursor, "0") != 0);
    return err;
}
