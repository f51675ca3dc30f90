/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "shard/redis/nodes/health.h"
#include "shard/request/log_filter_state.h"

enum { TICK_MS = 10, ROOM_BYTES = 1024 /* for a few keys, and one or two lanes */ };

void request_port_hand(struct request_port *p, struct key_request *q, const struct request_port *self)
{
    worker_queue_put(&p->ready, &q->ready, q, p == self);
}

static void tick(struct request_port *p)
{
    if (p->ticks)
        return;
    p->ticks = event_add(p->tick, &(struct timeval){.tv_usec = TICK_MS * 1000}) == 0;
    if (!p->ticks) /* no memory: check deadlines all the same */
        event_active(p->tick, EV_TIMEOUT, 0);
}

void request_port_begin(struct request_port *p, struct key_request *q)
{
    q->port = p;
    uint64_t now = p->now != 0 ? p->now : clock_mono_us();
    p->now = 0;
    q->deadline = now + p->timeout_us;
    tick(p);
    struct key_request *before = TAILQ_LAST(&p->active, key_requests);
    while (before != NULL && before->deadline > q->deadline)
        before = TAILQ_PREV(before, key_requests, active);
    if (before != NULL)
        TAILQ_INSERT_AFTER(&p->active, before, q, active);
    else
        TAILQ_INSERT_HEAD(&p->active, q, active);
}

void request_port_slow(struct request_port *p, struct key_request *q)
{
    key_request_set(q, REQUEST_SLOWED);
    q->was_delayed = true;
    TAILQ_INSERT_TAIL(&p->slowed, q, parked);
}

static void on_wake(void *arg)
{
    struct request_port *p = arg;
    struct key_request *q;
    while ((q = worker_queue_take(&p->ready)) != NULL)
        key_request_go_on(q);
}

/* What follows the reason of a timeout. A check has nothing to acknowledge. */
static const char *no_acks(const struct key_request *q)
{
    return q->adds ? "; nothing was acknowledged" : "";
}

static enum err node_reason(const struct key_request *q, const char *node, const char *why, char text[200])
{
    if (why[0] == '\0') {
        (void)snprintf(text, 200, "Redis node %.80s did not answer within the deadline%s", node, no_acks(q));
        return ERR_TIMEOUT;
    }
    size_t others = sizeof("Redis node  is not reachable ()") + strnlen(node, 80) + strlen(no_acks(q));
    (void)snprintf(text, 200, "Redis node %.80s is not reachable (%.*s)%s", node, (int)(200 - others), why,
                   no_acks(q));
    return ERR_UNREACHABLE;
}

/* The lane waits for the view, which the control may be unable to read. */
static bool control_fails(const struct key_request *q, char text[200])
{
    struct log_filter *f = q->filter;
    (void)pthread_rwlock_rdlock(&f->lock);
    bool fails = f->state == FILTER_OPEN && f->why[0] != '\0';
    if (fails)
        (void)snprintf(text, 200, "timed out: %.150s%s", f->why, no_acks(q));
    (void)pthread_rwlock_unlock(&f->lock);
    return fails;
}

/* What the request waits for, as far as that is known. */
static enum err reason(const struct request_port *p, const struct key_request *q, char text[200])
{
    const char *node, *why;
    unsigned where;
    bool is_read, awaits_lane = key_request_awaits_lane(q, &where, &is_read);
    why = awaits_lane ? async_client_why(p->async, where) : "";
    if (awaits_lane && (why[0] != '\0' || is_read || !control_fails(q, text)))
        return node_reason(q, async_client_name(p->async, where), why, text);
    if (awaits_lane)
        return ERR_TIMEOUT;
    if (async_client_any_down(p->async, &node, &why))
        return node_reason(q, node, why, text);
    struct node_health_figures f;
    for (unsigned i = 0; q->state == REQUEST_PARKED && node_health_read(async_client_nodes(p->async), i, &f);
         i++)
        if (node_health_is_down(&f)) /* for other threads, which load the filter */
            return node_reason(q, f.name, f.error, text);
    if (q->waits_for_fold) {
        (void)snprintf(
            text, 200,
            "the filter's log is written faster than it is folded into the shards: add again later%s",
            no_acks(q));
        return ERR_NOMEM;
    }
    (void)pthread_rwlock_rdlock(&q->filter->lock);
    const char *parked = q->text[0] != '\0'          ? q->text
                         : q->filter->why[0] != '\0' ? q->filter->why
                                                     : "the filter was not ready in time";
    (void)snprintf(text, 200, "timed out: %.150s%s",
                   q->state == REQUEST_PARKED ? parked : "shards were not read within the deadline",
                   no_acks(q));
    (void)pthread_rwlock_unlock(&q->filter->lock);
    return ERR_TIMEOUT;
}

