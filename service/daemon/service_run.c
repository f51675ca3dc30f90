/* SPDX-License-Identifier: MIT */
/* The threads of the coordinator: started in order, signals taken meanwhile, ended in order. */
#include "service/core/service.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <event2/event.h>
#include "base/clock.h"
#include "base/log.h"
#include "service/admin/admin.h"
#include "service/filters/epochs.h"
#include "service/http/http.h"
#include "service/commands/command.h"
#include "service/control/controller.h"
#include "service/daemon/listen.h"
#include "service/control/listener.h"
#include "service/core/login.h"
#include "service/metrics/collector.h"
#include "service/control/heartbeat.h"
#include "service/core/reload.h"
#include "service/jobs/runner.h"
#include "service/meter/fills.h"
#include "service/filters/sources.h"
#include "service/daemon/supervisor.h"
#include "service/jobs/followers.h"
#include "service/core/tls.h"
#include "service/filters/filter_states.h"
#include "service/resp/worker.h"
#include "shard/redis/nodes/health.h"
#include "shard/request/filters.h"
#include "shard/fold/due.h"

enum { FILTERS_LEAVE_MS = 5000 };

struct loop {
    struct service *service;
    struct event_base *base;
    struct event *patience; /* runs out at the end of shutdown_delay */
};

static void warn_of_few_files(struct service *s, const struct config *config)
{
    uint64_t most = listen_max_clients(s);
    if (most < config->max_clients)
        log_warn("file_limit_low",
                 "max_clients=%" PRIu64 " room_for=%" PRIu64 " note=\"the system lets this process open no "
                 "more files; raise its limit (ulimit -n, LimitNOFILE=)\"",
                 config->max_clients, most);
}

/* --- signals --- */

/* Others go on with the jobs of this coordinator at once; balancers that ask /readyz send nobody new. */
static void begin_to_leave(struct service *s)
{
    atomic_store(&s->leaving, true);
    runner_leave(s->runner);
    heartbeat_wake(s->heartbeat);
}

static void on_patience(evutil_socket_t fd, short events, void *arg)
{
    (void)fd;
    (void)events;
    (void)event_base_loopbreak(((struct loop *)arg)->base);
}

/* The second one ends the delay. */
static void on_signal(evutil_socket_t signal_number, short events, void *arg)
{
    (void)events;
    struct loop *l = arg;
    struct service *s = l->service;
    const struct config *c = live_config_acquire(s->config);
    uint64_t delay_ms = atomic_load(&s->leaving) ? 0 : c->shutdown_delay_ms;
    const struct timeval delay = {(time_t)(delay_ms / 1000), (suseconds_t)(delay_ms % 1000 * 1000)};
    config_release(c);
    log_info("stopping", "signal=%d delay_ms=%" PRIu64 " note=\"stopping\"", (int)signal_number, delay_ms);
    begin_to_leave(s);
    supervisor_stopping(s->supervisor, delay_ms);
    if (delay_ms == 0 || evtimer_add(l->patience, &delay) != 0)
        (void)event_base_loopbreak(l->base);
}

static void on_hangup(evutil_socket_t signal_number, short events, void *arg)
{
    (void)signal_number;
    (void)events;
    struct service *s = ((struct loop *)arg)->service;
    supervisor_reloading(s->supervisor);
    reload_file(s);
    supervisor_reloaded(s->supervisor);
}

/* A signal that nobody takes yet, or any more, waits: it would end the process, in the middle of a clean end
 * above all. Threads that are started later hold what this one holds. */
static void hold(bool on, const int *numbers, size_t count)
{
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < count; i++)
        (void)sigaddset(&set, numbers[i]);
    (void)pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

static void hold_signals(bool on)
{
    static const int all[] = {SIGHUP, SIGTERM, SIGINT};
    hold(on, all, sizeof(all) / sizeof(all[0]));
}

void service_block_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL); /* a limit of the size of files is an error of the write */
    hold(true, (const int[]){SIGHUP}, 1);
}

