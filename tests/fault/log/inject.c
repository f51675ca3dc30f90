/* SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "tests/fault/log/world.h"

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
    bool ok = client_ok(&w->client, &e, "DEBUG RELOAD") == ERR_OK;
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
    (void)snprintf(port, sizeof(port), "%u", w->redis.port);
    const char *const extra[] = {"--replicaof", "127.0.0.1", port, NULL};
    bool ok = client_ok(&w->client, &e, "CONFIG SET repl-backlog-ttl 1") == ERR_OK &&
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
    bool ok = temp_redis_restart(&w->redis, true, &e) == ERR_OK;
    client_close(&w->client);
    ok = ok && client_open(&w->client, w->redis.port, 5000, &e) == ERR_OK;
    clock_sleep_us(1500 * 1000);
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

/* From a file that is older than what it had acknowledged. */
static bool restart_older(struct log_world *w)
{
    struct error e = {""};
    bool ok = client_ok(&w->client, &e, "CONFIG SET appendonly no") == ERR_OK &&
              client_ok(&w->client, &e, "SAVE") == ERR_OK;
    clock_sleep_us(log_world_draw(w, 1000) * 1000);
    temp_redis_kill(&w->redis);
    ok = ok && temp_redis_restart(&w->redis, true, &e) == ERR_OK;
    client_close(&w->client);
    ok = ok && client_open(&w->client, w->redis.port, 5000, &e) == ERR_OK;
    clock_sleep_us(2500 * 1000);
    if (!ok)
        (void)fprintf(stderr, "%s\n", e.text);
    return ok;
}

static bool delete_lane(struct log_world *w)
{
    redisReply *r = client_command(&w->client, "KEYS *.log*");
    bool ok = r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements > 0;
    if (ok) {
        const redisReply *key = r->element[log_world_draw(w, r->elements)];
        freeReplyObject(client_command(&w->client, "DEL %b", key->str, key->len));
    }
    freeReplyObject(r);
    clock_sleep_us(700 * 1000);
    return ok;
}

const struct log_injection log_injections[] = {
    {"nothing", "no fault at all", nothing, false},
    {"kill", "a process is killed, and another one started", kill_one, false},
    {"stop", "a process stands still for longer than its lease, and than the log is kept", stop_one, false},
    {"reload", "Redis writes its data to a file and loads it again", reload, false},
    {"replica", "the first replica comes: another replication id, nothing lost", first_replica, false},
    {"restart", "Redis restarts with all its data", restart, true},
    {"older", "Redis restarts with older data", restart_older, true},
    {"lane", "a lane is deleted", delete_lane, false},
    {NULL, NULL, NULL, false},
};
