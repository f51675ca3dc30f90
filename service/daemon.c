/* SPDX-License-Identifier: MIT */
/* twinbloomd: reads the configuration, starts the threads, listens, reads the configuration again on SIGHUP,
 * and leaves cleanly on SIGTERM or SIGINT.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <event2/event.h>
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "migrate/source.h"
#include "service/admin.h"
#include "service/http.h"
#include "service/keeper.h"
#include "service/listen.h"
#include "service/listener.h"
#include "service/login.h"
#include "service/reload.h"
#include "service/runner.h"
#include "service/tails.h"
#include "service/tls.h"
#include "service/worker.h"

enum { EXIT_USAGE = 2 };

struct loop {
    struct service *service;
    struct event_base *base;
};

static void warn_of_few_files(struct service *s, const struct config *config)
{
    uint64_t most = listen_max_clients(s);
    if (most < config->max_clients)
        log_warn("limits",
                 "max_clients=%" PRIu64 " room_for=%" PRIu64 " note=\"the system lets this process open no "
                 "more files; raise its limit (ulimit -n, LimitNOFILE=)\"",
                 config->max_clients, most);
}

/* --- signals --- */

static void on_signal(evutil_socket_t signal_number, short events, void *arg)
{
    (void)events;
    struct loop *l = arg;
    log_info("signal", "number=%d note=\"stopping\"", (int)signal_number);
    (void)event_base_loopbreak(l->base);
}

static void on_hangup(evutil_socket_t signal_number, short events, void *arg)
{
    (void)signal_number;
    (void)events;
    reload_file(((struct loop *)arg)->service);
}

/* While nobody takes a SIGHUP it waits: it would end the process. */
static void hold_hangup(bool hold)
{
    sigset_t hangup;
    (void)sigemptyset(&hangup);
    (void)sigaddset(&hangup, SIGHUP);
    (void)pthread_sigmask(hold ? SIG_BLOCK : SIG_UNBLOCK, &hangup, NULL);
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
                 TWINBLOOM_VERSION, l->service->owner, config->filter_count, config->user_count);
        hold_hangup(false);
        (void)event_base_dispatch(l->base);
        hold_hangup(true);
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
    enum err code = l.base == NULL ? error_set(e, ERR_NOMEM, "out of memory")
                                   : listen_open(&listen, s, l.base, config, e);
    if (code == ERR_OK)
        warn_of_few_files(s, config);
    if (code == ERR_OK)
        code = take_signals(&l, config, e);
    listen_close(listen);
    if (l.base != NULL)
        event_base_free(l.base);
    return code;
}

/* --- start and stop --- */

static enum err load_certificates(struct service *s, const struct config *config, struct error *e)
{
    SSL_CTX *certificates = NULL;
    s->tls = tls_new();
    if (s->tls == NULL)
        return error_set(e, ERR_NOMEM, "out of memory");
    enum err code = tls_load(&certificates, config, e);
    if (code == ERR_OK)
        tls_replace(s->tls, certificates);
    return code;
}

/* @config is the one to start with. */
static enum err run(struct service *s, const struct config *config, struct error *e)
{
    pthread_t admin, keeper;
    bool admin_runs = false, keeper_runs = false;
    enum err code = ERR_OK;
    s->admin = mailbox_new();
    s->keeper = mailbox_new();
    s->watch = watch_new();
    if (s->admin == NULL || s->keeper == NULL || s->watch == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = load_certificates(s, config, e);
    if (code == ERR_OK)
        code = login_start(&s->login, e);
    for (unsigned i = 0; code == ERR_OK && i < config->threads; i++) {
        code = worker_start(&s->workers[i], s, i, e);
        s->worker_count += code == ERR_OK;
    }
    if (code == ERR_OK)
        code = runner_start(&s->runner, s, e);
    if (code == ERR_OK && (s->tails = tails_new(s)) == NULL)
        code = error_set(e, ERR_NOMEM, "out of memory");
    if (code == ERR_OK)
        code = http_start(&s->http, s, e);
    if (code == ERR_OK)
        code = listener_start(&s->listener, s, e);
    if (code == ERR_OK) {
        admin_runs = pthread_create(&admin, NULL, admin_run, s) == 0;
        keeper_runs = admin_runs && pthread_create(&keeper, NULL, keeper_run, s) == 0;
        code = keeper_runs ? serve(s, config, e) : error_set(e, ERR_NOMEM, "threads could not be started");
    }
    http_drain(s->http);
    listener_stop(s->listener);
    http_join(s->http);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_drain(s->workers[i]);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_join(s->workers[i]);
    atomic_store(&s->stop, true);
    if (keeper_runs) {
        keeper_wake(s);
        (void)pthread_join(keeper, NULL);
    }
    if (admin_runs)
        (void)pthread_join(admin, NULL);
    runner_stop(s->runner);
    tails_stop(s->tails);
    login_stop(s->login);
    http_free(s->http);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_settle(s->workers[i]);
    for (unsigned i = 0; i < s->worker_count; i++)
        worker_free(s->workers[i]);
    tls_free(s->tls);
    mailbox_free(s->admin);
    mailbox_free(s->keeper);
    watch_free(s->watch);
    return code;
}

static void block_signals(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL); /* a limit of the size of files is an error of the write */
    hold_hangup(true);
}

