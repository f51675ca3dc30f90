/* SPDX-License-Identifier: MIT */
#include "shard/resident/load.h"

/* Pieces under way, in the order in which they were asked for: replies of one node come in it. */
struct queue {
    struct load_piece piece[LOAD_WINDOW];
    bool sent[LOAD_WINDOW];
    unsigned first, count;
};

static bool ask(struct queue *q, struct load *l, struct link *link, struct buffer *command)
{
    unsigned at = (q->first + q->count) % LOAD_WINDOW;
    buffer_clear(command);
    if (q->count == LOAD_WINDOW || !load_next(l, &q->piece[at], command))
        return false;
    q->sent[at] = !buffer_failed(command) && link_append_formatted(link, q->piece[at].where, command->data,
                                                                   command->length, NULL) == ERR_OK;
    q->count++;
    return true;
}

static void take_first(struct queue *q, struct load *l, struct link *link)
{
    const struct load_piece *piece = &q->piece[q->first];
    redisReply *reply = NULL;
    if (q->sent[q->first] && link_reply(link, piece->where, &reply, NULL) != ERR_OK)
        reply = NULL;
    load_take(l, piece, reply);
    freeReplyObject(reply);
    q->first = (q->first + 1) % LOAD_WINDOW;
    q->count--;
}

void load_by_link(struct load *l, struct link *link)
{
    struct queue q = {.count = 0};
    struct buffer command = {0};
    do {
        while (ask(&q, l, link, &command))
            ;
        if (q.count > 0)
            take_first(&q, l, link);
    } while (q.count > 0);
    buffer_fini(&command);
}
