/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_WORKER_H
#define TESTS_FAULT_LOG_WORKER_H
/* A process that adds and checks keys, and folds while it has the lease, until the ledger's @stop. */
#include "shard/redis/nodes/nodes.h"
#include "tests/fault/log/ledger.h"

struct worker_options {
    const struct nodes *nodes;
    const struct names *names;
    struct ledger *ledger;
    unsigned number;
    uint64_t seed;
    uint64_t memory;
    uint64_t grace_us;        /* as in a control's options */
    uint64_t first, lasts_us; /* at first only keys below @first are added, in the end all: the limit grows
                                 tenfold in equal times; 0: all keys from the start */
};

/* Runs in a process of its own. Returns the exit code. */
int worker_run(const struct worker_options *o);
#endif
