/* SPDX-License-Identifier: MIT */
/* A worker's requests: their deadlines, and their callbacks, which run in the worker's thread. Any thread may
 * hand a reader to a port; the port's thread then goes on with it, over its own client. */
#include "shard/log/lane_internal.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"

enum { TICK_MS = 10 };

/* --- from any thread --- */

void lane_port_run(struct lane_port *p, struct lane_reader *r, uint64_t not_before,
                   const struct lane_port *self)
{
    (void)pthread_mutex_lock(&p->lock);
    r->not_before = not_before;
    TAILQ_INSERT_TAIL(&p->ready, r, run);
    worker_queue_wake(&p->ended, p == self); /* under the lock, so that the port is not freed meanwhile */
    (void)pthread_mutex_unlock(&p->lock);
}

void lane_port_run_soon(struct lane_port *p, struct lane_reader *r)
{
    if (r->is_soon)
        return;
    r->is_soon = true;
    TAILQ_INSERT_TAIL(&p->soon, r, next);
    if (event_add(p->next_round, &(struct timeval){0}) != 0)
        event_active(p->next_round, EV_TIMEOUT, 0); /* no memory: in this round */
}

void lane_port_forget_soon(struct lane_port *p, struct lane_reader *r)
{
    if (r->is_soon)
        TAILQ_REMOVE(&p->soon, r, next);
    r->is_soon = false;
}

void lane_port_tell(struct lane_port *p, struct lane_request *q, const struct lane_port *self)
{
    worker_queue_put(&p->ended, &q->ended, q, p == self);
}

/* --- requests --- */

static void tick(struct lane_port *p)
{
    if (p->ticks)
        return;
    p->ticks = event_add(p->tick, &(struct timeval){.tv_usec = TICK_MS * 1000}) == 0;
    if (!p->ticks) /* no memory: check deadlines all the same */
        event_active(p->tick, EV_TIMEOUT, 0);
}

static void begin(struct lane_port *p, struct lane_reader *r, struct lane_request *q)
{
    q->port = p;
    q->reader = r;
    q->state = REQUEST_QUEUED;
    q->deadline = p->timeout_us == UINT64_MAX ? UINT64_MAX : clock_mono_us() + p->timeout_us;
    tick(p);
    TAILQ_INSERT_TAIL(&p->active, q, active);
    (void)pthread_mutex_lock(&r->lock);
    q->where = r->lane.where;
    q->breaks = r->breaks;
    if (r->over == ERR_OK) {
        TAILQ_INSERT_TAIL(&r->queue, q, list);
        lane_reader_wake(r, p);
    } else {
        lane_reader_refuse(r, q);
        lane_port_tell(p, q, p);
    }
    (void)pthread_mutex_unlock(&r->lock);
}

void lane_ask(struct lane_port *p, struct lane_reader *r, struct lane_request *q, lane_done_fn *done,
              void *arg)
{
    *q = (struct lane_request){.done = done, .arg = arg};
    begin(p, r, q);
}

void lane_add(struct lane_port *p, struct lane_reader *r, struct lane_request *q, const struct key_hash *keys,
              unsigned count, uint8_t *fresh, uint64_t term, lane_done_fn *done, void *arg)
{
    assert(count > 0 && count <= LANE_REQUEST_KEYS_MAX);
    *q = (struct lane_request){
        .keys = keys, .count = count, .fresh = fresh, .term = term, .done = done, .arg = arg};
    begin(p, r, q);
}

/* Take @q back from its reader. False: it has ended, and its callback is due. */
static bool take_back(struct lane_request *q)
{
    struct lane_reader *r = q->reader;
    (void)pthread_mutex_lock(&r->lock);
    bool has_ended = q->state == REQUEST_ENDED;
    if (!has_ended)
        TAILQ_REMOVE(q->state == REQUEST_QUEUED ? &r->queue : &q->turn->requests, q, list);
    (void)pthread_mutex_unlock(&r->lock);
    return !has_ended;
}

void lane_cancel(struct lane_request *q)
{
    struct lane_port *p = q->port;
    TAILQ_REMOVE(&p->active, q, active);
    if (!take_back(q))
        worker_queue_remove(&p->ended, &q->ended);
}

/* --- the port's own thread --- */

static void tell(struct lane_port *p, struct lane_request *q)
{
    const struct lane_result result = {.code = q->code, .text = q->text};
    TAILQ_REMOVE(&p->active, q, active);
    q->done(q->arg, &result);
}

static struct lane_reader *pop_ready(struct lane_port *p, uint64_t now)
{
    struct lane_reader *r;
    (void)pthread_mutex_lock(&p->lock);
    TAILQ_FOREACH(r, &p->ready, run)
    if (r->not_before <= now)
        break;
    if (r != NULL)
        TAILQ_REMOVE(&p->ready, r, run);
    (void)pthread_mutex_unlock(&p->lock);
    return r;
}

