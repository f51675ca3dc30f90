/* SPDX-License-Identifier: MIT */
#include "shard/resident/load.h"

#include <stdlib.h>

struct asked {
    struct load_stream *stream;
    struct load_batch batch;
    unsigned awaited; /* replies; 0: it is free */
};

struct load_stream {
    struct load *load;
    struct store *store;
    load_done_fn *done;
    void *arg;
    bool cancelled;
    unsigned window, pieces; /* that may be, and that are under way */
    unsigned under_way;      /* batches */
    struct asked asked[LOAD_WINDOW];
};

static void stream_free(struct load_stream *s)
{
    for (unsigned i = 0; i < LOAD_WINDOW; i++)
        load_batch_fini(&s->asked[i].batch);
    free(s);
}

static void on_reply(void *arg, const redisReply *reply);

/* What cannot be sent has no reply, which fails its shards; so this ends. */
static void ask(struct load_stream *s, struct asked *a)
{
    struct load_batch *b = &a->batch;
    a->awaited = buffer_failed(&b->commands) ? 0
                                             : store_send_together(s->store, b->where, &b->redirect, b->count,
                                                                   b->commands.data, b->end, on_reply, a);
    for (unsigned i = 0; a->awaited == 0 && i < b->count; i++)
        load_take(s->load, b, NULL);
    s->under_way += a->awaited > 0;
    s->pieces += a->awaited > 0 ? b->pieces : 0;
}

static struct asked *free_one(struct load_stream *s)
{
    unsigned at = 0;
    while (s->asked[at].awaited > 0)
        at++;
    return &s->asked[at];
}

/* Fill the window. */
static void pump(struct load_stream *s)
{
    while (s->pieces < s->window) {
        struct asked *a = free_one(s);
        if (!load_next(s->load, s->window - s->pieces, &a->batch))
            break;
        ask(s, a);
    }
    if (s->under_way > 0)
        return;
    load_done_fn *done = s->done;
    void *arg = s->arg;
    stream_free(s);
    done(arg);
}

/* The last reply of a batch. */
static void end(struct load_stream *s, struct asked *a)
{
    s->under_way--;
    s->pieces -= a->batch.pieces;
    if (s->cancelled) {
        if (s->under_way == 0)
            stream_free(s);
        return;
    }
    while (a->batch.taken < a->batch.count) /* of what memory did not suffice for */
        load_take(s->load, &a->batch, NULL);
    if (load_again(s->load, &a->batch))
        ask(s, a);
    pump(s);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct asked *a = arg;
    struct load_stream *s = a->stream;
    if (!s->cancelled)
        load_take(s->load, &a->batch, reply);
    if (--a->awaited == 0)
        end(s, a);
}

bool load_stream_start(struct load_stream **out, struct load *l, struct store *store, unsigned window,
                       load_done_fn *done, void *arg)
{
    struct load_stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return false;
    *out = s;
    s->load = l;
    s->store = store;
    s->done = done;
    s->arg = arg;
    s->window = window < LOAD_WINDOW ? window : LOAD_WINDOW;
    for (unsigned i = 0; i < LOAD_WINDOW; i++)
        s->asked[i].stream = s;
    pump(s);
    return true;
}

void load_stream_cancel(struct load_stream *s)
{
    s->cancelled = true;
    if (s->under_way == 0)
        stream_free(s);
}
