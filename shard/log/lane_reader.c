/* SPDX-License-Identifier: MIT */
/* A reader's interface: make, move, stop, end. */
#include "shard/log/lane_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lane_reader *lane_reader_new(const struct lane *lane, const struct log_position *at,
                                    const uint8_t writer[LOG_WRITER_BYTES],
                                    const struct lane_reader_hooks *hooks, void *arg)
{
    struct lane_reader *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    (void)pthread_mutex_init(&r->lock, NULL); /* neither call can fail, as it sets no attributes */
    (void)pthread_mutex_init(&r->applying, NULL);
    TAILQ_INIT(&r->queue);
    for (unsigned i = 0; i < 2; i++)
        TAILQ_INIT(&r->turns[i].requests);
    r->turn = &r->turns[0];
    r->ahead = &r->turns[1];
    r->lane = *lane;
    r->at = *at;
    memcpy(r->writer, writer, LOG_WRITER_BYTES);
    r->sequence = 1; /* 0 is the sequence of notices */
    r->hooks = *hooks;
    r->arg = arg;
    return r;
}

void lane_reader_keep(struct lane_reader *r, struct own *own)
{
    r->own = own;
}

bool lane_reader_free(struct lane_reader *r)
{
    if (pthread_mutex_trylock(&r->applying) != 0)
        return false;
    (void)pthread_mutex_lock(&r->lock);
    bool busy = r->busy;
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_mutex_unlock(&r->applying);
    if (busy)
        return false;
    (void)pthread_mutex_destroy(&r->applying);
    (void)pthread_mutex_destroy(&r->lock);
    for (unsigned i = 0; i < 2; i++) {
        lane_round_free(r->turns[i].round);
        lane_turn_give_back(&r->turns[i]);
    }
    free(r);
    return true;
}

static void go_on_from(struct lane_reader *r, const struct lane *lane, const struct log_position *at,
                       bool breaks)
{
    (void)pthread_mutex_lock(&r->lock);
    r->next_lane = *lane;
    r->next_at = *at;
    r->moved = true;
    r->breaks += breaks;
    r->stopped = false;
    r->over = ERR_OK;
    lane_reader_wake(r, NULL);
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_reader_move(struct lane_reader *r, const struct lane *lane, const struct log_position *at)
{
    go_on_from(r, lane, at, true);
}

void lane_reader_go_back(struct lane_reader *r, const struct lane *lane, const struct log_position *at)
{
    go_on_from(r, lane, at, false);
}

void lane_reader_stop(struct lane_reader *r)
{
    (void)pthread_mutex_lock(&r->applying);
    (void)pthread_mutex_lock(&r->lock);
    r->stopped = true;
    (void)pthread_mutex_unlock(&r->lock);
    (void)pthread_mutex_unlock(&r->applying);
}

void lane_reader_wake(struct lane_reader *r, struct lane_port *self)
{
    const struct lane_request *q = TAILQ_FIRST(&r->turn->requests);
    if (q == NULL)
        q = TAILQ_FIRST(&r->ahead->requests);
    if (q == NULL)
        q = TAILQ_FIRST(&r->queue);
    if (q == NULL || r->stopped)
        return;
    if (r->busy && self != NULL && atomic_load(&r->runner) == self && !r->ahead->has_begun)
        lane_port_run_soon(self, r);
    if (r->busy)
        return;
    r->busy = true;
    lane_port_run(q->port, r, 0, self);
}

void lane_reader_refuse(struct lane_reader *r, struct lane_request *q)
{
    q->code = r->over;
    (void)snprintf(q->text, sizeof(q->text), "%s", r->why_over);
    q->state = REQUEST_ENDED;
}

static void refuse_all(struct lane_reader *r, struct lane_requests *list)
{
    struct lane_request *q;
    while ((q = TAILQ_FIRST(list)) != NULL) {
        TAILQ_REMOVE(list, q, list);
        lane_reader_refuse(r, q);
        lane_port_tell(q->port, q, NULL);
    }
}

void lane_reader_end(struct lane_reader *r, enum err code, const char *text)
{
    (void)pthread_mutex_lock(&r->lock);
    r->stopped = true;
    r->over = code;
    (void)snprintf(r->why_over, sizeof(r->why_over), "%s", text);
    refuse_all(r, &r->turn->requests);
    refuse_all(r, &r->ahead->requests);
    refuse_all(r, &r->queue);
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_reader_hold(struct lane_reader *r, struct log_position *out)
{
    (void)pthread_mutex_lock(&r->applying);
    (void)pthread_mutex_lock(&r->lock);
    *out = r->moved ? r->next_at : r->at;
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_reader_let_go(struct lane_reader *r)
{
    (void)pthread_mutex_unlock(&r->applying);
}

bool lane_reader_lane(struct lane_reader *r, struct lane *out)
{
    (void)pthread_mutex_lock(&r->lock);
    bool reads = !r->stopped;
    *out = r->moved ? r->next_lane : r->lane;
    (void)pthread_mutex_unlock(&r->lock);
    return reads;
}

void lane_reader_position(struct lane_reader *r, struct log_position *out)
{
    lane_reader_hold(r, out);
    lane_reader_let_go(r);
}