static void expire(struct request_port *p, struct key_request *q)
{
    char text[200];
    if (q->state == REQUEST_UNACKED) {
        (void)snprintf(text, sizeof(text),
                       "%.110s; the add is not acknowledged, though its keys may be in the filter",
                       q->text[0] != '\0' ? q->text : "no acknowledgement of replicas or disks in time");
        key_request_fail(q, q->code != ERR_OK ? q->code : ERR_TIMEOUT, text);
        return;
    }
    enum err code = reason(p, q, text);
    key_request_fail(q, code, text);
}

static void on_tick(evutil_socket_t fd, short events, void *arg)
{
    struct request_port *p = arg;
    struct key_request *q;
    struct key_requests again;
    uint64_t now = clock_mono_us();
    (void)fd;
    (void)events;
    while ((q = TAILQ_FIRST(&p->active)) != NULL && q->deadline <= now)
        expire(p, q);
    const struct key_request *last = TAILQ_LAST(&p->slowed, key_requests);
    while ((q = TAILQ_FIRST(&p->slowed)) != NULL) {
        bool is_last = q == last;
        TAILQ_REMOVE(&p->slowed, q, parked);
        key_request_go_on(q);
        if (is_last)
            break;
    }
    TAILQ_INIT(&again); /* those that fail meanwhile are asked again at the next tick */
    TAILQ_CONCAT(&again, &p->unacked, parked);
    while ((q = TAILQ_FIRST(&again)) != NULL) {
        TAILQ_REMOVE(&again, q, parked);
        key_request_ask_acks(q);
    }
    if (!TAILQ_EMPTY(&p->active)) {
        tick(p);
        return;
    }
    (void)event_del(p->tick);
    p->ticks = false;
}

struct request_port *request_port_new(struct event_base *base, struct async_client *async,
                                      unsigned timeout_ms)
{
    struct request_port *p = calloc(1, sizeof(*p));
    if (p == NULL)
        return NULL;
    p->base = base;
    p->async = async;
    p->timeout_us = (uint64_t)timeout_ms * 1000;
    p->rooms.size = ROOM_BYTES;
    TAILQ_INIT(&p->active);
    TAILQ_INIT(&p->unacked);
    TAILQ_INIT(&p->slowed);
    p->lanes = lane_port_new(base, async, UINT_MAX); /* the requests have deadlines of their own */
    bool has_queue = worker_queue_init(&p->ready, base, on_wake, p);
    p->tick = event_new(base, -1, EV_PERSIST, on_tick, p);
    if (!has_queue || p->lanes == NULL || p->tick == NULL) {
        request_port_free(p);
        return NULL;
    }
    return p;
}

void request_port_set_timeout(struct request_port *p, uint64_t now, uint64_t timeout_us)
{
    p->now = now;
    p->timeout_us = timeout_us;
}

void request_port_bound(struct request_port *p, uint64_t timeout_us)
{
    struct key_request *q;
    uint64_t latest = clock_mono_us() + timeout_us;
    TAILQ_FOREACH(q, &p->active, active) /* keeps the order of deadlines */
    q->deadline = q->deadline < latest ? q->deadline : latest;
}

void request_port_rest(struct request_port *p)
{
    lane_port_rest(p->lanes);
}

void request_port_free(struct request_port *p)
{
    struct key_request *q;
    if (p == NULL)
        return;
    while ((q = TAILQ_FIRST(&p->active)) != NULL)
        key_request_fail(q, ERR_CANCELLED, "the worker ends");
    lane_port_free(p->lanes);
    if (p->tick != NULL)
        event_free(p->tick);
    worker_queue_fini(&p->ready);
    pool_fini(&p->rooms);
    free(p);
}
