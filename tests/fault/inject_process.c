/* SPDX-License-Identifier: MIT */
/* Processes that end, are stopped, or have a wrong clock. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/fault/fault.h"
#include "tests/fault/inject_kinds.h"

enum { STOP_MS = 10000 };

void must_start(enum err err, const char *what, const struct error *e)
{
    if (err == ERR_OK)
        return;
    (void)fprintf(stderr, "%s did not start again: %s\n", what, e->text);
    exit(1);
}

/* --- coordinators --- */

bool kill_begin(struct injection *i)
{
    world_kill(i->world, i->target);
    return true;
}

bool end_begin(struct injection *i)
{
    if (!world_end(i->world, i->target))
        i->world->unclean++;
    return true;
}

void launch_end(struct injection *i)
{
    struct error e = {""};
    must_start(world_launch(i->world, i->target, &e), "a coordinator", &e);
}

bool stop_begin(struct injection *i)
{
    daemon_pause(&i->world->daemon[i->target]);
    return true;
}

void stop_end(struct injection *i)
{
    daemon_resume(&i->world->daemon[i->target]);
}

/* The time of the coordinator's clock in seconds; 0: it does not answer. */
static int64_t clock_of(struct injection *i)
{
    struct client c;
    struct error e = {""};
    int64_t seconds = 0;
    if (client_open(&c, i->world->daemon[i->target].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return 0;
    redisReply *r = client_command(&c, "TIME");
    if (r != NULL && r->type == REDIS_REPLY_ARRAY && r->elements == 2)
        seconds = strtoll(r->element[0]->str, NULL, 10);
    freeReplyObject(r);
    client_close(&c);
    return seconds;
}

/* False unless the coordinator's clock did jump: else nothing is tested. */
bool clock_begin(struct injection *i)
{
    static const int64_t jumps[] = {-86400 * 365, -7200, -30, 30, 7200, 86400 * 365};
    int64_t seconds = jumps[fault_between(&i->state, 0, sizeof(jumps) / sizeof(jumps[0]) - 1)];
    (void)snprintf(i->detail, sizeof(i->detail), "by %lld s", (long long)seconds);
    world_clock(i->world, i->target, seconds);
    int64_t off = clock_of(i) - (int64_t)time(NULL) - seconds;
    return off >= -5 && off <= 5;
}

void clock_end(struct injection *i)
{
    world_clock(i->world, i->target, 0);
}

/* --- Redis --- */

bool redis_restart_begin(struct injection *i)
{
    temp_redis_stop(i->node);
    return true;
}

bool redis_kill_begin(struct injection *i)
{
    temp_redis_kill(i->node);
    return true;
}

static void start_redis(struct injection *i, bool keep_data)
{
    struct error e = {""};
    must_start(temp_redis_restart(i->node, keep_data, &e), "Redis", &e);
}

void redis_with_data(struct injection *i)
{
    start_redis(i, true);
}

void redis_empty(struct injection *i)
{
    start_redis(i, false);
}

bool redis_stop_begin(struct injection *i)
{
    process_signal(&i->node->process, SIGSTOP);
    return true;
}

void redis_stop_end(struct injection *i)
{
    process_signal(&i->node->process, SIGCONT);
}

/* --- Postgres --- */

bool postgres_restart_begin(struct injection *i)
{
    temp_postgres_stop(&i->world->postgres);
    return true;
}

/* Stop Postgres without a checkpoint; the committed data are in the write-ahead log. */
bool postgres_crash_begin(struct injection *i)
{
    struct process *p = &i->world->postgres.process;
    process_signal(p, SIGQUIT);
    if (process_wait(p, STOP_MS, NULL) != ERR_OK)
        process_kill(p);
    return true;
}

void postgres_end(struct injection *i)
{
    struct error e = {""};
    must_start(temp_postgres_restart(&i->world->postgres, &e), "Postgres", &e);
}
