/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_PAIR_H
#define TESTS_FAULT_PAIR_H
/* Two coordinators, keys that both of them add, and expansions of A that are held at a request. */
#include "tests/fault/creator.h"
#include "tests/fault/fault.h"

enum { A = 0, B = 1, PAIR_ROWS = 300 /* that the table keeps */ };

struct pair {
    struct world world;
    struct ledger *ledger;
    struct creator creators[2];
    bool flips;
    uint64_t state; /* of the random generator */
    uint64_t began; /* clock_mono_us() */
};

/* Start the world, with rows, and a filter that was built from them within @rest_ms. @as_job: as for
 * proxy_count_as_job(); NULL: no more connections count. */
MUST_CHECK enum err pair_start(struct pair *p, const struct world_options *w, unsigned rest_ms,
                               const char *as_job, const struct fault_options *o, struct error *e);
/* End all of it, and print how it went. @err and @e: what has failed. Returns the exit code. */
int pair_end(struct pair *p, enum err err, const struct error *e);

/* Make keys in both orders. It is fine if none is acknowledged, as the coordinator may be dead. */
void pair_create(struct pair *p, unsigned coordinator, unsigned count);
/* Keep the table's size, so that each run takes as many requests as the one before. */
void pair_forget_old_rows(struct pair *p);
/* All keys of the ledger must be there for the coordinator, and no other ones. */
MUST_CHECK enum err pair_check(struct pair *p, unsigned coordinator, struct error *e);

/* A expands until its job is held, or has ended without having come to its @n-th request. */
MUST_CHECK enum err pair_expand(struct pair *p, uint64_t n, enum proxy_moment moment, bool *held,
                                struct error *e);
#endif
