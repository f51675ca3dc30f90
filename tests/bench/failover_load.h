/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAILOVER_LOAD_H
#define TESTS_FAILOVER_LOAD_H
/* Callers that continue while masters die: writers insert rows and add their codes, checkers check codes that
 * were acknowledged. A code is 'c' and a number. The codes [0, rows) are in the table from the beginning. */
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
    _Atomic uint64_t keys;        /* answered; of a writer: acknowledged, from code_from(number) on */
    _Atomic uint64_t failed;      /* commands with an error in their reply */
    _Atomic uint64_t absent;      /* acknowledged codes that were reported absent */
    _Atomic uint64_t last_bad_us; /* clock_mono_us() at the end of the last command that failed or was slow */
    char why[160];                /* of the first failure */
};

struct failover_load {
    const char *filter, *dsn;
    uint16_t port[2]; /* of the coordinators */
    uint64_t rows;
    atomic_bool stop;
    struct caller writer[WRITERS], checker[CHECKERS];
};

/* The caller sets the first four members. */
MUST_CHECK enum err failover_load_start(struct failover_load *l, struct error *e);
void failover_load_stop(struct failover_load *l);

struct failover_sum {
    uint64_t acknowledged, checked, failed, absent;
    uint64_t last_bad_us; /* 0: never */
};
struct failover_sum failover_load_sum(struct failover_load *l);
/* Return why something failed first, for people. */
const char *failover_load_why(const struct failover_load *l);

/* Check with coordinator @d all codes that are acknowledged by now, and one in @step of the first rows.
 * *@asked: the number of these codes; *@absent: how many of them the coordinator reports absent. */
MUST_CHECK enum err failover_load_verify(struct failover_load *l, unsigned d, uint64_t step, uint64_t *absent,
                                         uint64_t *asked, struct error *e);
#endif
