/* SPDX-License-Identifier: MIT */
/* The threads of the coordinator: started in order, signals taken meanwhile, ended in order. */
#include "service/daemon/service_run.h"

#include <inttypes.h>
#include <signal.h>
#include <event2/event.h>
#include "base/log.h"
#include "base/machine.h"
#include "service/admin/admin.h"
#include "service/commands/command.h"
#include "service/control/controller.h"
#include "service/control/heartbeat.h"
#include "service/control/listener.h"
#include "service/core/login.h"
#include "service/core/reload.h"
#include "service/core/tls.h"
#include "service/daemon/listen.h"
#include "service/daemon/state_file.h"
#include "service/daemon/supervisor.h"
#include "service/filters/filter_states.h"
#include "service/filters/sources.h"
#include "service/http/http.h"
#include "service/jobs/followers.h"
#include "service/jobs/runner.h"
#include "service/metrics/collector.h"
#include "service/resp/worker.h"
#include "shard/fold/due.h"
#include "shard/redis/nodes/health.h"
#include "shard/control/filters.h"

enum { FILTERS_LEAVE_MS = 5000 };
_Static_assert((int)WORKERS_MAX + 1 <= (int)METERS_MAX, "a meter for each worker, and for HTTP");

/* All that is started. */
struct daemon {
    struct service *service;
    struct event_base *base; /* of the main thread */
    struct workers workers;
    struct mailbox *loops[WORKERS_MAX + 1]; /* of workers, then of HTTP where it is served */
    struct admin_threads admin;
    struct runner *runner;
    struct sources *sources;
    struct followers *followers;
    struct collector *collector; /* NULL where HTTP is not served */
    struct http *http;           /* likewise */
    struct listener *listener;
    struct heartbeat *heartbeat;
    struct supervisor *supervisor; /* of the main thread */
    struct clean_stop *clean_stop; /* NULL: no state file is configured */
    struct controller_options controller;
    pthread_t blocking[2]; /* the threads for all else of admin, and of the controller */
    unsigned blocking_count;
};

static void warn_of_few_files(struct service *s, const struct config *config)
{
    struct listen_room room = listen_room(s);
    if (room.clients < config->max_clients ||
        (config->http[0] != '\0' && room.http < config->http_max_clients))
        log_warn("file_limit_low",
                 "max_clients=%" PRIu64 " room_for=%" PRIu64 " http_max_clients=%" PRIu64
                 " http_room_for=%" PRIu64 " note=\"the system lets this process open no more files; raise "
                 "its limit (ulimit -n, LimitNOFILE=)\"",
                 config->max_clients, room.clients, config->http_max_clients, room.http);
}

/* --- signals --- */

/* Others go on with the jobs of this coordinator at once; balancers that ask /readyz send nobody new. */
static void begin_to_leave(struct daemon *d)
{
    atomic_store(&d->service->leaving, true);
    runner_leave(d->runner);
    heartbeat_wake(d->heartbeat);
}

/* The second one ends the delay. */
static void on_signal(evutil_socket_t signal_number, short events UNUSED, void *arg)
{
    struct daemon *d = arg;
    struct service *s = d->service;
    const struct config *c = live_config_acquire(s->config);
    uint64_t delay_ms = atomic_load(&s->leaving) ? 0 : c->shutdown_delay_ms;
    const struct timeval delay = {(time_t)(delay_ms / 1000), (suseconds_t)(delay_ms % 1000 * 1000)};
    config_release(c);
    log_info("stopping", "signal=%d delay_ms=%" PRIu64 " note=\"stopping\"", (int)signal_number, delay_ms);
    begin_to_leave(d);
    supervisor_stopping(d->supervisor, delay_ms);
    if (delay_ms == 0 || event_base_loopexit(d->base, &delay) != 0)
        (void)event_base_loopbreak(d->base);
}

static void on_hangup(evutil_socket_t signal_number UNUSED, short events UNUSED, void *arg)
{
    struct daemon *d = arg;
    supervisor_reloading(d->supervisor);
    reload_file(d->service);
    supervisor_reloaded(d->supervisor);
}

/* A signal that nobody takes yet, or any more, waits: it would end the process, in the middle of a clean end
 * above all. Threads that are started later hold what this one holds. */
static void hold_signals(bool on, bool only_hangup)
{
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    if (!only_hangup) {
        (void)sigaddset(&set, SIGTERM);
        (void)sigaddset(&set, SIGINT);
    }
    (void)pthread_sigmask(on ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

void service_block_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL); /* a limit of the size of files is an error of the write */
    hold_signals(true, true);
}

