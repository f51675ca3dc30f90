/* SPDX-License-Identifier: MIT */
#include "tests/lib/log_member.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "shard/generations/make.h"
#include "shard/control/control_internal.h"

enum {
    TEND_MS = 20,
    KEY_TEXT = 24,
    LEAVES_MAX = 250,
    FOLD_US = 20000,
    LOOK_US = 20000,
    WAIT_MAX_US = 60 * 1000 * 1000
};

enum err log_member_make(struct sync_client *l, struct names *names, uint64_t capacity, unsigned lanes,
                         uint32_t shard_bytes, struct error *e)
{
    struct placement placement;
    struct log_view *v = malloc(sizeof(*v));
    struct make_options o = {.capacity = capacity,
                             .expansion = 2,
                             .error_rate = 0.0001,
                             .lanes = lanes,
                             .placement = &placement,
                             .shard_bytes = shard_bytes};
    enum err code = v == NULL ? ERR_NOMEM : placement_choose(&placement, sync_client_nodes(l), "", e);
    if (code == ERR_OK)
        code = log_make(l, names, &o, v, NULL, e);
    free(v);
    return code;
}

/* --- a member --- */

static void on_wake(void *arg)
{
    struct log_member *m = arg;
    (void)pthread_mutex_lock(&m->lock);
    m->woken = true;
    (void)pthread_cond_broadcast(&m->wake);
    (void)pthread_mutex_unlock(&m->lock);
}

/* Convert @mono_us to the clock of condition variables. */
static struct timespec time_of(uint64_t mono_us)
{
    struct timespec t;
    uint64_t now = clock_mono_us(), wait = mono_us > now ? mono_us - now : 0;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    wait = wait < WAIT_MAX_US ? wait : WAIT_MAX_US;
    t.tv_sec += (time_t)(wait / 1000000);
    t.tv_nsec += (long)(wait % 1000000) * 1000;
    t.tv_sec += t.tv_nsec / 1000000000L;
    t.tv_nsec %= 1000000000L;
    return t;
}

/* False: the thread must end. */
static bool wait_for_work(struct log_member *m)
{
    struct timespec until = time_of(m->next);
    (void)pthread_mutex_lock(&m->lock);
    while (!m->stops && (m->pauses || !m->woken)) {
        m->paused = m->pauses;
        (void)pthread_cond_broadcast(&m->wake);
        if (m->pauses)
            (void)pthread_cond_wait(&m->wake, &m->lock);
        else if (pthread_cond_timedwait(&m->wake, &m->lock, &until) != 0)
            break;
    }
    m->woken = m->paused = false;
    bool goes_on = !m->stops;
    (void)pthread_mutex_unlock(&m->lock);
    return goes_on;
}

static void *control(void *arg)
{
    struct log_member *m = arg;
    while (wait_for_work(m)) {
        struct error e = {""};
        enum err code = control_tend(m->control, &m->next, &e);
        (void)pthread_mutex_lock(&m->lock);
        m->last = e;
        m->failing = code;
        (void)pthread_mutex_unlock(&m->lock);
    }
    return NULL;
}

static void on_task(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    mailbox_run(arg);
}

static void *work(void *arg)
{
    struct log_member *m = arg;
    (void)event_base_dispatch(m->base);
    return NULL;
}

static void end_work(void *arg)
{
    struct log_member *m = arg;
    request_port_free(m->port);
    async_client_free(m->store);
    (void)event_base_loopbreak(m->base);
}

enum err log_member_open(struct log_member *m, const struct log_member_options *o, struct error *e)
{
    struct names names = *o->names;
    *m = (struct log_member){.woken = true};
    names.incarnation = 0;
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->wake, NULL);
    budget_init(&m->budget, o->memory);
    m->link = sync_client_new(o->nodes, o->timeout_ms, o->sync_client_name);
    m->base = event_base_new();
    m->mailbox = mailbox_new();
    if (m->link == NULL || m->base == NULL || m->mailbox == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    m->letters = event_new(m->base, mailbox_fd(m->mailbox), EV_READ | EV_PERSIST, on_task, m->mailbox);
    m->store = async_client_new(m->base, o->nodes, o->timeout_ms, NULL);
    m->filter = log_filter_new(&names, o->nodes, &m->budget, on_wake, m);
    if (m->store != NULL)
        m->port = request_port_new(m->base, m->store, o->timeout_ms);
    m->controls = control_thread_new(o->nodes, o->timeout_ms);
    if (m->letters == NULL || m->controls == NULL || m->port == NULL || m->filter == NULL ||
        event_add(m->letters, NULL) != 0)
        return error_set(e, ERR_NOMEM, "out of memory");
    const struct control_options options = {
        .filter = m->filter,
        .redis = m->link,
        .thread = m->controls,
        .timeout_ms = o->timeout_ms,
        .folds = o->folds,
        .owner = o->owner,
        .log_max = o->log_max,
        .lease_ms = o->lease_ms,
        .look_interval_us = o->look_interval_us != 0 ? o->look_interval_us : LOOK_US,
        .fold_interval_us = o->fold_interval_us != 0 ? o->fold_interval_us : FOLD_US,
        .retain_us = o->retain_us,
        .writer_grace_us = o->writer_grace_us};
    enum err code = control_new(&m->control, &options, e);
    if (code == ERR_OK &&
        (pthread_create(&m->thread, NULL, control, m) != 0 || pthread_create(&m->worker, NULL, work, m) != 0))
        code = error_set(e, ERR_NOMEM, "no thread");
    return code;
}

