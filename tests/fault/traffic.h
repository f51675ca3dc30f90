/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_TRAFFIC_H
#define TESTS_FAULT_TRAFFIC_H
/* Threads that make keys, ask for acknowledged ones, and order rebuilds, through every coordinator. */
#include <stdbool.h>
#include <stdint.h>

#include "tests/fault/ledger.h"
#include "tests/fault/world.h"

struct traffic;

struct traffic_counts {
    uint64_t creations, creations_failed; /* tried; not acknowledged */
    uint64_t checks, checks_failed;       /* commands; not answered */
    uint64_t rebuilds, requests;          /* that were begun; other requests that were taken */
    uint64_t worst_us;                    /* the longest wait for an answer to a command */
};

struct traffic *traffic_start(const struct world *w, struct ledger *l, uint64_t seed);

/* While it is true an operator orders rebuilds and asks for all else that can be asked of a job; then holds
 * and pauses are taken back. */
void traffic_rebuild(struct traffic *t, bool on);

struct traffic_counts traffic_counts(struct traffic *t);

/* Ends the threads. NULL is fine. */
void traffic_stop(struct traffic *t);
#endif