/* The sources that the configuration names must be usable. A server that cannot be reached now is no fault of
 * the configuration: @strict makes it one. */
static enum err check_sources(const struct config *config, const char *path, bool strict, struct error *e)
{
    for (size_t i = 0; i < config->filter_count; i++) {
        const struct config_filter *f = &config->filter[i];
        if (f->table[0] == '\0')
            continue;
        struct source *source = NULL;
        const struct source_config sc = {.dsn = config->dsn,
                                         .table = f->table,
                                         .id_column = f->id_column,
                                         .key = f->key,
                                         .where = f->where};
        enum err code = source_open(&source, &sc, (unsigned)config->postgres_timeout_ms, e);
        if (code == ERR_OK)
            code = source_check(source, e);
        source_close(source);
        if (code == ERR_CONFIG || (strict && code != ERR_OK))
            return error_prefix(e, code, "%s:%u: [filter %s]", path, f->line, f->name);
    }
    return ERR_OK;
}

static int check_config(const struct config *config, const char *path)
{
    struct error e;
    SSL_CTX *certificates = NULL;
    enum err code = tls_load(&certificates, config, &e);
    SSL_CTX_free(certificates);
    if (code != ERR_OK || check_sources(config, path, true, &e) != ERR_OK) {
        (void)fprintf(stderr, "twinbloomd: %s\n", e.text);
        return EXIT_USAGE;
    }
    (void)printf("%s: fit, %zu filters\n", path, config->filter_count);
    return EXIT_SUCCESS;
}

static int start(const struct config *config, const char *path)
{
    struct error e = {.text = ""};
    struct service *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return EXIT_FAILURE;
    char host[32] = "host";
    (void)gethostname(host, sizeof(host) - 1);
    for (char *p = host; *p != '\0'; p++)
        if (*p == ':' || *p == ' ')
            *p = '-';
    (void)snprintf(s->owner, sizeof(s->owner), "%s-%d-%08" PRIx32, host, (int)getpid(),
                   (uint32_t)random_u64());
    s->config = live_config_new(config);
    if (s->config == NULL) {
        free(s);
        return EXIT_FAILURE;
    }
    (void)pthread_mutex_init(&s->reloading, NULL);
    s->config_path = path;
    (void)snprintf(s->prefix, sizeof(s->prefix), "%s", config->prefix);
    s->redis_timeout_ms = (unsigned)config->redis_timeout_ms;
    s->started_us = clock_mono_us();
    log_set_level(config->log_level);
    block_signals();
    enum err code = check_sources(config, path, false, &e);
    if (code == ERR_OK)
        code = nodes_parse(&s->nodes, config->nodes, &e);
    if (code == ERR_OK)
        code = run(s, config, &e);
    if (code != ERR_OK)
        log_error("stopped", "why=%s", log_quote(e.text));
    else
        log_info("stopped", "uptime_seconds=%" PRIu64, (clock_mono_us() - s->started_us) / 1000000);
    live_config_free(s->config);
    (void)pthread_mutex_destroy(&s->reloading);
    free(s);
    return code == ERR_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void usage(FILE *to)
{
    (void)fputs(
        "usage: twinbloomd -c FILE [--check-config | --print-config]\n"
        "       twinbloomd --version | --help\n\n"
        "  -c, --config FILE   read the configuration (INI) from FILE\n"
        "  --check-config      check the file and the sources that it names, then exit (0: fit)\n"
        "  --print-config      print every key with its value and meaning, then exit\n\n"
        "SIGHUP: read FILE again. A file with a fault, or one that changes what cannot change in a running\n"
        "daemon, changes nothing; the log says why. CONFIG SET changes keys without the file, until the\n"
        "next SIGHUP or restart. CONFIG HELP says more.\n",
        to);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'}, {"check-config", no_argument, NULL, 'k'},
        {"print-config", no_argument, NULL, 'p'}, {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};
    const char *path = NULL;
    bool check = false, print = false;
    int option;
    while ((option = getopt_long(argc, argv, "c:vh", options, NULL)) != -1) {
        switch (option) {
        case 'c':
            path = optarg;
            break;
        case 'k':
            check = true;
            break;
        case 'p':
            print = true;
            break;
        case 'v':
            (void)printf("twinbloomd %s\n", TWINBLOOM_VERSION);
            return EXIT_SUCCESS;
        case 'h':
            usage(stdout);
            return EXIT_SUCCESS;
        default:
            usage(stderr);
            return EXIT_USAGE;
        }
    }
    if (path == NULL || optind != argc) {
        usage(stderr);
        return EXIT_USAGE;
    }
    struct config *config;
    struct error e = {.text = ""};
    int status = EXIT_SUCCESS;
    if (config_read(&config, path, &e) != ERR_OK) {
        (void)fprintf(stderr, "twinbloomd: %s\n", e.text);
        return EXIT_USAGE;
    }
    if (print)
        config_print(config, stdout);
    else if (check)
        status = check_config(config, path);
    else
        status = start(config, path);
    config_release(config);
    return status;
}
