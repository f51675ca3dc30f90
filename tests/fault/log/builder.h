/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_BUILDER_H
#define TESTS_FAULT_LOG_BUILDER_H
/* A process that builds the generation that is not read, makes it the one that is, rolls back now and then,
 * and retires the other one. Its source are the keys that the ledger says were acknowledged. */
#include "shard/redis/sync_client.h"
#include "tests/fault/log/ledger.h"

struct builder_options {
    const struct nodes *nodes;
    const struct names *names; /* with the incarnation */
    struct ledger *ledger;
    unsigned number;
    uint64_t seed;
    bool layers; /* generations that it builds have two, and grow soon */
};

/* In a process of its own, until the ledger says stop. Returns its exit code. */
int builder_process_run(const struct builder_options *o);

/* One turn, whatever was begun before: finish the build that the view has, or a new one; cut over; @back:
 * roll back; retire the generation that is not read. */
MUST_CHECK enum err builder_turn(const struct builder_options *o, struct sync_client *l, bool back,
                                 struct error *e);
#endif
