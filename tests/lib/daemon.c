/* SPDX-License-Identifier: MIT */
#include "tests/lib/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { WRAPPER_MAX = 12 };

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

static void write_text(FILE *f, const struct daemon *d, const struct daemon_options *o)
{
    (void)fprintf(f, "[service]\nlisten = 127.0.0.1:%u\nhttp = 127.0.0.1:%u\n%s\n", d->port, d->http_port,
                  or_empty(o->service));
    /* Set to run the same test without shards in memory. */
    const char *memory = getenv("TWINBLOOM_RESIDENT_MEMORY");
    const char *servers = o->nodes, *key = "nodes";
    if (o->cluster != NULL) {
        servers = o->cluster;
        key = "cluster";
    } else if (o->sentinel != NULL) {
        servers = o->sentinel;
        key = "sentinel";
    }
    (void)fprintf(f, "[redis]\n%s = %s\n%s\n", key, or_empty(servers), or_empty(o->redis));
    if (memory != NULL)
        (void)fprintf(f, "resident_memory = %s\n", memory);
    if (o->dsn != NULL)
        (void)fprintf(f, "[postgres]\ndsn = %s\n%s\n", o->dsn, or_empty(o->postgres));
    /* The tables are small: the default would probe a hundred keys for each row. */
    bool samples = strstr(or_empty(o->expansion), "verify_sample") != NULL;
    (void)fprintf(f, "[rebuild]\n%s%s\n", or_empty(o->expansion), samples ? "" : "\nverify_sample = 2000");
    (void)fprintf(f, "%s\n", or_empty(o->filters));
}

enum err daemon_prepare(struct daemon *d, const struct daemon_options *o, struct error *e)
{
    *d = (struct daemon){0};
    d->port = process_free_port();
    do
        d->http_port = process_free_port();
    while (d->http_port == d->port && d->port != 0);
    if (d->port == 0 || d->http_port == 0)
        return error_set(e, ERR_IO, "no free loopback port");
    enum err err = process_make_directory(d->directory, "daemon", e);
    if (err != ERR_OK)
        return err;
    (void)snprintf(d->config, sizeof(d->config), "%s/twinbloom.ini", d->directory);
    return daemon_rewrite(d, o, e);
}

enum err daemon_rewrite(struct daemon *d, const struct daemon_options *o, struct error *e)
{
    char path[sizeof(d->config) + 8];
    (void)snprintf(path, sizeof(path), "%s.new", d->config);
    FILE *f = fopen(path, "we");
    if (f == NULL)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    write_text(f, d, o);
    if (fclose(f) != 0 || rename(path, d->config) != 0)
        return error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
    return ERR_OK;
}

static size_t count_of(const char *text, const char *word, const char **last)
{
    size_t count = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        count++;
        *last = at;
    }
    return count;
}

enum err daemon_reload(struct daemon *d, struct error *e)
{
    static const char outcome[] = " event=config_reload"; /* the event's name ends in "ed" or "_failed" */
    const char *last = NULL;
    char *log = process_log(&d->process);
    size_t before = count_of(log, outcome, &last);
    process_signal(&d->process, SIGHUP);
    enum err err = ERR_TIMEOUT;
    for (unsigned i = 0; i < 1000 && err == ERR_TIMEOUT; i++) {
        free(log);
        clock_sleep_us(10000);
        log = process_log(&d->process);
        if (count_of(log, outcome, &last) > before && strchr(last, '\n') != NULL)
            err = strncmp(last, " event=config_reload_failed", 27) == 0 ? ERR_CONFIG : ERR_OK;
    }
    if (err == ERR_CONFIG)
        (void)error_set(e, err, "%.*s", (int)strcspn(last, "\n"), last);
    else if (err == ERR_TIMEOUT)
        (void)error_set(e, err, "nothing in the log 10 s after SIGHUP");
    free(log);
    return err;
}

enum err daemon_launch(struct daemon *d, struct error *e)
{
    char log[PATH_MAX + 8];
    (void)snprintf(log, sizeof(log), "%s/log", d->directory);
    const char *argv[WRAPPER_MAX + 4];
    size_t n = 0;
    for (size_t i = 0; d->wrapper != NULL && d->wrapper[i] != NULL && i < WRAPPER_MAX; i++)
        argv[n++] = d->wrapper[i];
    argv[n++] = d->program != NULL ? d->program : TWINBLOOMD_PATH;
    argv[n++] = "-c";
    argv[n++] = d->config;
    argv[n] = NULL;
    enum err err = process_start(&d->process, argv, log, e);
    if (err != ERR_OK)
        return err;
    err = client_wait_ping(d->port, 20000, &d->process, e);
    if (err != ERR_OK) {
        process_show_log(&d->process, "twinbloomd");
        process_kill(&d->process);
        return error_prefix(e, err, "twinbloomd on port %u", d->port);
    }
    return ERR_OK;
}

enum err daemon_start(struct daemon *d, const struct daemon_options *o, struct error *e)
{
    enum err err = daemon_prepare(d, o, e);
    return err == ERR_OK ? daemon_launch(d, e) : err;
}

bool daemon_stop(struct daemon *d, unsigned deadline_ms)
{
    return process_stop(&d->process, deadline_ms);
}

void daemon_kill(struct daemon *d)
{
    process_kill(&d->process);
}

void daemon_pause(struct daemon *d)
{
    process_signal(&d->process, SIGSTOP);
}

void daemon_resume(struct daemon *d)
{
    process_signal(&d->process, SIGCONT);
}

enum err daemon_run(struct daemon *d, const char *argument, char **output, int *status, struct error *e)
{
    const char *argv[] = {TWINBLOOMD_PATH, argument, "-c", d->config, NULL};
    return process_run(argv, 20000, output, status, e);
}

bool daemon_fini(struct daemon *d)
{
    /* a process that crashed by itself still has its pid here; one that the test stopped or killed has
     * none */
    bool clean = d->process.pid == 0 || process_stop(&d->process, 20000);
    if (!clean)
        process_show_log(&d->process, "twinbloomd did not end cleanly");
    process_remove_directory(d->directory);
    *d = (struct daemon){0};
    return clean;
}
