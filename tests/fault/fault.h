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
    bool each;        /* every kind of fault once, before the random rounds */
    const char *only; /* only this kind of fault; NULL: all */
    uint64_t stride;  /* step by step: try every stride-th request */
    uint64_t offset;  /* the first request to try, from 0; UINT64_MAX: drawn by the seed */
    uint64_t most;    /* choose the stride so that about this many deaths are tried; 0: use @stride */
    bool verbose, keep;
    bool cluster; /* rounds on a Redis Cluster of six instead of two nodes */
    bool list;    /* only say which kinds of faults there are */
};

int stepwise_run(const struct fault_options *o);
int primaries_run(const struct fault_options *o);
int rounds_run(const struct fault_options *o);

/* True once Ctrl-C or SIGTERM asked the program to end. */
bool fault_interrupted(void);

/* A random number. Each use has a generator of its own: the same seed gives the same numbers. */
uint64_t fault_random(uint64_t *state);
/* A random number in [low, high]. */
uint64_t fault_between(uint64_t *state, uint64_t low, uint64_t high);
#endif
