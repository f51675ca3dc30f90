/* SPDX-License-Identifier: MIT */
#ifndef TESTS_INTEGRATION_COORDINATOR_H
#define TESTS_INTEGRATION_COORDINATOR_H
/* A coordinator's event loop with its catalog, in the test's own thread. It knows nothing of the world while
 * no operation runs: between two operations it is as one that was stopped. */
#include "shard/operation.h"
#include "tests/integration/filters.h"

enum {
    COORDINATOR_TIMEOUT_MS = 800,
    COORDINATOR_PATIENT_MS = 15000, /* for what must succeed, on however busy a machine */
    COORDINATOR_LATE_TURNS = 30,    /* of 10 ms: still in time */
    COORDINATOR_KEYS_MAX = 1000
};

struct coordinator {
    struct event_base *base;
    struct catalog *catalog;
    uint64_t lost_generation;    /* as on_lost was told last */
    uint64_t deadline;           /* of the last operation */
    struct latency latency;      /* of Redis */
    struct filter_policy policy; /* of filter "f"; others are not configured */
    unsigned lost;               /* times that on_lost was called */
    unsigned suspect;            /* times that on_suspect was */
    unsigned seen_from_look;     /* another thread sees every filter from that look on; 0: never */
    unsigned looks;
    unsigned give_ms; /* that an operation has */
    /* Of the last operation: */
    unsigned
        late_turns; /* of the loop, begun behind its deadline; a machine that is busy makes them no more */
    enum err status;
    enum key_result result[COORDINATOR_KEYS_MAX];
    bool done;
    bool retried;
    bool seen;   /* not of it: there was a view */
    bool unsure; /* whether what is lost lies elsewhere, still, is not known */
    char error[256];
};

void coordinator_open(struct coordinator *c, const struct servers *s, struct filter_policy policy);
/* The same, with COORDINATOR_PATIENT_MS for an operation. */
void coordinator_open_patient(struct coordinator *c, const struct servers *s, struct filter_policy policy);
/* An operation has COORDINATOR_TIMEOUT_MS, or what was given here: more where a busy machine must not end it.
 */
void coordinator_give(struct coordinator *c, unsigned ms);
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
