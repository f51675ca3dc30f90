/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_TRAFFIC_H
#define TESTS_INTEGRATION_TRAFFIC_H
/* Clients of the filter FILTER in threads of their own. Writers, each with codes of its own, insert rows,
 * then add their codes. Checkers check codes that were acknowledged before. The results are judged when all
 * threads have ended. */
#include <pthread.h>
#include <stdatomic.h>
#include "tests/integration/fixture.h"

enum { TRAFFIC_WRITERS = 2, TRAFFIC_CHECKERS = 2, TRAFFIC_BATCH = 20 };

struct traffic;

struct traffic_writer {
    struct traffic *traffic;
    unsigned number;
    _Atomic uint64_t acknowledged; /* codes from traffic_code(number) + from on that were acknowledged */
    uint64_t longest_us;           /* of this writer's commands */
    uint64_t failures;
    struct error error; /* the first failure */
    pthread_t thread;
};

struct traffic_checker {
    struct traffic *traffic;
    unsigned number;
    _Atomic uint64_t checks; /* answered */
    uint64_t missed, missed_code;
    uint64_t longest_us;
    uint64_t failures;
    struct error error;
    pthread_t thread;
};

struct traffic {
    struct fixture *fixture;
    uint64_t rows; /* codes [0, rows) exist before */
    uint64_t from; /* how many codes each writer skips: those of an earlier traffic */
    uint64_t most; /* the greatest number of codes of a writer */
    atomic_bool stop;
    atomic_bool quiet; /* writers pause */
    struct traffic_writer writers[TRAFFIC_WRITERS];
    struct traffic_checker checkers[TRAFFIC_CHECKERS];
};

uint64_t traffic_code(unsigned writer);
/* Main thread only. */
void traffic_begin(struct traffic *t, struct fixture *f, uint64_t rows, uint64_t most);
void traffic_begin_from(struct traffic *t, struct fixture *f, uint64_t rows, uint64_t most, uint64_t from);
/* Join all threads; asserts nothing. */
void traffic_end(struct traffic *t);
/* No coordinator may have reported an acknowledged code absent, or report one absent now. @errors: commands
 * may have failed. */
void traffic_judge(struct traffic *t, bool errors);
#endif
