/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_FAULT_H
#define TESTS_FAULT_FAULT_H
/* The modes of the program. Each returns its exit status: 0, or 1 where a key was lost, the filter got stuck
 * or a server could not be started. */
#include <stdbool.h>
#include <stdint.h>

struct fault_options {
    uint64_t seed;
    unsigned rounds; /* random rounds; 0: as long as @minutes */
    double minutes;
    bool each;        /* every kind of fault once, before what is random */
    const char *only; /* this kind alone; NULL: all */
    uint64_t stride;  /* step by step: every so many-th request */
    uint64_t offset;  /* begin at this request, from 0; UINT64_MAX: drawn by the seed */
    uint64_t most;    /* choose the stride so that about this many are tried; 0: as @stride says */
    bool verbose, keep;
    bool cluster; /* rounds on a Redis Cluster of six instead of two nodes */
    bool list;    /* only say which kinds of faults there are */
};

int stepwise_run(const struct fault_options *o);
int rounds_run(const struct fault_options *o);

/* True once Ctrl-C or SIGTERM asked to end. */
bool fault_interrupted(void);

/* A generator of its own for each use: the same seed gives the same numbers. */
uint64_t fault_random(uint64_t *state);
/* In [low, high]. */
uint64_t fault_between(uint64_t *state, uint64_t low, uint64_t high);
#endif
