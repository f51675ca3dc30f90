/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FAULT_INJECT_H
#define TESTS_FAULT_INJECT_H
/* The table of the kinds of faults. Main thread only. */
#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/fault/world.h"

/* What a fault happens to; two faults never happen to one target at a time. */
enum inject_scope {
    INJECT_COORDINATOR, /* target: 0 to coordinators - 1 */
    INJECT_REDIS,       /* target: a node, or the master of a pair of a cluster */
    INJECT_REDIS_SLOTS, /* two masters of a cluster; target: the one that gives the slot away */
    INJECT_POSTGRES,
    INJECT_REDIS_NETWORK, /* target: a node */
    INJECT_POSTGRES_NETWORK,
    INJECT_EVERYTHING /* shares a target with every fault */
};

/* Where a kind can happen. */
enum inject_where { INJECT_ANYWHERE, INJECT_NODES, INJECT_CLUSTER };

struct injection;

struct inject_kind {
    const char *name;
    enum inject_scope scope;
    enum inject_where where;
    unsigned min_ms, max_ms; /* how long the fault is in force */
    unsigned injected;       /* how often it was injected */
    const char *help;
    /* False: there was nothing to hit. */
    bool (*begin)(struct injection *i);
    void (*end)(struct injection *i); /* NULL: the fault is over at once */
};

extern struct inject_kind inject_kinds[];
extern const size_t inject_kind_count;

struct injection {
    struct inject_kind *kind;
    struct world *world;
    unsigned target;
    uint64_t state;            /* the state of its random generator */
    uint64_t begin_us, end_us; /* from the beginning of the round */
    bool begun, ended;
    struct temp_redis *node; /* scope INJECT_REDIS: the target, as it was when the fault began */
    PGconn *db;              /* the session that the fault holds open */
    unsigned slot, to;       /* scope INJECT_REDIS_SLOTS: the slot, and the node that it moves to */
    char detail[160];
};

bool inject_possible(const struct inject_kind *kind, const struct world *w);
struct inject_kind *inject_find(const char *name);

/* Choose target and times. The kind must be possible in @w. */
void inject_plan(struct injection *i, struct world *w, struct inject_kind *kind, uint64_t state);
bool inject_same_target(const struct injection *a, const struct injection *b);

void inject_begin(struct injection *i);
void inject_end(struct injection *i);
#endif
