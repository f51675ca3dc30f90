/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_COORDINATOR_H
#define TESTS_INTEGRATION_COORDINATOR_H
/* A coordinator's event loop with its catalog, in the test's own thread. It knows nothing of the world while
 * no operation runs: between two operations it is as one that was stopped. */
#include "shard/operation.h"
#include "tests/integration/filters.h"

enum { COORDINATOR_TIMEOUT_MS = 800, COORDINATOR_KEYS_MAX = 1000 };

struct coordinator {
    struct event_base *base;
    struct catalog *catalog;
    struct filter_policy policy; /* of filter "f"; others are not configured */
    unsigned lost;               /* times that on_lost was called for it */
    uint64_t lost_generation;    /* as it was told last */
    bool seen;                   /* it had a view */
    unsigned seen_from_look;     /* another thread sees every filter from that look on; 0: never */
    unsigned looks;
    struct latency latency; /* of Redis */
    /* Of the last operation: */
    bool done;
    bool retried;
    enum err status;
    char error[256];
    enum key_result result[COORDINATOR_KEYS_MAX];
};

void coordinator_open(struct coordinator *c, const struct servers *s, struct filter_policy policy);
/* Fine on one that is closed. */
void coordinator_close(struct coordinator *c);

/* Start an operation on the keys "k<first>" ..; @done is one of the two below. */
struct operation *coordinator_start(struct coordinator *c, enum operation_kind kind, const char *filter,
                                    unsigned first, unsigned count, operation_done_fn *done);
void coordinator_done(struct operation *op, void *arg);
void coordinator_done_release(struct operation *op, void *arg);
void coordinator_wait(struct coordinator *c);
void coordinator_run(struct coordinator *c, unsigned ms);

/* One operation on filter "f", from start to end: its status. */
enum err coordinator_ask(struct coordinator *c, enum operation_kind kind, unsigned first, unsigned count);
/* How many of the first @count results of the last operation are @wanted. */
unsigned coordinator_results(const struct coordinator *c, unsigned count, enum key_result wanted);
/* A check that must be answered: how many keys with @wanted. */
unsigned coordinator_check(struct coordinator *c, unsigned first, unsigned count, enum key_result wanted);
/* An add of which every key must be acknowledged. */
void coordinator_add(struct coordinator *c, unsigned first, unsigned count);
#endif
