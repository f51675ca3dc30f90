/* SPDX-License-Identifier: MIT */
/* One connection of bench: it sends a pipeline of requests, then reads their replies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/cli/bench/cli_bench.h"

enum { RECONNECT_US = 100 * 1000 };

struct request {
    enum bench_command command;
    bool present; /* BENCH_EXISTS: its keys were added before */
    uint64_t begin_us;
};

struct runner {
    struct bench_thread *t;
    const struct cli_bench *o;
    struct client *client;
    struct request *flight; /* array of o->pipeline requests */
    char *keys;             /* array of o->batch keys */
    const char **argv;
    size_t *lengths;
};

void bench_key(char *out, uint64_t number, size_t size)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";
    for (size_t i = 0; i < size && i < BENCH_KEY_MIN; i++) /* the part in which keys differ */
        out[i] = digits[(number >> (6 * i)) % 64];
    uint64_t x = number;
    for (size_t i = BENCH_KEY_MIN; i < size; i++) { /* filler that looks like a key */
        x = (x + i) * UINT64_C(0x9e3779b97f4a7c15);
        out[i] = digits[x >> 58];
    }
}

/* xorshift64*: fast, and random enough to choose keys. */
static uint64_t next_random(struct bench_thread *t)
{
    t->random ^= t->random >> 12;
    t->random ^= t->random << 25;
    t->random ^= t->random >> 27;
    return t->random * UINT64_C(2685821657736338717);
}

static uint64_t key_number(struct runner *r, const struct request *q)
{
    uint64_t keys = r->o->keys;
    if (q->command == BENCH_ADD)
        return 2 * keys + atomic_fetch_add(&r->t->bench->added, 1) % keys;
    return next_random(r->t) % keys + (q->present ? 0 : keys);
}

uint64_t bench_added_again(const struct bench *b)
{
    uint64_t added = atomic_load(&b->added);
    return added > b->o->keys ? added - b->o->keys : 0;
}

static enum err send_request(struct runner *r, struct request *q, uint64_t due_us, struct error *e)
{
    const struct cli_bench *o = r->o;
    double share = (double)(next_random(r->t) >> 11) / 9007199254740992.0; /* in [0, 1) */
    q->command = share < o->adds ? BENCH_ADD : BENCH_EXISTS;
    q->present = (next_random(r->t) >> 32 & 1) != 0;
    r->argv[0] = r->t->bench->command[q->command];
    r->argv[1] = r->t->bench->filter;
    r->lengths[0] = strlen(r->argv[0]);
    r->lengths[1] = strlen(r->argv[1]);
    for (size_t i = 0; i < o->batch; i++) {
        bench_key(r->keys + i * o->key_size, key_number(r, q), o->key_size);
        r->argv[2 + i] = r->keys + i * o->key_size;
        r->lengths[2 + i] = o->key_size;
    }
    q->begin_us = due_us != 0 ? due_us : clock_mono_us();
    return client_append(r->client, 2 + o->batch, r->argv, r->lengths, e);
}

static void judge_key(struct bench_figures *f, const struct request *q, const redisReply *value)
{
    if (value->type == REDIS_REPLY_ERROR) {
        f->errors[q->command]++;
        if (f->error[0] == '\0')
            (void)snprintf(f->error, sizeof(f->error), "%s", value->str);
        return;
    }
    f->keys[q->command]++;
    if (q->command == BENCH_ADD)
        return;
    bool yes = value->type == REDIS_REPLY_INTEGER && value->integer == 1;
    f->asked_present += q->present;
    f->false_negatives += q->present && !yes;
    f->asked_absent += !q->present;
    f->false_positives += !q->present && yes;
}

static enum err receive_request(struct runner *r, const struct request *q, struct error *e)
{
    struct bench_figures *f = &r->t->figures;
    redisReply *reply = NULL;
    enum err code = client_receive(r->client, &reply, e);
    if (code != ERR_OK)
        return code;
    uint64_t now = clock_mono_us();
    histogram_record(&f->latency[q->command], now > q->begin_us ? now - q->begin_us : 0);
    if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < reply->elements; i++)
            judge_key(f, q, reply->element[i]);
    else
        judge_key(f, q, reply);
    freeReplyObject(reply);
    return ERR_OK;
}

/* The number of requests in the next pipeline, *@first: the number of the first; 0: the run is over. */
static size_t take(struct runner *r, uint64_t *first)
{
    struct bench *b = r->t->bench;
    if (atomic_load(&b->stop) || clock_mono_us() >= b->end_us)
        return 0;
    uint64_t wanted = r->o->pipeline;
    *first = atomic_fetch_add(&b->requests, wanted);
    if (r->o->requests != 0 && *first >= r->o->requests)
        return 0;
    if (r->o->requests != 0 && *first + wanted > r->o->requests)
        wanted = r->o->requests - *first;
    return (size_t)wanted;
}

/* With --rate, wait until the @number-th request is due, and return that time; 0: there is no rate, or the
 * run is over. */
static uint64_t due(struct runner *r, uint64_t number)
{
    struct bench *b = r->t->bench;
    if (r->o->rate == 0)
        return 0;
    uint64_t at = b->begin_us + (uint64_t)((double)number * 1e6 / (double)r->o->rate);
    for (uint64_t now = clock_mono_us(); now < at && now < b->end_us && !atomic_load(&b->stop);
         now = clock_mono_us())
        clock_sleep_us(at - now < 50000 ? at - now : 50000);
    return at < b->end_us ? at : 0;
}

static enum err pipeline(struct runner *r, uint64_t first, size_t count, struct error *e)
{
    enum err code = ERR_OK;
    uint64_t at = due(r, first);
    if (r->o->rate != 0 && at == 0)
        return ERR_OK;
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        code = send_request(r, &r->flight[i], at, e);
    if (code == ERR_OK)
        client_flush(r->client);
    for (size_t i = 0; i < count && code == ERR_OK; i++)
        code = receive_request(r, &r->flight[i], e);
    return code;
}

static void drive(struct runner *r)
{
    struct bench *b = r->t->bench;
    struct error e = {""};
    uint64_t first;
    size_t count;
    while ((count = take(r, &first)) != 0) {
        enum err code = ERR_OK;
        if (r->client == NULL)
            code = client_open(&r->client, &b->cli->address, b->cli->timeout_ms, &e);
        if (code == ERR_OK)
            code = pipeline(r, first, count, &e);
        if (code == ERR_OK)
            continue;
        r->t->figures.disconnects++;
        if (r->t->figures.error[0] == '\0')
            (void)snprintf(r->t->figures.error, sizeof(r->t->figures.error), "%s", e.text);
        client_close(r->client);
        r->client = NULL;
        clock_sleep_us(RECONNECT_US);
    }
}

void *bench_run(void *arg)
{
    struct bench_thread *t = arg;
    const struct cli_bench *o = t->bench->o;
    struct runner r = {.t = t,
                       .o = o,
                       .flight = calloc(o->pipeline, sizeof(*r.flight)),
                       .keys = malloc(o->batch * o->key_size),
                       .argv = calloc(2 + o->batch, sizeof(*r.argv)),
                       .lengths = calloc(2 + o->batch, sizeof(*r.lengths))};
    if (r.flight != NULL && r.keys != NULL && r.argv != NULL && r.lengths != NULL)
        drive(&r);
    else
        (void)snprintf(t->figures.error, sizeof(t->figures.error), "out of memory");
    t->ended_us = clock_mono_us();
    client_close(r.client);
    free(r.flight);
    free(r.keys);
    free(r.argv);
    free(r.lengths);
    return t;
}
