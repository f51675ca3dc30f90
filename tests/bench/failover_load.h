/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAILOVER_LOAD_H
#define TESTS_FAILOVER_LOAD_H
/* Callers that go on while masters die: writers insert rows and add their codes, checkers ask for codes that
 * were acknowledged. Codes are 'c' and a number: [0, rows) are in the table from the beginning. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

enum { WRITERS = 2, CHECKERS = 4, BATCH = 20, SLOW_REPLY_US = 1000000 };

struct failover_load;

struct caller {
    struct failover_load *load;
    unsigned number;
    bool started;
    pthread_t thread;
    _Atomic uint64_t keys;        /* answered; of a writer: acknowledged, its codes code_from(number) .. */
    _Atomic uint64_t failed;      /* commands with an error in their reply */
    _Atomic uint64_t absent;      /* acknowledged codes that were reported absent */
    _Atomic uint64_t last_bad_us; /* clock_mono_us() when a command ended that failed, or took long */
    char why[160];                /* of the first failure */
};

struct failover_load {
    const char *filter, *dsn;
    uint16_t port[2]; /* of the coordinators */
    uint64_t rows;
    atomic_bool stop;
    struct caller writer[WRITERS], checker[CHECKERS];
};

/* The first four members are the caller's. */
MUST_CHECK enum err failover_load_start(struct failover_load *l, struct error *e);
void failover_load_stop(struct failover_load *l);

struct failover_sum {
    uint64_t acknowledged, checked, failed, absent;
    uint64_t last_bad_us; /* 0: never */
};
struct failover_sum failover_load_sum(struct failover_load *l);
/* For people: why something failed first. */
const char *failover_load_why(const struct failover_load *l);

/* Ask coordinator @d for all codes that are acknowledged by now and every @step-th of the first rows;
 * *@absent: how many it denies, *@asked: of how many. An error is one. */
MUST_CHECK enum err failover_load_verify(struct failover_load *l, unsigned d, uint64_t step, uint64_t *absent,
                                         uint64_t *asked, struct error *e);
#endif
