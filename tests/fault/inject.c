/* SPDX-License-Identifier: MIT */
#include "tests/fault/inject.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/fault/inject_kinds.h"
#include "tests/fault/journal.h"

enum { BEGIN_MS = 1200 /* a fault begins within this time of its round */ };

#define C INJECT_COORDINATOR
#define R INJECT_REDIS
#define S INJECT_REDIS_SLOTS
#define P INJECT_POSTGRES
#define RN INJECT_REDIS_NETWORK
#define PN INJECT_POSTGRES_NETWORK
#define ALL INJECT_EVERYTHING
#define ANY INJECT_ANYWHERE
#define N INJECT_NODES
#define CL INJECT_CLUSTER

/* clang-format off */
struct inject_kind inject_kinds[] = {
    {"kill", C, ANY, 100, 2500, 0, "a coordinator gets SIGKILL, and is started again", kill_begin, launch_end},
    {"end", C, ANY, 50, 800, 0, "a coordinator gets SIGTERM, and is started again", end_begin, launch_end},
    {"stop", C, ANY, 600, 2500, 0, "a coordinator is stopped for longer than its lease, and wakes", stop_begin, stop_end},
    {"clock", C, ANY, 300, 2000, 0, "a coordinator's wall clock jumps, and jumps back", clock_begin, clock_end},
    {"redis-reset", RN, N, 0, 0, 0, "connections are reset", network_reset, NULL},
    {"redis-cut", RN, N, 200, 1000, 0, "replies are cut in the middle", network_cut, network_end},
    {"redis-lost-reply", RN, N, 200, 1000, 0, "commands are executed, their replies lost", network_lost_reply, network_end},
    {"redis-slow-request", RN, N, 300, 1500, 0, "commands arrive late, even if their sender gave up", network_slow_request, network_end},
    {"redis-slow-reply", RN, N, 300, 1500, 0, "replies arrive late", network_slow_reply, network_end},
    {"redis-swallow", RN, N, 200, 2000, 0, "nothing goes through, and all at once afterwards", network_swallow, network_end},
    {"redis-refuse", RN, N, 200, 1500, 0, "connections are refused", network_refuse, network_end},
    {"postgres-reset", PN, ANY, 0, 0, 0, "connections are reset", network_reset, NULL},
    {"postgres-cut", PN, ANY, 300, 1500, 0, "answers are cut in the middle", network_cut, network_end},
    {"postgres-slow", PN, ANY, 300, 2500, 0, "answers arrive late", network_slow_reply, network_end},
    {"postgres-swallow", PN, ANY, 300, 3000, 0, "nothing goes through, and all at once afterwards", network_swallow, network_end},
    {"postgres-refuse", PN, ANY, 200, 2000, 0, "connections are refused", network_refuse, network_end},
    {"client-kill", R, ANY, 0, 0, 0, "CLIENT KILL TYPE normal", client_kill, NULL},
    {"shard-deleted", R, ANY, 0, 0, 0, "DEL of a shard", shard_deleted, NULL},
    {"shard-overwritten", R, ANY, 0, 0, 0, "a shard becomes random bytes", shard_overwritten, NULL},
    {"shard-cut", R, ANY, 0, 0, 0, "a shard loses its second half", shard_cut, NULL},
    {"shard-of-wrong-type", R, ANY, 0, 0, 0, "a shard becomes a list or a hash", shard_of_wrong_type, NULL},
    {"view-deleted", R, ANY, 0, 0, 0, "DEL of the view", view_deleted, NULL},
    {"job-deleted", R, ANY, 0, 0, 0, "DEL of the job's record", job_deleted, NULL},
    {"mutex-deleted", R, ANY, 0, 0, 0, "DEL of the mutex, so that there may be two drivers", mutex_deleted, NULL},
    {"token-deleted", R, ANY, 0, 0, 0, "DEL of the counter of fencing tokens", token_deleted, NULL},
    {"flushall", R, ANY, 0, 0, 0, "FLUSHALL of a node", flushall, NULL},
    {"redis-restart", R, N, 20, 1000, 0, "a node ends, and comes back with its data", redis_restart_begin, redis_with_data},
    {"redis-kill", R, N, 20, 1000, 0, "a node gets SIGKILL, and comes back with its data", redis_kill_begin, redis_with_data},
    {"redis-empty", R, N, 20, 1000, 0, "a node gets SIGKILL, and comes back empty", redis_kill_begin, redis_empty},
    {"redis-stop", R, N, 200, 2000, 0, "a node is stopped, and wakes", redis_stop_begin, redis_stop_end},
    {"redis-full", R, ANY, 200, 1500, 0, "maxmemory is below what is used: writes are refused", redis_full_begin, redis_full_end},
    {"redis-evict", R, ANY, 100, 500, 0, "maxmemory is below what is used: keys are evicted", redis_evict_begin, redis_full_end},
    {"redis-misconf", R, ANY, 200, 1500, 0, "a snapshot fails: writes are refused (MISCONF)", redis_misconf_begin, redis_misconf_end},
    {"everything", ALL, N, 0, 0, 0, "all coordinators and nodes end, and come back, with their data or older data", everything_begin, NULL},
    {"failover", R, CL, 20, 3000, 0, "a master gets SIGKILL, and comes back, empty or as a replica", failover_begin, failover_end},
    {"failover-lagging", R, CL, 20, 3000, 0, "the same, and its replica lacks the last writes", failover_lagging_begin, failover_end},
    {"failover-manual", R, CL, 0, 500, 0, "CLUSTER FAILOVER: a master and its replica change places", failover_manual_begin, failover_end},
    {"failover-takeover", R, CL, 0, 500, 0, "CLUSTER FAILOVER TAKEOVER by a replica that lacks the last writes; the master lives on", failover_takeover_begin, failover_end},
    {"slot-moved", S, CL, 0, 1500, 0, "a slot moves to another master, and rests half way", slot_moved_begin, slot_moved_end},
    {"postgres-restart", P, ANY, 50, 1500, 0, "the server is restarted", postgres_restart_begin, postgres_end},
    {"postgres-crash", P, ANY, 50, 1500, 0, "the server ends without a checkpoint, and recovers", postgres_crash_begin, postgres_end},
    {"postgres-terminate", P, ANY, 0, 0, 0, "pg_terminate_backend of the job's session", postgres_terminate, NULL},
    {"table-locked", P, ANY, 300, 3000, 0, "an unrelated session locks the table", table_locked_begin, session_end},
    {"transaction-open", P, ANY, 500, 3000, 0, "an unrelated transaction stays open", transaction_open_begin, session_end},
};
/* clang-format on */
const size_t inject_kind_count = sizeof(inject_kinds) / sizeof(inject_kinds[0]);