static void expire(struct lane_port *p, uint64_t now)
{
    struct lane_request *q, *next;
    for (q = TAILQ_FIRST(&p->active); q != NULL && q->deadline <= now; q = next) {
        next = TAILQ_NEXT(q, active);
        if (!take_back(q))
            continue;
        const char *why = async_client_why(p->async, q->where);
        q->code = why[0] != '\0' ? ERR_UNREACHABLE : ERR_TIMEOUT;
        (void)snprintf(q->text, sizeof(q->text), "Redis node %s: %s", async_client_name(p->async, q->where),
                       why[0] != '\0' ? why : "the lane was not read within the deadline");
        tell(p, q);
        next = TAILQ_FIRST(&p->active); /* the callback may have cancelled the next one */
    }
}

static void tick_while_needed(struct lane_port *p, bool late)
{
    (void)pthread_mutex_lock(&p->lock);
    bool needed = !TAILQ_EMPTY(&p->active) || !TAILQ_EMPTY(&p->ready);
    (void)pthread_mutex_unlock(&p->lock);
    if (needed) {
        tick(p);
    } else if (late) {
        (void)event_del(p->tick);
        p->ticks = false;
    }
}

static void work(struct lane_port *p, bool late)
{
    struct lane_request *q;
    struct lane_reader *r;
    while ((q = worker_queue_take(&p->ended)) != NULL)
        tell(p, q);
    if (late)
        expire(p, clock_mono_us());
    while ((r = pop_ready(p, clock_mono_us())) != NULL)
        lane_reader_go_on(r, p);
    tick_while_needed(p, late);
}

static void on_wake(void *arg)
{
    work(arg, false);
}

static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    work(arg, true);
}

static void on_next_round(evutil_socket_t fd, short events, void *arg)
{
    struct lane_port *p = arg;
    struct lane_reader *r;
    (void)fd;
    (void)events;
    while ((r = TAILQ_FIRST(&p->soon)) != NULL) {
        lane_port_forget_soon(p, r);
        if (atomic_load(&r->runner) == p)
            lane_reader_go_ahead(r, p);
        else
            lane_reader_go_on(r, p);
    }
}

/* --- a port --- */

struct lane_port *lane_port_new(struct event_base *base, struct async_client *async, unsigned timeout_ms)
{
    struct lane_port *p = calloc(1, sizeof(*p));
    if (p == NULL || pthread_mutex_init(&p->lock, NULL) != 0) {
        free(p);
        return NULL;
    }
    p->base = base;
    p->async = async;
    p->timeout_us = timeout_ms == UINT_MAX ? UINT64_MAX : (uint64_t)timeout_ms * 1000;
    TAILQ_INIT(&p->active);
    TAILQ_INIT(&p->waiting);
    TAILQ_INIT(&p->soon);
    TAILQ_INIT(&p->ready);
    bool has_queue = worker_queue_init(&p->ended, base, on_wake, p);
    p->tick = event_new(base, -1, EV_PERSIST, on_tick, p);
    p->next_round = event_new(base, -1, 0, on_next_round, p);
    if (!has_queue || p->tick == NULL || p->next_round == NULL) {
        lane_port_free(p);
        return NULL;
    }
    return p;
}

static void hand_over(struct lane_port *p)
{
    struct lane_reader *r;
    while ((r = pop_ready(p, UINT64_MAX)) != NULL)
        lane_reader_leave(r, p);
    while ((r = TAILQ_FIRST(&p->soon)) != NULL) {
        lane_port_forget_soon(p, r);
        if (atomic_load(&r->runner) != p)
            lane_reader_leave(r, p);
    }
    while ((r = TAILQ_FIRST(&p->waiting)) != NULL)
        lane_reader_leave(r, p);
}

void lane_port_rest(struct lane_port *p)
{
    hand_over(p);
    async_client_rest(p->async);
}

void lane_port_free(struct lane_port *p)
{
    struct lane_request *q;
    if (p == NULL)
        return;
    while ((q = worker_queue_take(&p->ended)) != NULL)
        tell(p, q);
    TAILQ_FOREACH(q, &p->active, active)
    if (take_back(q)) /* first take all requests back, before a reader looks for another port */
        q->state = REQUEST_ENDED;
    hand_over(p);
    while ((q = TAILQ_FIRST(&p->active)) != NULL) {
        q->code = ERR_CANCELLED;
        (void)snprintf(q->text, sizeof(q->text), "the worker ends");
        tell(p, q);
    }
    if (p->tick != NULL)
        event_free(p->tick);
    if (p->next_round != NULL)
        event_free(p->next_round);
    worker_queue_fini(&p->ended);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}
