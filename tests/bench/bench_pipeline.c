/* SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "bench.h"

static enum err lane_make(struct lane *l, const struct workload *w, uint64_t first, struct error *e)
{
    l->commands = w->depth;
    l->batch_end = calloc(l->batches, sizeof(*l->batch_end));
    if (l->batch_end == NULL)
        return error_set(e, ERR_NOMEM, "no memory for batches");
    for (size_t b = 0; b < l->batches; b++) {
        for (unsigned i = 0; i < w->depth; i++, first += w->per_command)
            w->format(w->arg, &l->bytes, first, w->per_command);
        l->batch_end[b] = l->bytes.length;
    }
    if (buffer_failed(&l->bytes))
        return error_set(e, ERR_NOMEM, "no memory for requests");
    enum err err = observe_connect(&l->connection, w->port, TIMEOUT_MS, w->name, e);
    if (err == ERR_OK)
        /* Replies are parsed without making objects: the returned pointer is the type. */
        l->connection->reader->fn = NULL;
    return err;
}

enum err pipeline_make(struct pipeline *p, const struct workload *w, uint64_t first_key, struct error *e)
{
    memset(p, 0, sizeof(*p));
    size_t batches = (size_t)(w->keys / ((uint64_t)LANES * w->depth * w->per_command));
    p->keys = (uint64_t)batches * LANES * w->depth * w->per_command;
    enum err err = ERR_OK;
    for (unsigned i = 0; err == ERR_OK && i < LANES; i++) {
        p->lane[i].batches = batches;
        err = lane_make(&p->lane[i], w, first_key + p->keys / LANES * i, e);
    }
    return err;
}

void pipeline_free(struct pipeline *p)
{
    for (unsigned i = 0; i < LANES; i++) {
        redisFree(p->lane[i].connection);
        buffer_fini(&p->lane[i].bytes);
        free(p->lane[i].batch_end);
    }
}

struct lane_run {
    pthread_t thread;
    struct lane *lane;
    pthread_barrier_t *barrier;
    bool failed;
};

static bool lane_batch(struct lane *l, const char *bytes, size_t length)
{
    if (redisAppendFormattedCommand(l->connection, bytes, length) != REDIS_OK)
        return false;
    for (size_t i = 0; i < l->commands; i++) {
        void *type;
        if (redisGetReply(l->connection, &type) != REDIS_OK || (uintptr_t)type == REDIS_REPLY_ERROR)
            return false;
    }
    return true;
}

static void *lane_thread(void *arg)
{
    struct lane_run *run = arg;
    struct lane *l = run->lane;
    size_t begin = 0;
    (void)pthread_barrier_wait(run->barrier);
    for (size_t b = 0; b < l->batches && !run->failed; b++) {
        run->failed = !lane_batch(l, l->bytes.data + begin, l->batch_end[b] - begin);
        begin = l->batch_end[b];
    }
    return NULL;
}

enum err pipeline_run(struct pipeline *p, redisContext *redis, pid_t daemon, struct run_result *out,
                      struct error *e)
{
    pthread_barrier_t barrier;
    struct lane_run run[LANES];
    double cpu_before;
    double cpu_after = 0;
    enum err err = measure_redis_cpu(redis, &cpu_before, e);
    if (err != ERR_OK)
        return err;
    double daemon_before = daemon > 0 ? measure_process_cpu(daemon) : 0;
    (void)pthread_barrier_init(&barrier, NULL, LANES + 1);
    for (unsigned i = 0; i < LANES; i++) {
        run[i] = (struct lane_run){.lane = &p->lane[i], .barrier = &barrier};
        if (pthread_create(&run[i].thread, NULL, lane_thread, &run[i]) != 0) {
            /* The other threads wait at the barrier for ever, so nothing sensible is left to do. */
            (void)fprintf(stderr, "bench: a thread cannot be started\n");
            exit(1);
        }
    }
    (void)pthread_barrier_wait(&barrier);
    uint64_t start = clock_mono_us();
    for (unsigned i = 0; i < LANES; i++) {
        (void)pthread_join(run[i].thread, NULL);
        if (run[i].failed)
            err = error_set(e, ERR_REFUSED, "a request failed: %s",
                            p->lane[i].connection->err != 0 ? p->lane[i].connection->errstr : "error reply");
    }
    out->seconds = (double)(clock_mono_us() - start) / 1e6;
    (void)pthread_barrier_destroy(&barrier);
    if (err == ERR_OK)
        err = measure_redis_cpu(redis, &cpu_after, e);
    out->redis_cpu = cpu_after - cpu_before;
    out->daemon_cpu = daemon > 0 ? measure_process_cpu(daemon) - daemon_before : 0;
    return err;
}
