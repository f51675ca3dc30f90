/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/fault/log/inject.h"
#include "tests/fault/log/lease.h"

static bool nothing(struct log_world *w)
{
    (void)w;
    return true;
}

static bool kill_one(struct log_world *w)
{
    unsigned i = (unsigned)log_world_draw(w, WORKERS);
    log_world_kill_worker(w, i);
    return log_world_start_worker(w, i);
}

/* For longer than the lease, and than the log is kept. */
static bool stop_one(struct log_world *w)
{
    unsigned i = (unsigned)log_world_draw(w, WORKERS);
    bool stopped = kill(w->worker[i], SIGSTOP) == 0;
    clock_sleep_us(LEASE_MS * 3000);
    return stopped && kill(w->worker[i], SIGCONT) == 0;
}

static bool reload(struct log_world *w)
{
    struct error e = {""};
    bool ok = client_ok(&w->servers.client[0], &e, "DEBUG RELOAD") == ERR_OK;
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

/* Its replication id changes with the first one, and nothing is lost. */
static bool first_replica(struct log_world *w)
{
    static struct temp_redis replica;
    struct error e = {""};
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", w->servers.redis[0].port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    bool ok = client_ok(&w->servers.client[0], &e, "CONFIG SET repl-backlog-ttl 1") == ERR_OK &&
              temp_redis_start(&replica, extra, &e) == ERR_OK;
    clock_sleep_us(2500 * 1000);
    temp_redis_fini(&replica); /* and the next one is the first again */
    clock_sleep_us(1500 * 1000);
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

/* With all that it had acknowledged. */
static bool restart(struct log_world *w)
{
    struct error e = {""};
    bool ok = temp_redis_restart(&w->servers.redis[0], true, &e) == ERR_OK;
    ok = ok && fault_servers_reconnect(&w->servers, 0, &e) == ERR_OK;
    clock_sleep_us(1500 * 1000);
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

/* From a file that is older than what it had acknowledged. */
static bool restart_older(struct log_world *w)
{
    struct error e = {""};
    bool ok = client_ok(&w->servers.client[0], &e, "CONFIG SET appendonly no") == ERR_OK &&
              client_ok(&w->servers.client[0], &e, "SAVE") == ERR_OK;
    clock_sleep_us(log_world_draw(w, 1000) * 1000);
    temp_redis_kill(&w->servers.redis[0]);
    ok = ok && temp_redis_restart(&w->servers.redis[0], true, &e) == ERR_OK;
    ok = ok && fault_servers_reconnect(&w->servers, 0, &e) == ERR_OK;
    clock_sleep_us(2500 * 1000);
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

/* --- builders --- */

static bool kill_builder_or_worker(struct log_world *w)
{
    unsigned i = (unsigned)log_world_draw(w, BUILDERS + 1);
    clock_sleep_us(log_world_draw(w, 300) * 1000);
    if (i == BUILDERS)
        return kill_one(w);
    log_world_kill_builder(w, i);
    return log_world_start_builder(w, i);
}

/* While another one goes on with its build. */
static bool stop_builder(struct log_world *w)
{
    unsigned i = (unsigned)log_world_draw(w, BUILDERS);
    clock_sleep_us(log_world_draw(w, 300) * 1000);
    bool stopped = kill(w->builder[i], SIGSTOP) == 0;
    clock_sleep_us(LEASE_MS * 2000);
    return stopped && kill(w->builder[i], SIGCONT) == 0;
}

const struct log_injection log_injections[] = {
    {.name = "nothing", .meaning = "no fault at all", .inject = nothing, .sure = true},
    {.name = "kill", .meaning = "a process is killed, and another one started", .inject = kill_one},
    {.name = "stop",
     .meaning = "a process stands still for longer than its lease, and than the log is kept",
     .inject = stop_one},
    {.name = "reload", .meaning = "Redis writes its data to a file and loads it again", .inject = reload},
    {.name = "replica",
     .meaning = "the first replica comes: another replication id, nothing lost",
     .inject = first_replica},
    {.name = "restart", .meaning = "Redis restarts with all its data", .inject = restart, .memory = true},
    {.name = "older", .meaning = "Redis restarts with older data", .inject = restart_older, .memory = true},
    {.name = "lane", .meaning = "a lane is deleted", .inject = inject_delete_lane},
    {.name = "shard",
     .meaning = "a shard is deleted, which a process has in memory",
     .inject = inject_delete_shard,
     .sure = true},
    {.name = "shards",
     .meaning = "a server with shards is flushed, which a process has in memory",
     .inject = inject_flush_shards,
     .layout = THREE_SERVERS,
     .sure = true},
    {.name = "view", .meaning = "the view is deleted", .inject = inject_delete_view, .refuses = true},
    {.name = "field",
     .meaning = "a field of the view is away for a while",
     .inject = inject_delete_field,
     .sure = true},
    {.name = "build",
     .meaning = "processes build generations, cut over, roll back, retire",
     .inject = nothing,
     .builds = true,
     .sure = true},
    {.name = "build-kill",
     .meaning = "the same, and they are killed, as those who add are",
     .inject = kill_builder_or_worker,
     .builds = true},
    {.name = "build-stop",
     .meaning = "the same, and they stand still while others go on",
     .inject = stop_builder,
     .builds = true,
     .sure = true},
    {.name = "build-lane",
     .meaning = "the same, and a lane is deleted",
     .inject = inject_delete_lane,
     .builds = true},
    {.name = "build-shard",
     .meaning = "the same, and a shard is deleted",
     .inject = inject_delete_shard,
     .builds = true},
    {.name = "three",
     .meaning = "three servers, no fault",
     .inject = nothing,
     .layout = THREE_SERVERS,
     .sure = true},
    {.name = "three-lane",
     .meaning = "three servers, a lane is deleted",
     .inject = inject_delete_lane,
     .layout = THREE_SERVERS},
    {.name = "three-build",
     .meaning = "three servers, builds whose processes are killed",
     .inject = kill_builder_or_worker,
     .layout = THREE_SERVERS,
     .builds = true},
    {.name = "slot",
     .meaning = "a cluster: the slot of a lane or a shard moves",
     .inject = inject_move_slot,
     .layout = CLUSTER_OF_THREE},
    {.name = "slot-build",
     .meaning = "the same, and processes build generations",
     .inject = inject_move_slot,
     .layout = CLUSTER_OF_THREE,
     .builds = true},
    {.name = NULL},
};
