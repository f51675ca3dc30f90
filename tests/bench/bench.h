/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H
/* The benchmark's parts: workloads driven over pipelined connections, rebuilds watched from outside. */
#include <hiredis/hiredis.h>
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/buffer.h"
#include "base/error.h"
#include "deploy/codes.h"
#include "deploy/keyset.h"
#include "deploy/observe.h"
#include "measure.h"

enum { LANES = 4, DEPTH = 64, TIMEOUT_MS = 60000, PAGE_ROWS = 10000 };

/* bench_pipeline.c: requests are formatted beforehand, and sent batch by batch over LANES connections, with a
 * thread each. */
struct lane {
    redisContext *connection;
    struct buffer bytes; /* all batches, one after the other */
    size_t *batch_end;   /* offsets into bytes */
    size_t batches;
    size_t commands; /* in each batch */
};

struct pipeline {
    struct lane lane[LANES];
    uint64_t keys; /* in all lanes */
};

struct run_result {
    double seconds;
    double redis_cpu;
    double daemon_cpu;
};

/* Append the command for the keys with the numbers @first to @first + @keys - 1. */
typedef void format_fn(void *arg, struct buffer *out, uint64_t first, unsigned keys);

struct workload {
    const char *name;
    uint16_t port;        /* of the daemon or of Redis */
    unsigned depth;       /* commands in a batch */
    unsigned per_command; /* keys in a command */
    uint64_t keys;        /* in a round; rounded down to whole batches in all lanes */
    format_fn *format;
    void *arg;
};

MUST_CHECK enum err pipeline_make(struct pipeline *p, const struct workload *w, uint64_t first_key,
                                  struct error *e);
void pipeline_free(struct pipeline *p);
/* Send everything and wait for all replies; an error reply is an error. */
MUST_CHECK enum err pipeline_run(struct pipeline *p, redisContext *redis, pid_t daemon,
                                 struct run_result *out, struct error *e);

/* bench_rebuild.c */
enum { STEPS_SHOWN = 24 };
struct rebuild_result {
    uint64_t rows;
    double scan_seconds;
    double to_cutover_seconds; /* from the first step to the cutover */
    double all_seconds;        /* of the job, with its grace time */
    uint64_t idle_bytes;       /* resident before the rebuild */
    uint64_t peak_bytes;
    uint64_t slow; /* Redis commands that took longer than SLOW_US */
    struct {
        char name[32];
        double seconds;
    } step[STEPS_SHOWN];
    unsigned steps;
};
enum { SLOW_US = 3000 };

struct rebuild_target {
    redisContext *daemon; /* for TB.STATUS */
    redisContext *redis;
    pid_t pid;
    const char *filter;
    const char *command; /* for /bin/sh */
};
MUST_CHECK enum err rebuild_watch(const struct rebuild_target *t, struct rebuild_result *out,
                                  struct error *e);
/* Empty the slow log. From now on it records commands that take longer than SLOW_US. */
MUST_CHECK enum err slowlog_begin(redisContext *redis, struct error *e);
/* Print the last ten slow commands, for people. */
void slowlog_print(redisContext *redis);
/* Wait until @filter is built and no job runs. */
MUST_CHECK enum err rebuild_wait_built(redisContext *daemon, const char *filter, unsigned seconds,
                                       struct error *e);
#endif