/* Take signals and connections until one of the signals says stop. */
static enum err take_signals(struct loop *l, const struct config *config, struct error *e)
{
    const struct {
        int number;
        event_callback_fn fn;
    } signals[] = {{SIGTERM, on_signal}, {SIGINT, on_signal}, {SIGHUP, on_hangup}};
    enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };
    struct event *event[SIGNALS] = {0};
    bool good = true;
    for (size_t i = 0; i < SIGNALS && good; i++) {
        event[i] = evsignal_new(l->base, signals[i].number, signals[i].fn, l);
        good = event[i] != NULL && event_add(event[i], NULL) == 0;
    }
    if (good) {
        log_info("ready",
                 "listen=%s listen_tls=%s unix_socket=%s version=%s coordinator=%s filters=%zu users=%zu",
                 log_quote(config->listen), log_quote(config->listen_tls), log_quote(config->unix_socket),
                 l->service->version, l->service->owner, config->filter_count, config->user_count);
        hold_signals(false);
        (void)event_base_dispatch(l->base);
        hold_signals(true);
    }
    for (size_t i = 0; i < SIGNALS; i++)
        if (event[i] != NULL)
            event_free(event[i]);
    return good ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

static enum err serve(struct service *s, const struct config *config, struct error *e)
{
    struct loop l = {.service = s, .base = event_base_new()};
    struct listen *listen = NULL;
    l.patience = l.base == NULL ? NULL : evtimer_new(l.base, on_patience, &l);
    enum err code = l.patience == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                       : listen_open(&listen, s, l.base, config, e);
    if (code == ERR_OK)
        warn_of_few_files(s, config);
    if (code == ERR_OK)
        code = supervisor_begin(s->supervisor, l.base, e);
    if (code == ERR_OK)
        code = take_signals(&l, config, e);
    supervisor_end(s->supervisor);
    listen_close(listen);
    if (l.patience != NULL)
        event_free(l.patience);
    if (l.base != NULL)
        event_base_free(l.base);
    return code;
}

/* --- start and stop --- */

static void on_view(void *service)
{
    http_refresh(((struct service *)service)->http);
}

static void on_config(void *service)
{
    struct service *s = service;
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_reconfigure(s->workers[i]);
    http_reconfigure(s->http);
}

