/* SPDX-License-Identifier: MIT */
#ifndef TESTS_BENCH_MEASURE_H
#define TESTS_BENCH_MEASURE_H
/* What all benchmarks share: medians, processor time and memory of processes, the table. */
#include <hiredis/hiredis.h>
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

/* bench_table.c */
void table_heading(const char *title, const char *columns);
/* Print one line: a figure and its target. Missed targets are counted. */
void table_target(const char *what, double value, const char *unit, bool at_most, double limit);
/* Print one line without a target, beside the figure above it. */
void table_beside(const char *what, double value, const char *unit);
unsigned table_missed(void);
#endif
