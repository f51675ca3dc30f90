/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_TRAFFIC_H
#define TESTS_FAULT_TRAFFIC_H
/* Threads that make keys, check acknowledged ones, and order rebuilds, through every coordinator. */
#include <stdbool.h>
#include <stdint.h>

#include "tests/fault/ledger.h"
#include "tests/fault/world.h"

struct traffic;

struct traffic_counts {
    uint64_t creations, creations_failed; /* attempts; those without an acknowledgement */
    uint64_t checks, checks_failed;       /* commands; those without an answer */
    uint64_t rebuilds, requests;          /* rebuilds that began; other requests that were accepted */
    uint64_t worst_us;                    /* the longest wait for an answer to a command */
};

struct traffic *traffic_start(const struct world *w, struct ledger *l, uint64_t seed);

/* While @on, an operator orders rebuilds and sends all other requests about jobs. When it is turned off,
 * holds and pauses end. */
void traffic_rebuild(struct traffic *t, bool on);

struct traffic_counts traffic_counts(struct traffic *t);

/* End the threads. NULL is fine. */
void traffic_stop(struct traffic *t);
#endif