/* Take signals and connections until one of the signals says stop. */
static enum err take_signals(struct daemon *d, const struct config *config, struct error *e)
{
    const struct {
        int number;
        event_callback_fn fn;
    } signals[] = {{SIGTERM, on_signal}, {SIGINT, on_signal}, {SIGHUP, on_hangup}};
    enum { SIGNALS = sizeof(signals) / sizeof(signals[0]) };
    struct event *event[SIGNALS] = {0};
    const uint64_t all = machine_memory();
    bool good = true;
    for (size_t i = 0; i < SIGNALS && good; i++) {
        event[i] = evsignal_new(d->base, signals[i].number, signals[i].fn, d);
        good = event[i] != NULL && event_add(event[i], NULL) == 0;
    }
    if (good) {
        log_info("ready",
                 "listen=%s listen_tls=%s unix_socket=%s version=%s coordinator=%s filters=%zu users=%zu "
                 "threads=%u resident_memory=%" PRIu64 " build_memory=%" PRIu64 " client_memory_max=%" PRIu64,
                 log_quote(config->listen), log_quote(config->listen_tls), log_quote(config->unix_socket),
                 d->service->version, d->service->owner, config->filter_count, config->user_count,
                 d->service->threads, config_resident_memory(config, all), config_build_memory(config, all),
                 config_client_memory_max(config, all));
        hold_signals(false, false);
        (void)event_base_dispatch(d->base);
        hold_signals(true, false);
    }
    for (size_t i = 0; i < SIGNALS; i++)
        if (event[i] != NULL)
            event_free(event[i]);
    return good ? ERR_OK : error_set(e, ERR_NOMEM, "out of memory");
}

static enum err serve(struct daemon *d, const struct config *config, struct error *e)
{
    const struct supervised supervised = {.runner = d->runner,
                                          .loops = d->loops,
                                          .worker_count = d->workers.count,
                                          .loop_count = d->workers.count + (d->http != NULL)};
    struct listen *listen = NULL;
    d->base = event_base_new();
    enum err code = d->base == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                    : listen_open(&listen, d->service, &d->workers, d->base, config, e);
    if (code == ERR_OK)
        warn_of_few_files(d->service, config);
    if (code == ERR_OK)
        code = supervisor_begin(d->supervisor, &supervised, d->base, e);
    if (code == ERR_OK)
        code = take_signals(d, config, e);
    supervisor_end(d->supervisor);
    listen_close(listen);
    if (d->base != NULL)
        event_base_free(d->base);
    return code;
}

/* --- start and stop --- */

static void on_view(void *daemon)
{
    http_refresh(((struct daemon *)daemon)->http);
}

static void on_config(void *daemon)
{
    struct daemon *d = daemon;
    for (unsigned i = 0; i < d->workers.count; i++)
        worker_reconfigure(d->workers.worker[i]);
    http_reconfigure(d->http);
}

