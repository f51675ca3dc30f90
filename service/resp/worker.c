/* SPDX-License-Identifier: MIT */
#include "service/resp/worker.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "service/keys/loop.h"

enum { DRAIN_SECONDS = 5, LATE_MS = 5, MEMORY_STEP = 512 * 1024 };

struct arrival {
    struct worker *worker;
    int fd;
    bool tls;
    char address[64];
};

static void on_tasks(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    mailbox_run(((struct worker *)arg)->mailbox);
}

static void leave_if_drained(struct worker *w)
{
    if (w->draining && w->client_count == 0)
        (void)event_base_loopbreak(w->base);
}

static void take_arrival(void *arg)
{
    struct arrival *a = arg;
    if (a->worker->draining || client_new(a->worker, a->fd, a->address, a->tls) == NULL) {
        (void)close(a->fd);
        worker_client_gone(a->worker);
    }
    free(a);
}

/* As Redis sets them by default. A peer that is gone without a word is noticed within ten minutes, and no
 * firewall between takes an idle connection for a dead one. A unix socket has none of them. */
static void set_options(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1}, /* no reply of a pipeline waits for the one before */
        {SOL_SOCKET, SO_KEEPALIVE, 1},     {IPPROTO_TCP, TCP_KEEPIDLE, 300}, /* seconds */
        {IPPROTO_TCP, TCP_KEEPINTVL, 100}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

void worker_accept(struct worker *w, int fd, const char *address, bool tls)
{
    struct arrival *a = calloc(1, sizeof(*a));
    set_options(fd);
    atomic_fetch_add(&w->client_count, 1);
    if (a != NULL) {
        a->worker = w;
        a->fd = fd;
        a->tls = tls;
        (void)snprintf(a->address, sizeof(a->address), "%s", address);
        if (mailbox_post(w->mailbox, take_arrival, a) == ERR_OK)
            return;
    }
    free(a);
    (void)close(fd);
    atomic_fetch_sub(&w->client_count, 1);
    atomic_fetch_sub(&w->service->clients, 1);
}

void worker_client_gone(struct worker *w)
{
    atomic_fetch_sub(&w->client_count, 1);
    atomic_fetch_sub(&w->service->clients, 1);
    leave_if_drained(w);
}

static void reap(struct worker *w)
{
    struct client *c;
    while ((c = LIST_FIRST(&w->to_free)) != NULL) {
        LIST_REMOVE(c, link);
        free(c);
    }
}

static void on_reap(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    reap(arg);
}

void worker_free_later(struct worker *w, struct client *c)
{
    static const struct timeval next_turn = {0, 0};
    LIST_INSERT_HEAD(&w->to_free, c, link);
    (void)event_add(w->reap, &next_turn);
}

/* --- the limit of keys in flight --- */

bool worker_is_full(const struct worker *w)
{
    return w->in_flight >= w->config->in_flight_max;
}

void worker_landed(struct worker *w, size_t weight)
{
    static const struct timeval next_turn = {0, 0};
    w->in_flight -= weight;
    if (!TAILQ_EMPTY(&w->held) && !worker_is_full(w))
        (void)event_add(w->unhold, &next_turn);
}

static void on_unhold(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct worker *w = arg;
    struct client *c;
    size_t waiting = 0;
    TAILQ_FOREACH(c, &w->held, held_link)
    waiting++;
    for (; waiting > 0 && !worker_is_full(w); waiting--) {
        c = TAILQ_FIRST(&w->held);
        if (c == NULL)
            return;
        client_leave(c, CLIENT_HELD);
        client_advance(c); /* may be held again, behind the other clients */
    }
}

/* --- the end of a turn of the loop --- */

void worker_due(struct worker *w, struct client *c)
{
    if (c->is_due)
        return;
    if (TAILQ_EMPTY(&w->due))
        event_active(w->turn_end, EV_TIMEOUT, 0); /* runs after all events of this turn */
    TAILQ_INSERT_TAIL(&w->due, c, due_link);
    c->is_due = true;
}

void worker_not_due(struct worker *w, struct client *c)
{
    if (c->is_due)
        TAILQ_REMOVE(&w->due, c, due_link);
    c->is_due = false;
}