static void release(struct log_member *m)
{
    control_free(m->control);
    control_thread_free(m->controls);
    while (mailbox_post(m->mailbox, end_work, m) != ERR_OK)
        clock_sleep_us(1000);
    (void)pthread_join(m->worker, NULL);
    event_free(m->letters);
    mailbox_free(m->mailbox);
    event_base_free(m->base);
    while (!log_filter_free(m->filter))
        clock_sleep_us(1000);
    sync_client_free(m->link);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->lock);
}

static void stop_control(struct log_member *m)
{
    (void)pthread_mutex_lock(&m->lock);
    m->stops = true;
    (void)pthread_cond_broadcast(&m->wake);
    (void)pthread_mutex_unlock(&m->lock);
    (void)pthread_join(m->thread, NULL);
}

void log_member_close(struct log_member *m)
{
    stop_control(m);
    enum err code = control_leave(m->control, &m->last);
    for (unsigned i = 0; i < LEAVES_MAX && code != ERR_OK && code != ERR_NOT_FOUND; i++) {
        clock_sleep_us(TEND_MS * 1000);
        code = control_leave(m->control, &m->last);
    }
    release(m);
}

void log_member_abandon(struct log_member *m)
{
    stop_control(m);
    release(m);
}

void log_member_pause(struct log_member *m)
{
    (void)pthread_mutex_lock(&m->lock);
    m->pauses = true;
    (void)pthread_cond_broadcast(&m->wake);
    while (!m->paused)
        (void)pthread_cond_wait(&m->wake, &m->lock);
    (void)pthread_mutex_unlock(&m->lock);
}

void log_member_go_on(struct log_member *m)
{
    (void)pthread_mutex_lock(&m->lock);
    m->pauses = false;
    m->woken = true;
    (void)pthread_cond_broadcast(&m->wake);
    (void)pthread_mutex_unlock(&m->lock);
}

void log_set_folding(struct control *c, bool folds)
{
    c->folds = folds;
}

void log_set_look_interval(struct control *c, uint64_t us)
{
    c->look_interval_us = us;
}

/* --- requests --- */

struct asked {
    struct log_member *member;
    struct key_request request;
    struct request_key *keys;
    uint8_t *answers;
    unsigned count;
    bool adds, told;
    enum err code;
    struct error *e;
};

static void on_done(void *arg, enum err code, const char *text)
{
    struct asked *a = arg;
    struct log_member *m = a->member;
    (void)pthread_mutex_lock(&m->lock);
    a->code = code == ERR_OK ? ERR_OK : error_set(a->e, code, "%s", text);
    a->told = true;
    (void)pthread_cond_broadcast(&m->wake);
    (void)pthread_mutex_unlock(&m->lock);
}

static void ask(void *arg)
{
    struct asked *a = arg;
    struct log_member *m = a->member;
    if (a->adds)
        key_add(m->port, m->filter, &a->request, a->keys, a->count, a->answers, NULL, on_done, a);
    else if (key_check(m->port, m->filter, &a->request, a->keys, a->count, a->answers, on_done, a))
        on_done(a, ERR_OK, "");
}

enum err log_member_ask(struct log_member *m, bool adds, const uint64_t *keys, unsigned count,
                        uint8_t *answers, struct error *e)
{
    char(*texts)[KEY_TEXT] = calloc(count, sizeof(*texts));
    struct request_key *named = calloc(count, sizeof(*named));
    struct asked a = {.member = m, .keys = named, .answers = answers, .count = count, .adds = adds, .e = e};
    for (unsigned i = 0; i < count; i++) {
        named[i].bytes = texts[i];
        named[i].length = (size_t)snprintf(texts[i], KEY_TEXT, "%" PRIu64, keys[i]);
    }
    enum err posted = mailbox_post(m->mailbox, ask, &a);
    if (posted != ERR_OK) { /* the task was not taken over */
        a.code = posted;
        a.told = true;
    }
    (void)pthread_mutex_lock(&m->lock);
    while (!a.told)
        (void)pthread_cond_wait(&m->wake, &m->lock);
    (void)pthread_mutex_unlock(&m->lock);
    free(named);
    free(texts);
    return posted == ERR_OK ? a.code : posted;
}
