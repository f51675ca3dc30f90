/* SPDX-License-Identifier: MIT */
#ifndef TESTS_STALL_LOAD_H
#define TESTS_STALL_LOAD_H
/* Connections that check and add without pause, one request at a time, with a thread each. The times of all
 * requests are kept, and evaluated when all connections have stopped. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <hiredis/hiredis.h>
#include "base/error.h"
#include "measure.h"

enum { LOADERS_MAX = 32 };

/* Microseconds since the load's start. */
struct request_time {
    uint32_t begin, end;
};

struct loader {
    struct load *load;
    pthread_t thread;
    bool started;
    redisContext *connection;
    uint64_t fresh; /* counter of the next code to add */
    struct request_time *times;
    size_t count;
    struct error error; /* text is "": no error */
};

struct load {
    const char *filter;
    uint64_t known; /* the codes of counters below it are in the filter */
    uint64_t start_us;
    atomic_bool stop;
    unsigned count;
    struct loader loader[LOADERS_MAX];
    struct stalls stalls;
};

/* Start @count connections, which are distributed over the @daemons of @ports. @round keeps the keys of
 * rounds apart. */
MUST_CHECK enum err load_start(struct load *l, const uint16_t *ports, unsigned daemons, unsigned count,
                               unsigned round, struct error *e);
/* Stop all connections. ERR_REFUSED: a reply was an error. ERR_LOST: a known key was reported absent. */
MUST_CHECK enum err load_stop(struct load *l, struct error *e);
void load_free(struct load *l);
/* Return the microseconds since the start. */
uint32_t load_now(const struct load *l);

struct load_figures {
    uint64_t requests; /* that ended in the window */
    /* Of what no stall of the machine touched: */
    double longest_ms;  /* of the requests under way in the window */
    double gap_ms;      /* longest time in it without a reply on any connection */
    double quantile_ms; /* 0.99 quantile of the requests that ended in it */
    double machine_ms;  /* the longest stall of the machine itself */
};

/* After load_stop(): evaluate the window from @from to @to. */
void load_look(const struct load *l, uint32_t from, uint32_t to, struct load_figures *out);
#endif