/* What the threads share. */
static enum err make_parts(struct daemon *d, const struct config *config, struct error *e)
{
    struct service *s = d->service;
    enum err code = service_reach_nodes(s, config, e);
    if (code == ERR_OK)
        code = admin_threads_init(&d->admin, s, e);
    if (code != ERR_OK)
        return code;
    tls_warn(config);
    s->on_view = on_view;
    s->on_config = on_config;
    s->on_arg = d;
    s->controller = mailbox_new();
    s->watch = filter_states_new();
    s->nodes.health = node_health_new();
    s->threads = config_threads(config);
    d->supervisor = supervisor_new(s);
    if (s->controller == NULL || s->watch == NULL || s->nodes.health == NULL || d->supervisor == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    return ERR_OK;
}

/* Before any worker starts: each has a port to them. */
static enum err make_filters(struct daemon *d, const struct config *config, struct error *e)
{
    enum { MAINTAINERS = 4 };
    struct service *s = d->service;
    const struct filters_options o = {.nodes = &s->nodes,
                                      .prefix = s->prefix,
                                      .owner = s->owner,
                                      .memory = config_resident_memory(config, machine_memory()),
                                      .timeout_ms = s->redis_timeout_ms,
                                      .threads = MAINTAINERS,
                                      .retain_us = LOG_RETAIN_US_DEFAULT,
                                      .clean_stop = d->clean_stop};
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

static void free_parts(struct daemon *d)
{
    struct service *s = d->service;
    service_leave_nodes(s);
    node_health_free(s->nodes.health);
    admin_threads_fini(&d->admin);
    mailbox_free(s->controller);
    filter_states_free(s->watch);
    supervisor_free(d->supervisor);
}

static enum err start_workers(struct daemon *d, struct error *e)
{
    const struct worker_options o = {.service = d->service, .admin = &d->admin, .commands = &command_set};
    enum err code = ERR_OK;
    for (unsigned i = 0; code == ERR_OK && i < d->service->threads; i++) {
        code = worker_start(&d->workers, &o, e);
        if (code == ERR_OK)
            d->loops[i] = d->workers.worker[i]->mailbox;
    }
    return code;
}

static enum err start_http(struct daemon *d, struct error *e)
{
    const struct http_options o = {.service = d->service,
                                   .admin = &d->admin,
                                   .collector = d->collector,
                                   .max_clients = listen_room(d->service).http,
                                   .workers = d->loops,
                                   .worker_count = d->workers.count};
    enum err code = http_start(&d->http, &o, e);
    d->loops[d->workers.count] = http_mailbox(d->http);
    return code;
}

static enum err start_threads(struct daemon *d, const struct config *config, struct error *e)
{
    struct service *s = d->service;
    enum err code = login_start(&s->login, e);
    if (code == ERR_OK)
        code = start_workers(d, e);
    if (code == ERR_OK)
        code = runner_start(&d->runner, s, e);
    if (code == ERR_OK)
        code = sources_start(&d->sources, s->controller, e);
    if (code == ERR_OK && (d->followers = followers_new(s)) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK && config->http[0] != '\0' && (d->collector = collector_new(&d->admin)) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = start_http(d, e);
    if (code == ERR_OK)
        code = heartbeat_start(&d->heartbeat, s, d->runner, e);
    if (code == ERR_OK)
        code = listener_start(&d->listener, s, d->heartbeat, e);
    return code;
}

static enum err start_blocking(struct daemon *d, struct error *e)
{
    d->admin.runner = d->runner;
    d->controller = (struct controller_options){.service = d->service,
                                                .admin = &d->admin,
                                                .sources = d->sources,
                                                .runner = d->runner,
                                                .followers = d->followers};
    const struct {
        void *(*run)(void *arg);
        void *arg;
    } threads[] = {{admin_run, &d->admin}, {controller_run, &d->controller}};
    enum { COUNT = sizeof(threads) / sizeof(threads[0]) };
    unsigned *n = &d->blocking_count;
    while (*n < COUNT && pthread_create(&d->blocking[*n], NULL, threads[*n].run, threads[*n].arg) == 0)
        ++*n;
    return *n == COUNT ? ERR_OK : error_set(e, ERR_NOMEM, "threads could not be started");
}

/* First whoever takes requests, then whoever works on them; of what was started. */
static void end_threads(struct daemon *d)
{
    struct service *s = d->service;
    const struct workers *w = &d->workers;
    begin_to_leave(d); /* after an error, too */
    http_drain(d->http);
    listener_stop(d->listener);
    http_join(d->http);
    for (unsigned i = 0; i < w->count; i++)
        worker_drain(w->worker[i]);
    for (unsigned i = 0; i < w->count; i++)
        (void)pthread_join(w->worker[i]->thread, NULL);
    atomic_store(&s->stop, true);
    if (s->controller != NULL)
        mailbox_wake(s->controller);
    for (unsigned i = 0; i < d->blocking_count; i++)
        (void)pthread_join(d->blocking[i], NULL);
    if (s->controller != NULL)
        mailbox_run(s->controller); /* calls that were given back to the controller after its end */
    sources_stop(d->sources);
    runner_stop(d->runner);
    followers_stop(d->followers);
    heartbeat_stop(d->heartbeat);
    runner_free(d->runner);
    login_stop(s->login);
    http_free(d->http);
    collector_free(d->collector);
    for (unsigned i = 0; i < w->count; i++)
        mailbox_run(w->worker[i]->mailbox); /* tasks that came after its end: what they hold is freed */
    for (unsigned i = 0; i < w->count; i++)
        worker_free(w->worker[i]);
}

enum err service_run(struct service *s, const struct config *config, struct error *e)
{
    struct daemon d = {.service = s};
    hold_signals(true, false);
    enum err code = make_parts(&d, config, e);
    if (code == ERR_OK)
        code = look_at_nodes(s, e);
    if (code == ERR_OK)
        code = state_file_begin(&d.clean_stop, s, config, e);
    if (code == ERR_OK)
        code = make_filters(&d, config, e);
    if (code == ERR_OK)
        code = start_threads(&d, config, e);
    if (code == ERR_OK)
        code = start_blocking(&d, e);
    if (code == ERR_OK)
        code = serve(&d, config, e);
    end_threads(&d);
    filters_free(s->logs, FILTERS_LEAVE_MS);
    state_file_end(d.clean_stop, s);
    free_parts(&d);
    if (code == ERR_CANCELLED) /* before it served */
        return ERR_OK;
    if (code == ERR_OK && atomic_load(&s->refused)) {
        *e = s->refusal;
        code = ERR_CONFIG;
    }
    return code;
}