struct inject_kind *inject_find(const char *name)
{
    for (size_t i = 0; i < inject_kind_count; i++)
        if (strcmp(inject_kinds[i].name, name) == 0)
            return &inject_kinds[i];
    return NULL;
}

bool inject_possible(const struct inject_kind *kind, const struct world *w)
{
    return kind->where == INJECT_ANYWHERE || (kind->where == INJECT_CLUSTER) == w->clustered;
}

void inject_plan(struct injection *i, struct world *w, struct inject_kind *kind, uint64_t state)
{
    *i = (struct injection){.kind = kind, .world = w, .state = state};
    if (kind->scope == INJECT_COORDINATOR)
        i->target = (unsigned)fault_between(&i->state, 0, w->coordinators - 1);
    else if (kind->scope != INJECT_POSTGRES && kind->scope != INJECT_POSTGRES_NETWORK)
        i->target = (unsigned)fault_between(&i->state, 0, world_targets(w) - 1);
    i->begin_us = fault_between(&i->state, 0, BEGIN_MS * 1000);
    i->end_us = i->begin_us + fault_between(&i->state, kind->min_ms, kind->max_ms) * 1000;
}

static bool moves_slots(const struct injection *i)
{
    return i->kind->scope == INJECT_REDIS_SLOTS;
}

static bool is_of_redis(const struct injection *i)
{
    return i->kind->scope == INJECT_REDIS || moves_slots(i);
}

/* The move of a slot involves two nodes. A fault of one of them meanwhile would need repair by hand, so such
 * a move shares a target with every fault of Redis. */
bool inject_same_target(const struct injection *a, const struct injection *b)
{
    if (a->kind->scope == INJECT_EVERYTHING || b->kind->scope == INJECT_EVERYTHING)
        return true;
    if (moves_slots(a) || moves_slots(b))
        return is_of_redis(a) && is_of_redis(b);
    return a->kind->scope == b->kind->scope && a->target == b->target;
}

static const char *target_name(const struct injection *i)
{
    static const char *const nodes[] = {"node 0", "node 1", "node 2"};
    static const char *const coordinators[] = {"coordinator 0", "coordinator 1", "coordinator 2"};
    switch (i->kind->scope) {
    case INJECT_COORDINATOR:
        return coordinators[i->target];
    case INJECT_REDIS:
    case INJECT_REDIS_SLOTS:
    case INJECT_REDIS_NETWORK:
        return nodes[i->target];
    case INJECT_EVERYTHING:
        return "the machine";
    case INJECT_POSTGRES:
    case INJECT_POSTGRES_NETWORK:
        break;
    }
    return "Postgres";
}

enum { AIM_US = 600 * 1000 };

/* Half of the faults of a coordinator hit the one that drives a job, if one drives a job within AIM_US and no
 * fault is in force at it. */
static void aim(struct injection *i)
{
    struct world *w = i->world;
    bool wanted = fault_between(&i->state, 0, 1) == 0;
    /* If Redis does not answer meanwhile, the planned coordinator is hit. */
    for (uint64_t until = clock_mono_us() + AIM_US; wanted && clock_mono_us() < until;) {
        unsigned driver = world_driver(w);
        if (driver < w->coordinators && !w->hit[driver]) {
            i->target = driver;
            clock_sleep_us(fault_between(&i->state, 0, 150000));
            break;
        }
        clock_sleep_us(5000);
    }
    for (unsigned k = 0; w->hit[i->target] && k < w->coordinators; k++)
        i->target = (i->target + 1) % w->coordinators;
}

void inject_begin(struct injection *i)
{
    if (i->kind->scope == INJECT_COORDINATOR)
        aim(i);
    if (is_of_redis(i))
        i->node = world_node(i->world, i->target);
    bool done = (!is_of_redis(i) || i->node != NULL) && i->kind->begin(i);
    i->begun = true;
    i->ended = !done || i->kind->end == NULL;
    if (i->kind->scope == INJECT_COORDINATOR)
        i->world->hit[i->target] = !i->ended;
    i->kind->injected += done;
    journal_note("%s of %s%s%s%s", i->kind->name, target_name(i), i->detail[0] != '\0' ? ", " : "", i->detail,
                 done ? "" : ": nothing there");
}

void inject_end(struct injection *i)
{
    i->kind->end(i);
    if (i->kind->scope == INJECT_COORDINATOR)
        i->world->hit[i->target] = false;
    i->ended = true;
    journal_note("%s of %s is over", i->kind->name, target_name(i));
}
