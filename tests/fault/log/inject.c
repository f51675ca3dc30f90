/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/fault/log/inject.h"
#include "tests/fault/log/lease.h"

enum {
    GRACE_MS = 300, /* after which a silent writer is removed */
    FEW = 500       /* the capacity of a filter that grows */
};

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

/* Stop a worker for longer than the lease, and for longer than the log keeps its entries. */
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

/* Give server 0 its first replica, which changes the replication id; nothing is lost. */
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
    temp_redis_fini(&replica); /* so that the next replica is the first again */
    clock_sleep_us(1500 * 1000);
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

static bool say(bool ok, const struct error *e)
{
    if (!ok)
        (void)fprintf(stderr, "%s\n", e->text);
    return ok;
}

static bool start_again(struct log_world *w, unsigned i, bool with_data)
{
    struct error e = {""};
    bool ok = temp_redis_restart(&w->servers.redis[i], with_data, &e) == ERR_OK &&
              fault_servers_reconnect(&w->servers, i, &e) == ERR_OK;
    return say(ok, &e);
}

/* Restart server 0 with all data that it acknowledged. */
static bool restart(struct log_world *w)
{
    bool ok = start_again(w, 0, true);
    clock_sleep_us(1500 * 1000);
    return ok;
}

/* Kill server @i. Its file is older than the data that it acknowledged. */
static bool kill_with_older(struct log_world *w, unsigned i)
{
    struct error e = {""};
    bool ok = client_ok(&w->servers.client[i], &e, "CONFIG SET appendonly no") == ERR_OK &&
              client_save(&w->servers.client[i], &e) == ERR_OK;
    clock_sleep_us(log_world_draw(w, 1000) * 1000);
    temp_redis_kill(&w->servers.redis[i]);
    return say(ok, &e);
}

static bool restart_older(struct log_world *w)
{
    bool ok = kill_with_older(w, 0) && start_again(w, 0, true);
    clock_sleep_us(2500 * 1000);
    return ok;
}

/* --- another replication id, and a writer that is gone --- */

/* Kill a worker, and maybe a builder, now or somewhat later. */
static bool kill_some(struct log_world *w)
{
    clock_sleep_us(log_world_draw(w, 3) == 0 ? 0 : log_world_draw(w, 600) * 1000);
    bool ok = kill_one(w);
    if (!w->kind->builds || log_world_draw(w, 2) == 0)
        return ok;
    unsigned i = (unsigned)log_world_draw(w, BUILDERS);
    log_world_kill_builder(w, i);
    return ok && log_world_start_builder(w, i);
}

static bool kill_and_restart(struct log_world *w)
{
    bool early = log_world_draw(w, 2) == 0, ok = !early || kill_some(w);
    ok = ok && start_again(w, 0, true);
    ok = ok && (early || kill_some(w));
    clock_sleep_us(2500 * 1000);
    return ok;
}

static bool kill_and_restart_older(struct log_world *w)
{
    bool early = log_world_draw(w, 2) == 0, ok = kill_with_older(w, 0);
    ok = ok && (!early || kill_some(w)) && start_again(w, 0, true) && (early || kill_some(w));
    clock_sleep_us(3000 * 1000);
    return ok;
}

static bool kill_and_replica(struct log_world *w)
{
    return kill_some(w) && first_replica(w);
}

/* --- a cluster --- */

enum { FAILOVER_MS = 20000 };

/* Kill a master; its replica, which may lag, takes over. */
static bool fail_over(struct log_world *w)
{
    struct temp_cluster *c = &w->servers.cluster;
    struct error e = {""};
    unsigned heir, dead = temp_cluster_master(c, (unsigned)log_world_draw(w, c->masters));
    /* The replica lags by some milliseconds. If it had no data at all, the failover would lose the whole
     * filter. */
    if (dead == TEMP_CLUSTER_NODES_MAX || !say(temp_cluster_in_step(c, dead, FAILOVER_MS, &e) == ERR_OK, &e))
        return false;
    clock_sleep_us(log_world_draw(w, 30) * 1000);
    temp_redis_kill(&c->node[dead]);
    bool ok = !(w->kind->grace_ms != 0 && log_world_draw(w, 2) == 0) || kill_some(w);
    ok = ok && say(temp_cluster_failed_over(c, dead, FAILOVER_MS, &heir, &e) == ERR_OK, &e);
    clock_sleep_us(log_world_draw(w, 1000) * 1000);
    ok = ok && say(temp_cluster_mend(c, FAILOVER_MS, &e) == ERR_OK, &e);
    clock_sleep_us(1500 * 1000);
    return ok;
}

