/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_BENCH_H
#define SERVICE_CLI_BENCH_H
/* bench: load on a BF.* server, and how long its answers take. The happy path is: a filter is made, its first
 * keys are added in large batches, connections then ask and add for a while, the filter is deleted. Keys are
 * numbered: those below `keys` are in from the beginning, `keys` more are never added, so that an answer is
 * known to be right or wrong; adds take those behind. Possible failure modes are: the filter's name is taken,
 * so nothing is begun; a connection breaks and is made again while there is time; Ctrl-C, after which the
 * filter is deleted all the same. */
#include <pthread.h>
#include <stdatomic.h>
#include "base/histogram.h"
#include "service/cli/cli.h"

enum bench_command { BENCH_EXISTS, BENCH_ADD, BENCH_COMMANDS };
enum {
    BENCH_KEY_MIN = 8,
    BENCH_KEY_MAX = 512,
    BENCH_BATCH_MAX = 1000,
    BENCH_PIPELINE_MAX = 1000,
    BENCH_THREADS_MAX = 512
};

/* What one connection, or all of them, have seen. */
struct bench_figures {
    struct histogram latency[BENCH_COMMANDS]; /* us; with --rate from when a request was due */
    uint64_t keys[BENCH_COMMANDS];
    uint64_t errors[BENCH_COMMANDS]; /* error replies, to requests or to keys */
    uint64_t asked_present, false_negatives;
    uint64_t asked_absent, false_positives;
    uint64_t disconnects;
    char error[512]; /* the first */
};

/* What the server says of itself. */
struct bench_server {
    bool known;       /* how much of the processor it has used */
    bool coordinator; /* Twinbloom's, whose Redis uses some as well */
    double cpu_s;
};

struct bench {
    struct cli *cli;
    const struct cli_bench *o;
    char filter[160];
    const char *command[BENCH_COMMANDS]; /* BF.EXISTS or BF.MEXISTS, ... */
    uint64_t begin_us, end_us;
    atomic_uint_fast64_t requests; /* that were begun */
    atomic_uint_fast64_t added;    /* keys that adds have taken */
    atomic_bool stop;
    struct bench_server before, after; /* the load */
};

struct bench_thread {
    struct bench *bench;
    pthread_t id;
    uint64_t random;
    uint64_t ended_us; /* as clock_mono_us() */
    struct bench_figures figures;
};

/* The @number-th key in @size bytes, without a NUL. */
void bench_key(char *out, uint64_t number, size_t size);

/* A thread: argument and result are its struct bench_thread. */
void *bench_run(void *arg);

/* Of the keys that adds have taken, those that they had taken before. */
uint64_t bench_added_again(const struct bench *b);

void bench_merge(struct bench_figures *into, const struct bench_figures *from);
void bench_print(const struct bench *b, const struct bench_figures *all, double seconds, double load_seconds);
void bench_print_json(const struct bench *b, const struct bench_figures *all, double seconds,
                      double load_seconds);
#endif
