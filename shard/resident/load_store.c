/* SPDX-License-Identifier: MIT */
#include "shard/resident/load.h"

#include <stdlib.h>
#include <string.h>

struct asked {
    struct load_stream *stream;
    struct load_piece piece;
    bool under_way;
};

struct load_stream {
    struct load *load;
    struct store *store;
    load_done_fn *done;
    void *arg;
    struct buffer command;
    bool cancelled;
    unsigned window, under_way;
    struct asked asked[];
};

static void stream_free(struct load_stream *s)
{
    buffer_fini(&s->command);
    free(s);
}

static void on_reply(void *arg, const redisReply *reply);

static void ask(struct load_stream *s, struct asked *a)
{
    a->under_way = !buffer_failed(&s->command) &&
                   store_send(s->store, a->piece.where, s->command.data, s->command.length, on_reply, a);
    s->under_way += a->under_way;
    if (!a->under_way)
        load_take(s->load, &a->piece, NULL);
}

/* Fill the window. A piece that cannot be sent fails its shard, so this ends. */
static void pump(struct load_stream *s)
{
    unsigned at = 0;
    while (s->under_way < s->window) {
        while (s->asked[at].under_way)
            at = (at + 1) % s->window;
        buffer_clear(&s->command);
        if (!load_next(s->load, &s->asked[at].piece, &s->command))
            break;
        ask(s, &s->asked[at]);
    }
    if (s->under_way > 0)
        return;
    load_done_fn *done = s->done;
    void *arg = s->arg;
    stream_free(s);
    done(arg);
}

static void on_reply(void *arg, const redisReply *reply)
{
    struct asked *a = arg;
    struct load_stream *s = a->stream;
    a->under_way = false;
    s->under_way--;
    if (!s->cancelled) {
        load_take(s->load, &a->piece, reply);
        pump(s);
    } else if (s->under_way == 0) {
        stream_free(s);
    }
}

bool load_stream_start(struct load_stream **out, struct load *l, struct store *store, unsigned window,
                       load_done_fn *done, void *arg)
{
    struct load_stream *s = calloc(1, sizeof(*s) + window * sizeof(s->asked[0]));
    if (s == NULL)
        return false;
    *out = s;
    s->load = l;
    s->store = store;
    s->done = done;
    s->arg = arg;
    s->window = window;
    for (unsigned i = 0; i < window; i++)
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
