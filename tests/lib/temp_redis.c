/* SPDX-License-Identifier: MIT */
#include "tests/lib/temp_redis.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/client.h"

static void data_directory(const struct temp_redis *r, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/data", r->directory);
}

const char *temp_redis_program(void)
{
    const char *given = getenv("TWINBLOOM_REDIS_SERVER");
    return given != NULL && given[0] != '\0' ? given : "redis-server";
}

bool temp_redis_is_before_7(void)
{
    static int answer = -1; /* -1: not known yet */
    char line[PATH_MAX + 16];
    if (answer >= 0)
        return answer == 1;
    (void)snprintf(line, sizeof(line), "%s --version", temp_redis_program());
    FILE *pipe = popen(line, "re");
    if (pipe == NULL || fgets(line, sizeof(line), pipe) == NULL)
        line[0] = '\0';
    if (pipe != NULL)
        (void)pclose(pipe);
    answer = strstr(line, "server v=6.") != NULL; /* "Redis server v=6.2.16 ..." */
    return answer == 1;
}

static enum err launch(struct temp_redis *r, struct error *e)
{
    char port[8];
    char data[PATH_MAX + 8];
    char log[PATH_MAX + 8];
    (void)snprintf(port, sizeof(port), "%u", r->port);
    data_directory(r, data, sizeof(data));
    (void)snprintf(log, sizeof(log), "%s/log", r->directory);
    if (mkdir(data, 0755) != 0 && access(data, W_OK) != 0)
        return error_set(e, ERR_IO, "mkdir %s failed", data);
    const char *argv[16 + TEMP_REDIS_ARGS_MAX] = {
        temp_redis_program(), "--port", port, "--bind", "127.0.0.1", "--dir", data, "--save", "",
        "--appendonly",       "no"};
    size_t n = 11;
    if (!temp_redis_is_before_7()) { /* earlier versions allow DEBUG without this option */
        argv[n++] = "--enable-debug-command";
        argv[n++] = "yes";
    }
    for (size_t i = 0; i < r->extra_count; i++)
        argv[n++] = r->extra[i];
    argv[n] = NULL;
    enum err err = process_start(&r->process, argv, log, e);
    if (err != ERR_OK)
        return err;
    err = client_wait_ping(r->port, 10000, &r->process, e);
    if (err != ERR_OK) {
        process_show_log(&r->process, temp_redis_program());
        process_kill(&r->process);
        return error_prefix(e, err, "%s on port %u", temp_redis_program(), r->port);
    }
    return ERR_OK;
}

enum err temp_redis_prepare(struct temp_redis *r, const char *const extra[], struct error *e)
{
    *r = (struct temp_redis){0};
    for (size_t i = 0; extra != NULL && extra[i] != NULL; i++) {
        if (r->extra_count == TEMP_REDIS_ARGS_MAX)
            return error_set(e, ERR_RANGE, "more than %d arguments for redis-server", TEMP_REDIS_ARGS_MAX);
        r->extra[r->extra_count++] = extra[i];
    }
    r->port = process_free_port();
    if (r->port == 0)
        return error_set(e, ERR_IO, "no free loopback port");
    (void)snprintf(r->url, sizeof(r->url), "redis://127.0.0.1:%u", r->port);
    return process_make_directory(r->directory, "redis", e);
}

enum err temp_redis_start(struct temp_redis *r, const char *const extra[], struct error *e)
{
    enum err err = temp_redis_prepare(r, extra, e);
    if (err == ERR_OK)
        err = launch(r, e);
    if (err != ERR_OK)
        temp_redis_fini(r);
    return err;
}

void temp_redis_stop(struct temp_redis *r)
{
    (void)process_stop(&r->process, 10000);
}

void temp_redis_kill(struct temp_redis *r)
{
    process_kill(&r->process);
}

enum err temp_redis_restart(struct temp_redis *r, bool keep_data, struct error *e)
{
    temp_redis_stop(r);
    if (!keep_data) {
        char data[PATH_MAX + 8];
        data_directory(r, data, sizeof(data));
        process_remove_directory(data);
    }
    return launch(r, e);
}

void temp_redis_fini(struct temp_redis *r)
{
    temp_redis_stop(r);
    process_remove_directory(r->directory);
    *r = (struct temp_redis){0};
}
