/* SPDX-License-Identifier: MIT */
#include "stall_load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench.h"
#include "base/histogram.h"
#include "workloads.h"

enum { TIMES_MAX = 2000000, ROUND_KEYS = 1 << 28, LOADER_KEYS = 1 << 23 };

uint32_t load_now(const struct load *l)
{
    return (uint32_t)(clock_mono_us() - l->start_us);
}

/* Every second request checks a key that is present, the others add new keys. */
static bool request_one(struct loader *p, size_t i)
{
    bool add = i % 2 == 1;
    uint64_t counter = add ? p->fresh++ : i * UINT64_C(2654435761) % p->load->known;
    struct code code = code_of(counter);
    struct request_time *t = &p->times[p->count];
    t->begin = load_now(p->load);
    redisReply *r =
        redisCommand(p->connection, "%s %s %s", add ? "BF.ADD" : "BF.EXISTS", p->load->filter, code.text);
    t->end = load_now(p->load);
    p->count++;
    if (r == NULL || r->type != REDIS_REPLY_INTEGER)
        (void)error_set(&p->error, ERR_REFUSED, "%s %s: %s", add ? "BF.ADD" : "BF.EXISTS", code.text,
                        r == NULL ? p->connection->errstr : r->str);
    else if (!add && r->integer != 1)
        (void)error_set(&p->error, ERR_LOST, "the known key %s was denied", code.text);
    freeReplyObject(r);
    return p->error.text[0] == '\0';
}

static void *loader_thread(void *arg)
{
    struct loader *p = arg;
    size_t i = 0;
    while (!atomic_load(&p->load->stop) && p->count < TIMES_MAX && request_one(p, i))
        i++;
    return NULL;
}

static enum err thread_start(struct load *l, struct loader *p, struct error *e)
{
    p->load = l;
    p->times = calloc(TIMES_MAX, sizeof(*p->times));
    if (p->times == NULL)
        return error_set(e, ERR_NOMEM, "no memory for the times of requests");
    p->started = pthread_create(&p->thread, NULL, loader_thread, p) == 0;
    return p->started ? ERR_OK : error_set(e, ERR_NOMEM, "a thread cannot be started");
}

static enum err loader_start(struct load *l, struct loader *p, uint16_t port, uint64_t fresh, struct error *e)
{
    *p = (struct loader){.fresh = fresh};
    enum err err = observe_connect(&p->connection, port, TIMEOUT_MS, "the daemon", e);
    return err != ERR_OK ? err : thread_start(l, p, e);
}

enum err load_start(struct load *l, const uint16_t *ports, unsigned daemons, unsigned count, unsigned round,
                    struct error *e)
{
    l->start_us = clock_mono_us();
    atomic_store(&l->stop, false);
    l->count = 0;
    enum err err = ERR_OK;
    stalls_start(&l->stalls);
    while (err == ERR_OK && l->count < count) {
        uint64_t fresh = FRESH_FROM + (uint64_t)round * ROUND_KEYS + (uint64_t)l->count * LOADER_KEYS;
        err = loader_start(l, &l->loader[l->count], ports[l->count % daemons], fresh, e);
        l->count++;
    }
    return err;
}

static void thread_stop(struct loader *p)
{
    if (p->started)
        (void)pthread_join(p->thread, NULL);
    p->started = false;
}

enum err load_stop(struct load *l, struct error *e)
{
    enum err err = ERR_OK;
    atomic_store(&l->stop, true);
    stalls_stop(&l->stalls);
    for (unsigned i = 0; i < l->count; i++) {
        struct loader *p = &l->loader[i];
        thread_stop(p);
        if (p->error.text[0] != '\0' && err == ERR_OK)
            err = error_set(e, ERR_REFUSED, "%s", p->error.text);
    }
    return err;
}

void load_free(struct load *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        redisFree(l->loader[i].connection);
        free(l->loader[i].times);
    }
    l->count = 0;
}

/* --- looking --- */

static double ms(uint32_t us)
{
    return (double)us / 1000;
}

/* Return the loader whose next reply is the earliest; @l->count: all are at their end. */
static unsigned next_answer(const struct load *l, const size_t *at)
{
    unsigned best = l->count;
    for (unsigned i = 0; i < l->count; i++)
        if (at[i] < l->loader[i].count &&
            (best == l->count || l->loader[i].times[at[i]].end < l->loader[best].times[at[best]].end))
            best = i;
    return best;
}

/* Whether a stall of the machine may have delayed what took from @from to @to. */
static bool is_stalled(const struct load *l, uint32_t from, uint32_t to)
{
    return stalls_touch(&l->stalls, l->start_us + from, l->start_us + to);
}

static uint32_t longest_gap(const struct load *l, uint32_t from, uint32_t to)
{
    size_t at[LOADERS_MAX] = {0};
    uint32_t last = from, longest = 0;
    unsigned i;
    while (last < to && (i = next_answer(l, at)) < l->count) {
        uint32_t end = l->loader[i].times[at[i]++].end;
        if (end <= from)
            continue;
        if (end > to)
            end = to;
        if (end - last > longest && !is_stalled(l, last, end))
            longest = end - last;
        last = end;
    }
    return longest;
}

void load_look(const struct load *l, uint32_t from, uint32_t to, struct load_figures *out)
{
    static struct histogram h;
    memset(&h, 0, sizeof(h));
    uint32_t longest = 0;
    out->requests = 0;
    for (unsigned i = 0; i < l->count; i++)
        for (size_t k = 0; k < l->loader[i].count; k++) {
            const struct request_time *t = &l->loader[i].times[k];
            if (t->end < from || t->begin > to)
                continue;
            out->requests += t->end <= to;
            if (is_stalled(l, t->begin, t->end))
                continue;
            if (t->end - t->begin > longest)
                longest = t->end - t->begin;
            if (t->end <= to)
                histogram_record(&h, t->end - t->begin);
        }
    out->longest_ms = ms(longest);
    out->gap_ms = ms(longest_gap(l, from, to));
    out->machine_ms = (double)stalls_longest(&l->stalls, l->start_us + from, l->start_us + to) / 1000;
    out->quantile_ms = (double)histogram_quantile(&h, 0.99) / 1000;
}
