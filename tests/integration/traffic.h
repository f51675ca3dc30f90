/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_TRAFFIC_H
#define TESTS_INTEGRATION_TRAFFIC_H
/* Callers of the filter FILTER in threads of their own: writers, each with codes of its own, insert rows,
 * then add their codes; checkers ask for codes that were acknowledged before. What they saw is judged when
 * they have ended.
 */
#include <pthread.h>
#include <stdatomic.h>
#include "tests/integration/fixture.h"

enum { TRAFFIC_WRITERS = 2, TRAFFIC_CHECKERS = 2, TRAFFIC_BATCH = 20 };

struct traffic;

struct traffic_writer {
    struct traffic *traffic;
    unsigned number;
    _Atomic uint64_t acknowledged; /* its codes traffic_code(number) + from .. + this */
    uint64_t longest_us;           /* of its commands */
    uint64_t failures;
    struct error error; /* of the first one */
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
    uint64_t rows; /* codes [0, rows) are there already */
    uint64_t from; /* how many codes each writer passes over: those of a traffic before */
    uint64_t most; /* codes of a writer at the most */
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
/* No acknowledged code was reported absent, and none is now, by no coordinator. @errors: commands may have
 * failed. */
void traffic_judge(struct traffic *t, bool errors);
#endif