static void on_turn_end(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct worker *w = arg;
    struct client *c;
    while ((c = TAILQ_FIRST(&w->due)) != NULL) {
        worker_not_due(w, c);
        client_turn_ends(c);
    }
}

/* --- replies that wait for others of their run --- */

void worker_late(struct worker *w, struct client *c)
{
    static const struct timeval soon = {.tv_usec = LATE_MS * 1000};
    if (c->is_late || (TAILQ_EMPTY(&w->late) && event_add(w->late_end, &soon) != 0))
        return;
    TAILQ_INSERT_TAIL(&w->late, c, late_link);
    c->is_late = true;
}

void worker_not_late(struct worker *w, struct client *c)
{
    if (c->is_late)
        TAILQ_REMOVE(&w->late, c, late_link);
    c->is_late = false;
}

static void on_late(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct worker *w = arg;
    struct client *c;
    while ((c = TAILQ_FIRST(&w->late)) != NULL) {
        worker_not_late(w, c);
        client_write_known(c);
    }
}

/* --- the limit of the clients' memory --- */

static void relieve(void *arg);

static bool is_too_much(const struct worker *w)
{
    return atomic_load(&w->service->client_memory) > config_client_memory_max(w->config, machine_memory());
}

/* Tell the worker that has the largest client to cut it. */
static void ask_for_relief(const struct worker *w)
{
    struct worker *most = w->all->worker[0];
    for (unsigned i = 1; i < w->all->count; i++)
        if (atomic_load(&w->all->worker[i]->largest) > atomic_load(&most->largest))
            most = w->all->worker[i];
    if (!atomic_exchange(&most->relieving, true) && mailbox_post(most->mailbox, relieve, most) != ERR_OK)
        atomic_store(&most->relieving, false);
}

static void tell_memory(struct worker *w)
{
    atomic_fetch_add(&w->service->client_memory, w->client_memory - w->told_memory);
    w->told_memory = w->client_memory;
}

/* Cut the largest client of this worker. The task may be old: if the worker's largest client is smaller now,
 * another worker may have a larger one, and is told instead. */
static void relieve(void *arg)
{
    struct worker *w = arg;
    struct client *c, *most = NULL;
    size_t believed = atomic_load(&w->largest), second = 0;
    atomic_store(&w->relieving, false);
    tell_memory(w);
    if (w->draining || !is_too_much(w))
        return;
    LIST_FOREACH(c, &w->clients, link)
    {
        if (most == NULL || c->memory > most->memory) {
            second = most == NULL ? 0 : most->memory;
            most = c;
        } else if (c->memory > second) {
            second = c->memory;
        }
    }
    bool is = most != NULL && most->memory >= believed;
    atomic_store(&w->largest, is ? second : most == NULL ? 0 : most->memory);
    if (is)
        client_cut(most, "it holds most, and all hold more than client_memory_max");
    if (is_too_much(w) && (is || most != NULL))
        ask_for_relief(w);
}

void worker_count_memory(struct worker *w, size_t before, size_t now)
{
    w->client_memory += now - before;
    if (now > atomic_load_explicit(&w->largest, memory_order_relaxed))
        atomic_store_explicit(&w->largest, now, memory_order_relaxed);
    if (w->client_memory - w->told_memory + MEMORY_STEP < 2 * (size_t)MEMORY_STEP)
        return; /* the difference to what was reported is below one step, in either direction */
    tell_memory(w);
    if (is_too_much(w))
        ask_for_relief(w);
}

static void on_second(evutil_socket_t fd UNUSED, short events UNUSED, void *arg)
{
    struct worker *w = arg;
    uint64_t now = clock_mono_us();
    uint_fast64_t rejected = atomic_load(&w->service->rejected);
    struct client *c, *next;
    for (c = LIST_FIRST(&w->clients); c != NULL; c = next) {
        next = LIST_NEXT(c, link);
        client_tick(c, now, rejected != w->rejected);
    }
    w->rejected = rejected;
}

static void take_config(void *arg)
{
    struct worker *w = arg;
    loop_take_config(w->service, w->keys, &w->config);
    struct client *c;
    LIST_FOREACH(c, &w->clients, link)
    client_reconfigure(c);
}

