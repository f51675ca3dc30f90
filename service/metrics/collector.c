/* SPDX-License-Identifier: MIT */
/* The happy path is: a scrape asks, Redis replies within milliseconds, the scrape is notified and writes.
 * Possible failure modes are: Redis is away or hangs (filters are reported unreachable after about
 * COLLECT_US; the scrape has written the previous samples); there is too much to collect within COLLECT_US
 * (the remaining filters keep their previous status and come first next time); no memory (the previous
 * samples stay). */
#include "service/metrics/collector.h"

#include <pthread.h>
#include <stdlib.h>
#include "base/clock.h"
#include "service/metrics/metrics_internal.h"

enum { FRESH_US = 1000 * 1000, COLLECT_US = 5 * 1000 * 1000 };

struct collector {
    struct admin_threads *threads;
    uint64_t asked_us; /* when Redis was last asked; 0: never */
    struct statuses statuses;
    double reached_at; /* when Redis last replied, Unix time in seconds; 0: never */
    pthread_mutex_t lock;
    struct samples kept; /* guarded by the lock; all else belongs to the admin thread */
};

/* --- data from Redis --- */

static void collect(struct collector *c, struct admin *a)
{
    SCOPED(samples_fini) struct samples fresh = {0};
    uint64_t deadline_us = clock_mono_us() + COLLECT_US;
    bool reached = metrics_of_filters(a, &fresh, &c->statuses, deadline_us);
    metrics_of_memory(a, &fresh, deadline_us);
    if (reached)
        c->reached_at = (double)clock_wall_us() / 1e6;
    sample(&fresh, METRIC_OF_STATUS_TIMESTAMP, NULL, c->reached_at);
    HOLD(&c->lock);
    struct samples old = c->kept;
    c->kept = fresh;
    fresh = old;
    c->asked_us = clock_mono_us();
}

/* --- waiting scrapes --- */

/* An admin_fn; call->cursor: when it was asked for. */
static enum err take_ask(struct admin *a, struct admin_call *call, struct reply *r UNUSED,
                         struct error *e UNUSED)
{
    struct collector *c = call->subject;
    bool fresh =
        c->asked_us != 0 && (c->asked_us >= call->cursor || clock_mono_us() - c->asked_us < FRESH_US);
    if (!fresh && !atomic_load(&a->service->stop))
        collect(c, a);
    return ERR_OK;
}

enum err collector_ask(struct collector *c, struct mailbox *back, mailbox_fn *done, void *asker)
{
    struct admin_call *call = admin_call_new(take_ask, NULL, 0);
    if (call == NULL)
        return ERR_NOMEM;
    call->asker = asker;
    call->subject = c;
    call->cursor = clock_mono_us();
    admin_post_to(c->threads->metrics, call, back, done);
    return ERR_OK;
}

void collector_write(struct collector *c, struct buffer *out, enum exposition format, size_t connections)
{
    SCOPED(samples_fini) struct samples now = {0};
    struct service *s = c->threads->service;
    metrics_of_requests(&s->meters, &now);
    sample_count(&now, METRIC_OF_HTTP_CONNECTIONS, NULL, connections);
    metrics_of_nodes(s, &now);
    metrics_of_process(s, &now);
    HOLD(&c->lock);
    const struct samples *const parts[] = {&now, &c->kept};
    samples_write(out, format, parts, 2);
}

/* --- its life --- */

struct collector *collector_new(struct admin_threads *threads)
{
    struct collector *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return NULL;
    c->threads = threads;
    (void)pthread_mutex_init(&c->lock, NULL);
    sample_count(&c->kept, METRIC_OF_STATUS_TIMESTAMP, NULL, 0);
    return c;
}

void collector_free(struct collector *c)
{
    if (c == NULL)
        return;
    samples_fini(&c->kept);
    statuses_fini(&c->statuses);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}
