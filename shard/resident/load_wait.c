/* SPDX-License-Identifier: MIT */
/* Loading beside requests: one piece is asked for when the process's rate allows another one; if the node is
 * far, one more is under way. So a request to the same server waits for one piece at most. The thread that
 * asks and copies yields to all others of the machine, as long as it makes progress at all. */
#include "shard/resident/load.h"

#include <assert.h>
#include "base/background.h"
#include "base/clock.h"

enum { WINDOW = 2 /* pieces under way */ };

/* Pieces under way, in the order in which they were asked for. Replies of one node come in that order. */
struct queue {
    struct load_piece room[WINDOW];
    struct load_piece *piece[WINDOW]; /* those under way, then those that are free */
    bool sent[WINDOW];
    unsigned count;
};

static void push(struct queue *q, struct sync_client *redis)
{
    assert(q->count < WINDOW);
    struct load_piece *p = q->piece[q->count];
    q->sent[q->count++] =
        !buffer_failed(&p->commands) && sync_client_append_together(redis, p->where, &p->redirect, p->count,
                                                                    p->commands.data, p->end, NULL) == ERR_OK;
}

static struct load_piece *pop(struct queue *q)
{
    struct load_piece *p = q->piece[0];
    q->count--;
    for (unsigned i = 0; i < q->count; i++) {
        q->piece[i] = q->piece[i + 1];
        q->sent[i] = q->sent[i + 1];
    }
    q->piece[q->count] = p;
    return p;
}

static void take_first(struct queue *q, struct load *l, struct sync_client *redis)
{
    bool sent = q->sent[0];
    struct load_piece *p = pop(q);
    for (unsigned i = 0; i < p->count; i++) {
        redisReply *reply = NULL;
        if (sent && sync_client_reply(redis, p->where, &reply, NULL) != ERR_OK)
            reply = NULL;
        load_take(l, p, reply);
        freeReplyObject(reply);
    }
    if (load_again(l, p))
        push(q, redis);
}

static void wait_for(const struct load *l, const struct load_piece *p)
{
    uint64_t now = clock_mono_us(), at = budget_load_at(l->resident->budget, now, p->length);
    if (at > now)
        clock_sleep_us(at - now);
}

/* Load until no piece is left to ask for, or until @until (monotonic us). Wait for what is under way. */
static void carry(struct load *l, struct sync_client *redis, uint64_t until)
{
    struct queue q = {.count = 0};
    for (unsigned i = 0; i < WINDOW; i++)
        q.piece[i] = &q.room[i];
    do {
        while (q.count < WINDOW && clock_mono_us() < until && load_next(l, q.piece[q.count])) {
            wait_for(l, q.piece[q.count]);
            push(&q, redis);
        }
        if (q.count > 0)
            take_first(&q, l, redis);
    } while (q.count > 0);
    for (unsigned i = 0; i < WINDOW; i++)
        load_piece_fini(&q.room[i]);
}

struct carrier {
    struct load *load;
    struct sync_client *redis;
};

static void run(void *arg, uint64_t until)
{
    const struct carrier *c = arg;
    carry(c->load, c->redis, until);
}

void load_and_wait(struct load *l, struct sync_client *redis)
{
    uint64_t bytes = (uint64_t)l->count * l->resident->layer[l->layer]->shard_bytes;
    if (bytes > BITMAP_FEW_BYTES)
        background_run(run, &(struct carrier){.load = l, .redis = redis},
                       clock_mono_us() + bytes / BITMAP_LOAD_RATE);
    else
        carry(l, redis, UINT64_MAX);
}