void worker_sync(struct worker *w)
{
    if (!live_config_is(w->service->config, w->config))
        take_config(w);
}

void worker_reconfigure(struct worker *w)
{
    if (mailbox_post(w->mailbox, take_config, w) != ERR_OK)
        log_error("out_of_memory",
                  "part=worker index=%u note=\"it keeps its configuration until the next change\"", w->index);
}

static void begin_drain(void *arg)
{
    struct worker *w = arg;
    w->draining = true;
    struct client *c, *next;
    for (c = LIST_FIRST(&w->clients); c != NULL; c = next) {
        next = LIST_NEXT(c, link);
        client_close_when_idle(c);
    }
    leave_if_drained(w);
    static const struct timeval patience = {DRAIN_SECONDS, 0};
    (void)event_base_loopexit(w->base, &patience);
}

void worker_drain(struct worker *w)
{
    if (mailbox_post(w->mailbox, begin_drain, w) != ERR_OK)
        log_error("out_of_memory", "part=worker index=%u note=\"it ends without draining\"", w->index);
}

static void *run(void *arg)
{
    struct worker *w = arg;
    char name[16];
    (void)snprintf(name, sizeof(name), "worker-%u", w->index);
    (void)pthread_setname_np(pthread_self(), name);
    (void)event_base_loop(w->base, EVLOOP_NO_EXIT_ON_EMPTY);
    struct client *c;
    while ((c = LIST_FIRST(&w->clients)) != NULL)
        client_destroy(c);
    mailbox_run(w->mailbox); /* pass on tasks that are on their way round the workers */
    key_port_free(w->keys);
    w->keys = NULL;
    return NULL;
}

void worker_free(struct worker *w)
{
    if (w == NULL)
        return;
    key_port_free(w->keys);
    reap(w);
    loop_event_free(w->reap);
    loop_event_free(w->unhold);
    loop_event_free(w->late_end);
    loop_event_free(w->turn_end);
    loop_event_free(w->second);
    loop_event_free(w->tasks);
    if (w->base != NULL)
        event_base_free(w->base);
    mailbox_free(w->mailbox);
    meter_free(w->meter);
    pool_fini(&w->requests);
    free(w->read);
    free(w->arguments.arguments);
    buffer_fini(&w->scratch);
    config_release(w->config);
    free(w);
}

enum err worker_start(struct workers *all, const struct worker_options *o, struct error *e)
{
    struct service *service = o->service;
    struct worker *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    w->config = live_config_acquire(service->config);
    w->all = all;
    w->service = service;
    w->admin = o->admin;
    w->commands = o->commands;
    w->index = all->count;
    LIST_INIT(&w->clients);
    LIST_INIT(&w->to_free);
    TAILQ_INIT(&w->held);
    TAILQ_INIT(&w->late);
    TAILQ_INIT(&w->due);
    w->base = loop_base_new();
    w->mailbox = mailbox_new();
    w->read = malloc(WORKER_READ);
    w->meter = meter_new(o->commands->meter);
    if (w->base != NULL && w->mailbox != NULL && w->meter != NULL && w->read != NULL) {
        w->keys = key_port_new(service, w->base, &w->config);
        w->reap = evtimer_new(w->base, on_reap, w);
        w->unhold = evtimer_new(w->base, on_unhold, w);
        w->late_end = evtimer_new(w->base, on_late, w);
        w->turn_end = event_new(w->base, -1, 0, on_turn_end, w);
        w->second = event_new(w->base, -1, EV_PERSIST, on_second, w);
        w->tasks = event_new(w->base, mailbox_fd(w->mailbox), EV_READ | EV_PERSIST, on_tasks, w);
    }
    static const struct timeval second = {1, 0};
    if (w->keys == NULL || w->reap == NULL || w->unhold == NULL || w->late_end == NULL ||
        w->turn_end == NULL || w->second == NULL || w->tasks == NULL || event_add(w->tasks, NULL) != 0 ||
        event_add(w->second, &second) != 0 || pthread_create(&w->thread, NULL, run, w) != 0) {
        worker_free(w);
        return error_set(e, ERR_NOMEM, "worker %u could not be started", all->count);
    }
    meters_add(&service->meters, w->meter);
    all->worker[all->count++] = w;
    return ERR_OK;
}