/* What the threads share. */
static enum err make_parts(struct service *s, const struct config *config, struct error *e)
{
    enum err code = service_reach_nodes(s, config, e);
    if (code != ERR_OK)
        return code;
    tls_warn(config);
    s->on_view = on_view;
    s->on_config = on_config;
    s->on_arg = s;
    s->admin = mailbox_new();
    s->making = mailbox_new();
    s->aside = mailbox_new();
    s->controller = mailbox_new();
    s->watch = filter_states_new();
    s->supervisor = supervisor_new(s);
    s->nodes.health = node_health_new();
    s->threads = config_threads(config);
    s->epochs = epochs_new();
    s->fills = fills_new();
    if (s->admin == NULL || s->making == NULL || s->aside == NULL || s->controller == NULL ||
        s->watch == NULL || s->supervisor == NULL || s->nodes.health == NULL || s->epochs == NULL ||
        s->fills == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    return ERR_OK;
}

/* Before any worker starts: each has a port to them. */
static enum err make_filters(struct service *s, const struct config *config, struct error *e)
{
    enum { MAINTAINERS = 4 };
    const struct filters_options o = {.nodes = &s->nodes,
                                      .prefix = s->prefix,
                                      .owner = s->owner,
                                      .memory = config->resident_memory == RESIDENT_MEMORY_DEFAULT
                                                    ? budget_default()
                                                    : config->resident_memory,
                                      .timeout_ms = s->redis_timeout_ms,
                                      .threads = MAINTAINERS,
                                      .shard_bytes = (uint32_t)config->shard_bytes,
                                      .retain_us = LOG_RETAIN_US_DEFAULT};
    return filters_new(&s->logs, &o, e);
}

/* Before any request is taken: a list of nodes is told from another one. */
static enum err look_at_nodes(struct service *s, struct error *e)
{
    struct sync_client *l = sync_client_new(&s->nodes, s->redis_timeout_ms, "twinbloom-start");
    if (l == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = service_claim(s, l, e);
    sync_client_free(l);
    return code;
}

static void free_parts(struct service *s)
{
    service_leave_nodes(s);
    node_health_free(s->nodes.health);
    mailbox_free(s->admin);
    mailbox_free(s->making);
    mailbox_free(s->aside);
    mailbox_free(s->controller);
    filter_states_free(s->watch);
    supervisor_free(s->supervisor);
    epochs_free(s->epochs);
    fills_free(s->fills);
}

static enum err start_threads(struct service *s, const struct config *config, struct error *e)
{
    enum err code = login_start(&s->login, e);
    for (unsigned i = 0; code == ERR_OK && i < s->threads; i++) {
        code = worker_start(&s->workers[i], s, i, &command_set, e);
        s->worker_count += code == ERR_OK;
    }
    if (code == ERR_OK)
        code = runner_start(&s->runner, s, e);
    if (code == ERR_OK)
        code = sources_start(&s->sources, s->controller, e);
    if (code == ERR_OK && (s->followers = followers_new(s)) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK && config->http[0] != '\0')
        code = collector_start(&s->collector, s, e);
    if (code == ERR_OK)
        code = http_start(&s->http, s, e);
    if (code == ERR_OK)
        code = listener_start(&s->listener, s, e);
    if (code == ERR_OK)
        code = heartbeat_start(&s->heartbeat, s, e);
    return code;
}

/* Those of this file. */
struct blocking {
    pthread_t thread[2];
    unsigned count; /* that run */
};

static enum err start_blocking(struct service *s, struct blocking *b, struct error *e)
{
    void *(*const run[])(void *) = {admin_run, controller_run};
    enum { RUN = sizeof(run) / sizeof(run[0]) };
    while (b->count < RUN && pthread_create(&b->thread[b->count], NULL, run[b->count], s) == 0)
        b->count++;
    return b->count == RUN ? ERR_OK : error_set(e, ERR_NOMEM, "threads could not be started");
}

/* First whoever takes requests, then whoever works on them; of what was started. */
static void end_threads(struct service *s, const struct blocking *b)
{
    begin_to_leave(s); /* after an error, too */
    http_drain(s->http);
    listener_stop(s->listener);
    http_join(s->http);
    collector_stop(s->collector);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_drain(s->workers[i]);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_join(s->workers[i]);
    atomic_store(&s->stop, true);
    if (s->controller != NULL)
        service_wake_controller(s);
    for (unsigned i = 0; i < b->count; i++)
        (void)pthread_join(b->thread[i], NULL);
    sources_stop(s->sources);
    runner_stop(s->runner);
    followers_stop(s->followers);
    heartbeat_stop(s->heartbeat);
    runner_free(s->runner);
    login_stop(s->login);
    http_free(s->http);
    collector_free(s->collector);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_settle(s->workers[i]);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_free(s->workers[i]);
}

enum err service_run(struct service *s, const struct config *config, struct error *e)
{
    struct blocking blocking = {.count = 0};
    hold_signals(true);
    enum err code = make_parts(s, config, e);
    if (code == ERR_OK)
        code = look_at_nodes(s, e);
    if (code == ERR_OK)
        code = make_filters(s, config, e);
    if (code == ERR_OK)
        code = start_threads(s, config, e);
    if (code == ERR_OK)
        code = start_blocking(s, &blocking, e);
    if (code == ERR_OK)
        code = serve(s, config, e);
    end_threads(s, &blocking);
    filters_free(s->logs, FILTERS_LEAVE_MS);
    free_parts(s);
    if (code == ERR_OK && atomic_load(&s->refused)) {
        *e = s->refusal;
        code = ERR_CONFIG;
    }
    return code;
}
