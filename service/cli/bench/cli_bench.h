/* SPDX-License-Identifier: MIT */
#ifndef SERVICE_CLI_BENCH_CLI_BENCH_H
#define SERVICE_CLI_BENCH_CLI_BENCH_H
/* bench: puts load on a BF.* server and measures latencies. The happy path is: make a filter, add its first
 * keys in large batches, check and add over several connections for some time, delete the filter. Keys are
 * numbered: those below `keys` are present from the beginning, `keys` more are never added, so that it is
 * known whether an answer is right; adds use those behind. Possible failure modes are: the filter's name is
 * taken (nothing is started); a connection breaks (it is opened again while there is time); Ctrl-C (the
 * filter is deleted all the same). */
#include <pthread.h>
#include <stdatomic.h>
#include "base/histogram.h"
#include "service/cli/common/cli.h"

cli_handler cli_bench;

enum bench_command { BENCH_EXISTS, BENCH_ADD, BENCH_COMMANDS };
enum {
    BENCH_KEY_MIN = 8,
    BENCH_KEY_MAX = 512,
    BENCH_BATCH_MAX = 1000,
    BENCH_PIPELINE_MAX = 1000,
    BENCH_CONNECTIONS_MAX = 512
};

/* Measurements of one thread, or of all. */
struct bench_figures {
    struct histogram latency[BENCH_COMMANDS]; /* us; with --rate from the time at which a request was due */
    uint64_t keys[BENCH_COMMANDS];
    uint64_t errors[BENCH_COMMANDS]; /* error replies, for requests or for keys */
    uint64_t asked_present, false_negatives;
    uint64_t asked_absent, false_positives;
    uint64_t disconnects;
    char error[512]; /* the first one */
};

/* Figures that the server reports about itself. */
struct bench_server {
    bool known;       /* it reports processor time */
    bool coordinator; /* Twinbloom's coordinator; its Redis uses processor time, too */
    double cpu_s;
};

struct bench {
    struct cli *cli;
    const struct cli_bench *o;
    char filter[160];
    const char *command[BENCH_COMMANDS]; /* BF.EXISTS or BF.MEXISTS, ... */
    uint64_t begin_us, end_us;
    atomic_uint_fast64_t requests; /* number of requests begun */
    atomic_uint_fast64_t added;    /* number of keys used by adds */
    atomic_bool stop;
    struct bench_server before, after; /* before and after the load */
};

struct bench_thread {
    struct bench *bench;
    size_t connections;
    pthread_t id;
    uint64_t random;
    uint64_t ended_us; /* as clock_mono_us() */
    struct bench_figures figures;
};

/* Write the @number-th key to @out, @size bytes without a NUL. */
void bench_key(char *out, uint64_t number, size_t size);

/* Thread function: argument and result are its struct bench_thread. */
void *bench_run(void *arg);

/* How many adds have repeated an earlier key. */
uint64_t bench_added_again(const struct bench *b);

void bench_merge(struct bench_figures *into, const struct bench_figures *from);
void bench_print(const struct bench *b, const struct bench_figures *all, double seconds, double load_seconds);
void bench_print_json(const struct bench *b, const struct bench_figures *all, double seconds,
                      double load_seconds);
#endif
