/* SPDX-License-Identifier: MIT */
/* Commands that a client sends to Redis itself: each of some connections writes a pipeline of them, then all
 * replies are read. */
#include "log_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"

enum { WORDS_MAX = 8, CONNECTIONS_MAX = 64, ARGUMENTS_MAX = WORDS_MAX + BATCH };

static void append(const struct raw *r, redisContext *c, const struct keys *keys, uint64_t first)
{
    const char *argv[ARGUMENTS_MAX];
    size_t lengths[ARGUMENTS_MAX];
    int n = 0;
    for (; r->words[n] != NULL; n++) {
        argv[n] = r->words[n];
        lengths[n] = strlen(argv[n]);
    }
    for (unsigned i = 0; i < r->per_command; i++, n++) {
        const struct request_key *key = &keys->key[(first + i) % keys->count];
        argv[n] = key->bytes;
        lengths[n] = key->length;
    }
    if (r->behind != NULL) {
        argv[n] = r->behind;
        lengths[n++] = strlen(r->behind);
    }
    if (redisAppendCommandArgv(c, n, argv, lengths) != REDIS_OK)
        must(ERR_NOMEM, &(struct error){"out of memory"});
}

static void flush(redisContext *c)
{
    int done = 0;
    while (!done)
        if (redisBufferWrite(c, &done) != REDIS_OK)
            must(ERR_UNREACHABLE, &(struct error){"Redis is away"});
}

static void take_reply(redisContext *c)
{
    void *type = NULL; /* the reader makes no objects, and returns the type */
    if (redisGetReply(c, &type) != REDIS_OK || (uintptr_t)type == REDIS_REPLY_ERROR)
        must(ERR_REFUSED, &(struct error){"Redis refuses a command"});
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

void raw_run(struct raw *r, struct server *s, const struct keys *keys, uint64_t first, uint64_t count)
{
    redisContext *c[CONNECTIONS_MAX];
    uint64_t turn = (uint64_t)r->per_command * r->depth * r->connections, at = 0;
    uint32_t *latency = allocate((count / turn + 1) * sizeof(*latency)), latencies = 0;
    for (unsigned i = 0; i < r->connections; i++) {
        c[i] = redisConnect("127.0.0.1", s->redis.port);
        if (c[i] == NULL || c[i]->err != 0)
            must(ERR_UNREACHABLE, &(struct error){"Redis is away"});
        else
            c[i]->reader->fn = NULL;
    }
    r->redis = server_cpu(s);
    uint64_t began = clock_mono_us();
    while (at + turn <= count) {
        uint64_t now = clock_mono_us();
        for (unsigned i = 0; i < r->connections; i++) {
            for (unsigned k = 0; k < r->depth; k++, at += r->per_command)
                append(r, c[i], keys, first + at);
            flush(c[i]);
        }
        for (unsigned i = 0; i < r->connections; i++)
            for (unsigned k = 0; k < r->depth; k++)
                take_reply(c[i]);
        latency[latencies++] = (uint32_t)(clock_mono_us() - now);
    }
    r->seconds = (double)(clock_mono_us() - began) / 1e6;
    r->redis = server_cpu(s) - r->redis;
    qsort(latency, latencies, sizeof(*latency), compare);
    size_t median = latencies / 2, late = (size_t)latencies * 99 / 100;
    r->p50 = latency[median];
    r->p99 = latency[late];
    free(latency);
    for (unsigned i = 0; i < r->connections; i++)
        redisFree(c[i]);
}
