/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_LOG_WORLD_H
#define TESTS_FAULT_LOG_WORLD_H
/* A round: servers, a filter, processes, and the faults. */
#include <sys/types.h>
#include "shard/redis/sync_client.h"
#include "tests/fault/log/builder.h"
#include "tests/fault/log/servers.h"
#include "tests/fault/log/worker.h"

enum { BUILDERS = 2 };

struct log_injection;

struct log_world {
    struct fault_servers servers;
    struct names names;
    struct sync_client *link;
    struct ledger *ledger;
    pid_t worker[WORKERS]; /* 0: none */
    pid_t builder[BUILDERS];
    unsigned started;
    const struct log_injection *kind;
    unsigned seconds; /* the length of a round */
    uint64_t seed, random;
    struct log_view *view; /* log_world_view() */
};

/* A kind of fault. @inject is called repeatedly for some seconds, and sleeps by itself. False: it failed, and
 * so does the round. */
struct log_injection {
    const char *name, *meaning;
    bool (*inject)(struct log_world *w);
    enum fault_layout layout;
    unsigned grace_ms; /* a writer that does not answer for so long is removed; 0: as by default */
    uint64_t capacity; /* of the filter, which then grows; 0: the filter has room for all keys */
    bool memory;       /* all processes have all shards in memory; else some have, one has few, one none */
    bool builds;       /* processes build new generations, cut over, roll back, retire */
    bool sure;         /* no key may be "maybe" */
    bool crowded;      /* layers may get more keys than planned: false positives are not judged */
    bool refuses;      /* the filter may refuse every request after the fault; it need not come to rest */
};

extern const struct log_injection log_injections[]; /* the last one has no name */

/* True: the promise was kept. @keep: if not, the files stay (explain_keep()). */
bool log_round(const struct log_injection *k, uint64_t seed, unsigned seconds, bool keep);

/* --- for injections --- */
uint64_t log_world_draw(struct log_world *w, uint64_t below);
bool log_world_start_worker(struct log_world *w, unsigned i);
bool log_world_start_builder(struct log_world *w, unsigned i);
/* Send SIGKILL to the process, and wait for its end. */
void log_world_kill_worker(struct log_world *w, unsigned i);
void log_world_kill_builder(struct log_world *w, unsigned i);
/* The stored view; NULL: it cannot be read, which is reported on stderr. */
const struct log_view *log_world_view(struct log_world *w);
#endif