/* --- a server that holds only shards --- */

enum { LAST = 2 /* of three servers */ };

static bool restart_shards_empty(struct log_world *w)
{
    struct error e = {""};
    bool ok = client_ok(&w->servers.client[LAST], &e, "FLUSHALL") == ERR_OK; /* its file is empty, too */
    temp_redis_kill(&w->servers.redis[LAST]);
    clock_sleep_us(log_world_draw(w, 300) * 1000);
    return say(ok, &e) && start_again(w, LAST, false) && inject_shards_come_back(w);
}

static bool restart_shards_older(struct log_world *w)
{
    bool ok = kill_with_older(w, LAST) && start_again(w, LAST, true);
    clock_sleep_us(2000 * 1000);
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

/* Stop a builder while another one goes on with its build. */
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
    {.name = "build-restart",
     .meaning = "builds, and Redis restarts with all its data",
     .inject = restart,
     .memory = true,
     .builds = true},
    {.name = "build-older",
     .meaning = "builds, and Redis restarts with older data",
     .inject = restart_older,
     .memory = true,
     .builds = true},
    {.name = "kill-restart",
     .meaning = "builds, Redis restarts with all its data, and processes are killed beside that",
     .inject = kill_and_restart,
     .grace_ms = GRACE_MS,
     .memory = true,
     .builds = true},
    {.name = "kill-older",
     .meaning = "the same with older data",
     .inject = kill_and_restart_older,
     .grace_ms = GRACE_MS,
     .memory = true,
     .builds = true},
    {.name = "kill-replica",
     .meaning = "the first replica comes, and processes are killed beside that",
     .inject = kill_and_replica,
     .grace_ms = GRACE_MS,
     .builds = true},
    {.name = "failover",
     .meaning = "a cluster: a master is killed, and its replica takes its place",
     .inject = fail_over,
     .layout = CLUSTER_WITH_REPLICAS,
     .memory = true},
    {.name = "failover-kill",
     .meaning = "the same beside builds, and processes are killed, too",
     .inject = fail_over,
     .layout = CLUSTER_WITH_REPLICAS,
     .grace_ms = GRACE_MS,
     .memory = true,
     .builds = true},
    {.name = "shards-empty",
     .meaning = "a server with shards alone restarts empty: they come back from memory",
     .inject = restart_shards_empty,
     .layout = THREE_SERVERS,
     .memory = true,
     .sure = true},
    {.name = "shards-older",
     .meaning = "a server with shards alone restarts with older data",
     .inject = restart_shards_older,
     .layout = THREE_SERVERS,
     .memory = true,
     .sure = true},
    {.name = "grow", .meaning = "layers are added", .inject = nothing, .capacity = FEW, .sure = true},
    {.name = "grow-kill",
     .meaning = "the same, and processes are killed",
     .inject = kill_one,
     .capacity = FEW,
     .sure = true},
    {.name = "grow-stop",
     .meaning = "layers are added while a process stands still",
     .inject = stop_one,
     .capacity = FEW,
     .sure = true},
    {.name = "grow-build",
     .meaning = "layers are added, generations built, and processes are killed",
     .inject = kill_builder_or_worker,
     .capacity = FEW,
     .builds = true,
     .sure = true},
    {.name = "grow-older",
     .meaning = "layers are added, and Redis restarts with older data",
     .inject = restart_older,
     .capacity = FEW,
     .memory = true,
     .crowded = true},
    {.name = NULL},
};
