/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H
/* What all benchmarks share: medians, processor time and memory of processes, the table. */
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "base/error.h"

enum { ROUNDS_MAX = 31 };

/* bench_measure.c */
struct samples {
    unsigned count;
    double value[ROUNDS_MAX];
};
void samples_add(struct samples *s, double value);
double samples_median(const struct samples *s); /* 0 if empty */

/* CPU seconds that a Redis server has used, user and system. */
MUST_CHECK enum err measure_redis_cpu(redisContext *redis, double *out, struct error *e);
/* CPU seconds of any process, in ticks of 10 ms; 0 if the process is gone. */
double measure_process_cpu(pid_t pid);
/* VmRSS or VmHWM of a process in bytes; 0 if unknown. */
uint64_t measure_memory(pid_t pid, const char *field);
/* Reset VmHWM to the resident memory of now. */
MUST_CHECK enum err measure_reset_peak(pid_t pid, struct error *e);

/* bench_stalls.c: when the machine was not there */
enum {
    STALLS_MAX = 1 << 16,
    STALLS_PROCESSORS = 64 /* those behind them are not watched */
};
struct stalls {
    pthread_t thread[STALLS_PROCESSORS];
    bool watched[STALLS_PROCESSORS];
    bool told; /* the system does not let us precede others, so no stall is known */
    atomic_bool stops;
    atomic_uint count;
    struct stall_time {
        uint64_t from, to; /* monotonic us */
    } stall[STALLS_MAX];
};
void stalls_start(struct stalls *s);
void stalls_stop(struct stalls *s);
/* After stalls_stop(): whether a stall may have delayed what took from @from to @to. */
bool stalls_touch(const struct stalls *s, uint64_t from, uint64_t to);
/* After stalls_stop(): us of the longest stall between @from and @to. */
uint64_t stalls_longest(const struct stalls *s, uint64_t from, uint64_t to);

/* bench_table.c */
void table_heading(const char *title, const char *columns);
/* Print one line: a figure and its target. Missed targets are counted. */
void table_target(const char *what, double value, const char *unit, bool at_most, double limit);
/* Print one line without a target, beside the figure above it. */
void table_beside(const char *what, double value, const char *unit);
unsigned table_missed(void);
#endif
