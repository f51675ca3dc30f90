/* SPDX-License-Identifier: MIT */
/* One thread of bench. Each of its connections sends a pipeline of requests, then reads their replies. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/cli/bench/cli_bench.h"

enum { LOOK_MS = 100, EVENTS = 64 };

struct request {
    enum bench_command command;
    bool present; /* BENCH_EXISTS: its keys were added before */
    uint64_t begin_us;
};

struct connection {
    struct client *client;  /* NULL: it broke, and is opened again at the next look */
    struct request *flight; /* array of o->pipeline requests */
    size_t count, received; /* of `flight` */
    uint64_t late_us;       /* when the next reply is late, as clock_mono_us() */
    bool over;              /* the run is over */
};

struct runner {
    struct bench_thread *t;
    const struct cli_bench *o;
    struct connection *connections;
    size_t running; /* number of connections that are not over */
    int epoll;
    char *keys; /* array of o->batch keys */
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

uint64_t bench_added_again(const struct bench *b)
{
    uint64_t added = atomic_load(&b->added);
    return added > b->o->keys ? added - b->o->keys : 0;
}

static enum err append(struct runner *r, struct client *client, struct request *q, uint64_t begin_us,
                       struct error *e)
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
        uint64_t number = q->command == BENCH_ADD
                              ? 2 * o->keys + atomic_fetch_add(&r->t->bench->added, 1) % o->keys
                              : next_random(r->t) % o->keys + (q->present ? 0 : o->keys);
        bench_key(r->keys + i * o->key_size, number, o->key_size);
        r->argv[2 + i] = r->keys + i * o->key_size;
        r->lengths[2 + i] = o->key_size;
    }
    q->begin_us = begin_us;
    return client_append(client, 2 + o->batch, r->argv, r->lengths, e);
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

static void judge(struct bench_figures *f, const struct request *q, const redisReply *reply, uint64_t now_us)
{
    histogram_record(&f->latency[q->command], now_us > q->begin_us ? now_us - q->begin_us : 0);
    if (reply->type == REDIS_REPLY_ARRAY)
        for (size_t i = 0; i < reply->elements; i++)
            judge_key(f, q, reply->element[i]);
    else
        judge_key(f, q, reply);
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

/* Edges are enough: who waits has read, or written, all that there was. */
static enum err open_connection(struct runner *r, struct connection *c, struct error *e)
{
    const struct cli *cli = r->t->bench->cli;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c};
    enum err code = client_open(&c->client, &cli->address, cli->timeout_ms, e);
    if (code == ERR_OK && epoll_ctl(r->epoll, EPOLL_CTL_ADD, client_fd(c->client), &event) != 0)
        code = error_set(e, ERR_NOMEM, "out of memory");
    return code;
}

static uint64_t late_us(const struct runner *r, uint64_t now_us)
{
    return now_us + (uint64_t)r->t->bench->cli->timeout_ms * 1000;
}

static void lose(struct runner *r, struct connection *c, const struct error *why)
{
    struct bench_figures *f = &r->t->figures;
    f->disconnects++;
    if (f->error[0] == '\0')
        (void)snprintf(f->error, sizeof(f->error), "%s", why->text);
    client_close(c->client);
    c->client = NULL;
}

/* Send the next pipeline of @c. */
static void begin(struct runner *r, struct connection *c)
{
    struct error e = {""};
    uint64_t first = 0;
    c->received = 0;
    c->count = take(r, &first);
    uint64_t at = c->count == 0 ? 0 : due(r, first), now = clock_mono_us();
    if (c->count == 0 || (r->o->rate != 0 && at == 0)) {
        c->over = true;
        r->running--;
        return;
    }
    enum err code = c->client == NULL ? open_connection(r, c, &e) : ERR_OK;
    for (size_t i = 0; i < c->count && code == ERR_OK; i++)
        code = append(r, c->client, &c->flight[i], at != 0 ? at : now, &e);
    c->late_us = late_us(r, now);
    if (code == ERR_OK)
        client_flush(c->client);
    else
        lose(r, c, &e);
}

/* Take the replies that have come; after the last one, go on. */
static void receive(struct runner *r, struct connection *c)
{
    struct error e = {""};
    redisReply *reply = NULL;
    enum err code = ERR_OK;
    while (c->received < c->count && (code = client_take(c->client, &reply, &e)) == ERR_OK && reply != NULL) {
        uint64_t now = clock_mono_us();
        judge(&r->t->figures, &c->flight[c->received++], reply, now);
        c->late_us = late_us(r, now); /* of a whole reply: single bytes do not extend it */
        freeReplyObject(reply);
    }
    if (code != ERR_OK)
        lose(r, c, &e);
    else if (c->received == c->count)
        begin(r, c);
}

/* Open a connection that broke; give up one whose reply is late. */
static void look(struct runner *r, struct connection *c, uint64_t now_us)
{
    struct error e;
    if (c->over)
        return;
    if (c->client != NULL && now_us >= c->late_us) {
        (void)error_set(&e, ERR_TIMEOUT, "no answer within %g seconds (--timeout)",
                        r->t->bench->cli->timeout_ms / 1000.0);
        lose(r, c, &e);
    } else if (c->client == NULL) {
        begin(r, c);
    }
}

static void drive(struct runner *r)
{
    struct epoll_event events[EVENTS];
    uint64_t looked_us = clock_mono_us();
    for (size_t i = 0; i < r->t->connections; i++)
        begin(r, &r->connections[i]);
    while (r->running > 0) {
        int n = epoll_wait(r->epoll, events, EVENTS, LOOK_MS);
        for (int i = 0; i < n; i++) {
            struct connection *c = events[i].data.ptr;
            if (c->client != NULL && !c->over)
                receive(r, c);
        }
        uint64_t now = clock_mono_us();
        if (now - looked_us < LOOK_MS * 1000)
            continue;
        looked_us = now;
        for (size_t i = 0; i < r->t->connections; i++)
            look(r, &r->connections[i], now);
    }
}

void *bench_run(void *arg)
{
    struct bench_thread *t = arg;
    const struct cli_bench *o = t->bench->o;
    struct request *flight = calloc(t->connections * o->pipeline, sizeof(*flight));
    struct runner r = {.t = t,
                       .o = o,
                       .connections = calloc(t->connections, sizeof(*r.connections)),
                       .running = t->connections,
                       .epoll = epoll_create1(EPOLL_CLOEXEC),
                       .keys = malloc(o->batch * o->key_size),
                       .argv = calloc(2 + o->batch, sizeof(*r.argv)),
                       .lengths = calloc(2 + o->batch, sizeof(*r.lengths))};
    bool ready = flight != NULL && r.connections != NULL && r.epoll >= 0 && r.keys != NULL &&
                 r.argv != NULL && r.lengths != NULL;
    for (size_t i = 0; ready && i < t->connections; i++)
        r.connections[i].flight = flight + i * o->pipeline;
    if (ready)
        drive(&r);
    else
        (void)snprintf(t->figures.error, sizeof(t->figures.error), "out of memory");
    t->ended_us = clock_mono_us();
    for (size_t i = 0; ready && i < t->connections; i++)
        client_close(r.connections[i].client);
    if (r.epoll >= 0)
        (void)close(r.epoll);
    free(flight);
    free(r.connections);
    free(r.keys);
    free(r.argv);
    free(r.lengths);
    return t;
}
