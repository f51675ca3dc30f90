/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_WORLD_H
#define TESTS_FAULT_LOG_WORLD_H
/* A round: servers, a filter, processes, and what is done to them. */
#include <sys/types.h>
#include "shard/link.h"
#include "tests/fault/log/worker.h"
#include "tests/lib/client.h"
#include "tests/lib/temp_redis.h"

enum { WORKERS = 3 };

struct log_injection;

struct log_world {
    struct temp_redis redis;
    struct client client;
    struct nodes nodes;
    struct names names;
    struct link *link;
    struct ledger *ledger;
    pid_t worker[WORKERS]; /* 0: none */
    unsigned started;
    const struct log_injection *kind;
    uint64_t seed, random;
};

/* What may go wrong. @inject is called again and again for some seconds, and pauses as it likes. False: it
 * could not be done; the round fails. */
struct log_injection {
    const char *name, *meaning;
    bool (*inject)(struct log_world *w);
    bool memory; /* all processes have all shards in memory; else some have, one has few, one none */
};

extern const struct log_injection log_injections[]; /* the last has no name */

/* True: the promise was kept. */
bool log_round(const struct log_injection *k, uint64_t seed);

/* --- for injections --- */
uint64_t log_world_draw(struct log_world *w, uint64_t below);
bool log_world_start_worker(struct log_world *w, unsigned i);
/* SIGKILL, and wait for its end. */
void log_world_kill_worker(struct log_world *w, unsigned i);
#endif
