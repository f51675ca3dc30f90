/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_BUILDER_H
#define TESTS_FAULT_LOG_BUILDER_H
/* A process that builds a new generation, cuts over to it, rolls back now and then, and retires the other
 * one. Its source are the keys that the ledger says were acknowledged. */
#include "shard/redis/sync_client.h"
#include "tests/fault/log/ledger.h"

struct builder_options {
    const struct nodes *nodes;
    const struct names *names; /* with the filter's incarnation */
    struct ledger *ledger;
    unsigned number;
    uint64_t seed;
    bool layers;       /* the generations that it builds have two layers, and grow soon */
    const char *where; /* list of the nodes of shards, as in placement_choose(); NULL: those of before */
};

/* Runs in a process of its own until the ledger's @stop. Returns the exit code. */
int builder_process_run(const struct builder_options *o);

/* One turn, whatever state an earlier one left: finish the build that the view has, or make a new one; cut
 * over; if @back, roll back; retire the generation that is not current. */
MUST_CHECK enum err builder_turn(const struct builder_options *o, struct sync_client *l, bool back,
                                 struct error *e);
#endif
