/* SPDX-License-Identifier: MIT */
/* A rebuild seen from outside: the command line starts it and waits. Meanwhile TB.STATUS is sent every 5 ms,
 * so that the time of each step is known to a few milliseconds. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/clock.h"
#include "bench.h"

enum { LOOK_EVERY_US = 5000, LONGEST_US = 300000000 };

static bool working(const struct status *s)
{
    return strcasecmp(s->job_state, "running") == 0 || strcasecmp(s->job_state, "waiting") == 0;
}

enum err rebuild_wait_built(redisContext *daemon, const char *filter, unsigned seconds, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)seconds * 1000000;
    struct status s;
    do {
        enum err err = observe_status(daemon, filter, &s, e);
        if (err == ERR_PARSE) { /* the filter is not made yet */
            clock_sleep_us(50000);
            continue;
        }
        if (err != ERR_OK)
            return err;
        if (strcasecmp(s.job_state, "failed") == 0)
            return error_set(e, ERR_REFUSED, "the first build of %s failed in %s: %s", filter, s.job_step,
                             s.job_error);
        if (s.built && strcasecmp(s.phase, "STEADY") == 0 && !working(&s))
            return ERR_OK;
        clock_sleep_us(50000);
    } while (clock_mono_us() < until);
    return error_set(e, ERR_TIMEOUT, "%s is not built after %u s; it is %s in step %s %s", filter, seconds,
                     s.job_state, s.job_step, s.job_waiting_for);
}

static void add_step(struct rebuild_result *out, const char *name, double seconds)
{
    unsigned i = 0;
    while (i < out->steps && strcmp(out->step[i].name, name) != 0)
        i++;
    if (i == STEPS_SHOWN)
        return;
    if (i == out->steps) {
        (void)snprintf(out->step[i].name, sizeof(out->step[i].name), "%s", name);
        out->steps++;
    }
    out->step[i].seconds += seconds;
}

struct watch {
    uint64_t start_us, last_us;
    uint64_t first_us;  /* the job was first seen at work */
    uint64_t worked_us; /* the job was last seen at work */
    uint64_t generation;
    bool flipped;
};

static void look(struct watch *w, const struct status *s, struct rebuild_result *out)
{
    uint64_t now = clock_mono_us();
    if (working(s)) {
        if (w->first_us == 0)
            w->first_us = w->last_us;
        w->worked_us = now;
        add_step(out, s->job_step, (double)(now - w->last_us) / 1e6);
        if (s->job_rows > out->rows)
            out->rows = s->job_rows;
    }
    if (!w->flipped && (strcasecmp(s->phase, "SWITCHED") == 0 || s->generation != w->generation)) {
        w->flipped = true;
        out->to_cutover_seconds = (double)(now - (w->first_us != 0 ? w->first_us : w->start_us)) / 1e6;
    }
    w->last_us = now;
}

static enum err slowlog(redisContext *redis, const char *what, uint64_t *length, struct error *e)
{
    redisReply *r = redisCommand(redis, "SLOWLOG %s", what);
    enum err err = ERR_OK;
    if (r == NULL || r->type == REDIS_REPLY_ERROR)
        err = error_set(e, ERR_REFUSED, "SLOWLOG: %s", r == NULL ? redis->errstr : r->str);
    else if (length != NULL)
        *length = (uint64_t)r->integer;
    freeReplyObject(r);
    return err;
}

enum err slowlog_begin(redisContext *redis, struct error *e)
{
    redisReply *r =
        redisCommand(redis, "CONFIG SET slowlog-log-slower-than %d slowlog-max-len 1000", SLOW_US);
    bool set = r != NULL && r->type == REDIS_REPLY_STATUS;
    freeReplyObject(r);
    if (!set)
        return error_set(e, ERR_REFUSED, "the slow log cannot be set up");
    return slowlog(redis, "RESET", NULL, e);
}

/* Entries are [id, time, microseconds, [argument...], ...]. */
void slowlog_print(redisContext *redis)
{
    redisReply *r = redisCommand(redis, "SLOWLOG GET 10");
    for (size_t i = 0; r != NULL && r->type == REDIS_REPLY_ARRAY && i < r->elements; i++) {
        const redisReply *entry = r->element[i];
        if (entry->elements < 4 || entry->element[3]->elements == 0)
            continue;
        (void)printf("    slow: %lld us:", entry->element[2]->integer);
        for (size_t a = 0; a < entry->element[3]->elements && a < 5; a++)
            (void)printf(" %.60s", entry->element[3]->element[a]->str);
        (void)printf("\n");
    }
    freeReplyObject(r);
}

static enum err prepare(const struct rebuild_target *t, struct watch *w, struct rebuild_result *out,
                        struct error *e)
{
    struct status s;
    memset(out, 0, sizeof(*out));
    enum err err = observe_status(t->daemon, t->filter, &s, e);
    if (err != ERR_OK)
        return err;
    err = slowlog_begin(t->redis, e);
    if (err == ERR_OK)
        err = measure_reset_peak(t->pid, e);
    out->idle_bytes = measure_memory(t->pid, "VmRSS");
    *w = (struct watch){.generation = s.generation};
    w->start_us = w->last_us = clock_mono_us();
    return err;
}

static enum err see_through(const struct rebuild_target *t, pid_t pid, struct watch *w,
                            struct rebuild_result *out, struct error *e)
{
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0) {
        struct status s;
        enum err err = observe_status(t->daemon, t->filter, &s, e);
        if (err == ERR_OK && clock_mono_us() - w->start_us > LONGEST_US)
            err = error_set(e, ERR_TIMEOUT, "the rebuild is in step %s after %d s", s.job_step,
                            LONGEST_US / 1000000);
        if (err != ERR_OK) {
            (void)kill(pid, SIGTERM);
            (void)waitpid(pid, &status, 0);
            return err;
        }
        look(w, &s, out);
        clock_sleep_us(LOOK_EVERY_US);
    }
    if (ended < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return error_set(e, ERR_REFUSED, "the rebuild failed: %s", t->command);
    return ERR_OK;
}

enum err rebuild_watch(const struct rebuild_target *t, struct rebuild_result *out, struct error *e)
{
    struct watch w = {0};
    enum err err = prepare(t, &w, out, e);
    if (err != ERR_OK)
        return err;
    char shell[] = "/bin/sh";
    char option[] = "-c";
    char *command = strdup(t->command);
    char *argv[] = {shell, option, command, NULL};
    pid_t pid;
    int error = command == NULL ? ENOMEM : posix_spawn(&pid, shell, NULL, NULL, argv, environ);
    free(command);
    if (error != 0)
        return error_set(e, ERR_IO, "%s: %s", t->command, strerror(error));
    err = see_through(t, pid, &w, out, e);
    if (err != ERR_OK)
        return err;
    out->all_seconds = (double)(w.worked_us - w.first_us) / 1e6;
    out->peak_bytes = measure_memory(t->pid, "VmHWM");
    for (unsigned i = 0; i < out->steps; i++)
        if (strcasecmp(out->step[i].name, "scan") == 0)
            out->scan_seconds = out->step[i].seconds;
    if (out->rows == 0 || out->scan_seconds <= 0 || !w.flipped)
        return error_set(e, ERR_PARSE,
                         "the rebuild ended without a scan or without a cutover that could be seen");
    err = slowlog(t->redis, "LEN", &out->slow, e);
    if (err == ERR_OK && out->slow > 0)
        slowlog_print(t->redis);
    return err;
}
