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
#include "base/log.h"
#include "service/metrics/metrics_internal.h"

enum { FRESH_US = 1000 * 1000, COLLECT_US = 5 * 1000 * 1000, IDLE_MS = 60 * 1000 };

struct collector {
    struct service *service;
    struct mailbox *mailbox;
    struct admin admin; /* for its functions, in this thread */
    atomic_bool stop;
    uint64_t asked_us; /* when Redis was last asked; 0: never */
    struct statuses statuses;
    double reached_at; /* when Redis last replied, Unix time in seconds; 0: never */
    pthread_mutex_t lock;
    struct samples kept; /* guarded by the lock */
    pthread_t thread;
};

/* --- data from Redis --- */

static void collect(struct collector *c)
{
    struct samples fresh = {0};
    struct collection to = {.samples = &fresh,
                            .statuses = &c->statuses,
                            .deadline_us = clock_mono_us() + COLLECT_US,
                            .stop = &c->stop};
    c->admin.config = live_config_acquire(c->service->config);
    metrics_of_filters(&c->admin, &to);
    metrics_of_memory(&c->admin, &to);
    config_release(c->admin.config);
    c->admin.config = NULL;
    if (to.reached)
        c->reached_at = (double)clock_wall_us() / 1e6;
    sample(&fresh, METRIC_OF_STATUS_TIMESTAMP, NULL, c->reached_at);
    (void)pthread_mutex_lock(&c->lock);
    struct samples old = c->kept;
    c->kept = fresh;
    (void)pthread_mutex_unlock(&c->lock);
    samples_fini(&old);
    c->asked_us = clock_mono_us();
}

/* --- waiting scrapes --- */

struct ask {
    struct collector *collector;
    uint64_t at_us;
    struct mailbox *back;
    mailbox_fn *fn;
    void *arg;
};

static void take_ask(void *arg)
{
    struct ask *a = arg;
    struct collector *c = a->collector;
    bool fresh = c->asked_us != 0 && (c->asked_us >= a->at_us || clock_mono_us() - c->asked_us < FRESH_US);
    if (!fresh && !atomic_load(&c->stop))
        collect(c);
    if (mailbox_post(a->back, a->fn, a->arg) != ERR_OK)
        log_error("out_of_memory", "part=metrics note=\"a scrape gets no answer\"");
    free(a);
}

enum err collector_ask(struct collector *c, struct mailbox *back, mailbox_fn *fn, void *arg)
{
    struct ask *a = malloc(sizeof(*a));
    if (a == NULL)
        return ERR_NOMEM;
    *a = (struct ask){.collector = c, .at_us = clock_mono_us(), .back = back, .fn = fn, .arg = arg};
    enum err code = mailbox_post(c->mailbox, take_ask, a);
    if (code != ERR_OK)
        free(a);
    return code;
}

void collector_write(struct collector *c, struct buffer *out, enum exposition format, size_t connections)
{
    struct samples now = {0};
    metrics_of_requests(&c->service->meters, &now);
    sample_count(&now, METRIC_OF_HTTP_CONNECTIONS, NULL, connections);
    metrics_of_nodes(c->service, &now);
    metrics_of_process(c->service, &now);
    (void)pthread_mutex_lock(&c->lock);
    const struct samples *const parts[] = {&now, &c->kept};
    samples_write(out, format, parts, 2);
    (void)pthread_mutex_unlock(&c->lock);
    samples_fini(&now);
}

/* --- the thread --- */

static void *run(void *arg)
{
    struct collector *c = arg;
    while (!atomic_load(&c->stop))
        mailbox_wait(c->mailbox, IDLE_MS);
    mailbox_run(c->mailbox); /* notify scrapes that still wait */
    return NULL;
}

enum err collector_start(struct collector **out, struct admin_threads *threads, struct error *e)
{
    struct service *s = threads->service;
    struct collector *c = calloc(1, sizeof(*c));
    if (c == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    c->service = c->admin.service = s;
    c->admin.threads = threads;
    (void)pthread_mutex_init(&c->lock, NULL);
    c->mailbox = mailbox_new();
    c->admin.redis = sync_client_new(&s->nodes, s->redis_timeout_ms, "twinbloom-metrics");
    c->admin.handle.redis = c->admin.redis;
    sample_count(&c->kept, METRIC_OF_STATUS_TIMESTAMP, NULL, 0);
    if (c->mailbox == NULL || c->admin.redis == NULL || pthread_create(&c->thread, NULL, run, c) != 0) {
        collector_free(c);
        return error_set(e, ERR_NOMEM, "the metrics thread could not be started");
    }
    *out = c;
    return ERR_OK;
}

void collector_stop(struct collector *c)
{
    if (c == NULL)
        return;
    atomic_store(&c->stop, true);
    mailbox_wake(c->mailbox);
    (void)pthread_join(c->thread, NULL);
}

void collector_free(struct collector *c)
{
    if (c == NULL)
        return;
    handle_fini(&c->admin.handle);
    sync_client_free(c->admin.redis);
    mailbox_free(c->mailbox);
    samples_fini(&c->kept);
    statuses_fini(&c->statuses);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}
