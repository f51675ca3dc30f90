/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_BYSTANDER_H
#define TESTS_INTEGRATION_BYSTANDER_H
/* An ordinary client in a thread of its own, beside clients that misbehave. It adds and checks keys of the
 * filter `calm`, and remembers the first answer that was wrong or missing. */
#include <pthread.h>
#include <stdatomic.h>
#include "tests/integration/fixture.h"

struct bystander {
    pthread_t thread;
    uint16_t port;
    atomic_bool stop;
    uint64_t rounds, longest_us;
    char failure[700]; /* "": none */
};

/* Main thread only. */
void bystander_start(struct bystander *b, uint16_t port);
/* Stop after at least one round. Fails the test if an answer was wrong. Main thread only. */
void bystander_stop(struct bystander *b);
#endif
