/* SPDX-License-Identifier: MIT */
#ifndef DEPLOY_OBSERVE_H
#define DEPLOY_OBSERVE_H
/* A filter seen from outside: TB.STATUS of the daemon, and what its shards occupy in Redis. */
#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/* Connect to 127.0.0.1:@port; every later wait is bounded by @timeout_ms. */
MUST_CHECK enum err observe_connect(redisContext **out, uint16_t port, unsigned timeout_ms, const char *who,
                                    struct error *e);

/* Ports as "6379,6380" into @ports; returns how many, 0 if the text is not that. */
unsigned observe_ports(const char *text, uint16_t *ports, unsigned max);

struct status {
    char phase[24];
    uint64_t epoch;
    uint64_t generation, serving; /* the view's; the one that the coordinator answers from, 0: none */
    bool built;
    uint64_t items;
    uint64_t capacity;
    char job_state[24];
    char job_step[32];
    uint64_t job_rows;
    uint64_t job_rows_total;
    double job_rate;
    char job_reason[160];
    char job_waiting_for[256];
    char job_error[256];
};

/* TB.STATUS @filter. ERR_UNREACHABLE: the connection is lost; ERR_REFUSED: an error reply; ERR_PARSE: phase,
 * generation or built is missing. */
MUST_CHECK enum err observe_status(redisContext *daemon, const char *filter, struct status *out,
                                   struct error *e);

struct shard_memory {
    uint64_t shards;
    uint64_t bytes; /* sum of MEMORY USAGE */
};

/* The live shards of @generation on one Redis node are added to @sum. */
MUST_CHECK enum err observe_shards(redisContext *node, const char *prefix, const char *filter,
                                   uint64_t generation, struct shard_memory *sum, struct error *e);
#endif
