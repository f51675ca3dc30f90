/* SPDX-License-Identifier: MIT */
/* Everything stops and starts, as where a machine is restarted. Nothing was lost where the last coordinator
 * noted a clean stop, and the nodes come back with their latest data: then no filter may be degraded. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fault/fault.h"
#include "tests/fault/inject_kinds.h"
#include "tests/fault/journal.h"

enum { END_MS = 30000, SURE_US = 30 * 1000 * 1000, ANSWER_US = 60 * 1000 * 1000, LOOK_US = 2000 };
enum { LATEST, OLDER, EMPTY };

static bool one_in(struct injection *i, unsigned n)
{
    return fault_between(&i->state, 1, n) == 1;
}

/* Stop a process for some seconds. A child wakes it, as whoever stopped it may wait for it meanwhile. */
static void nap(struct injection *i, const struct process *p, const char *what)
{
    unsigned ms = (unsigned)fault_between(&i->state, 200, 4000);
    if (p->pid == 0)
        return;
    journal_note("everything: %s is stopped for %u ms", what, ms);
    (void)kill(p->pid, SIGSTOP);
    pid_t pid = fork();
    if (pid == 0) {
        clock_sleep_us(ms * 1000ull);
        (void)kill(p->pid, SIGCONT);
        _exit(0);
    }
}

static void await_naps(void)
{
    while (waitpid(-getpgrp(), NULL, 0) > 0)
        continue;
}

static void data_of(const struct temp_redis *node, const char *name, char out[PATH_MAX + 16])
{
    (void)snprintf(out, PATH_MAX + 16, "%s/%s", node->directory, name);
}

/* Copy what a node has written so far. */
static bool keep_older(const struct temp_redis *node)
{
    char data[PATH_MAX + 16], older[PATH_MAX + 16], *output = NULL;
    struct error ignored;
    int status = 1;
    data_of(node, "data", data);
    data_of(node, "older", older);
    process_remove_directory(older);
    const char *argv[] = {"cp", "-r", data, older, NULL};
    bool done = process_run(argv, END_MS, &output, &status, &ignored) == ERR_OK && status == 0;
    free(output);
    return done;
}

/* True: they have noted that. */
static bool end_coordinators(struct injection *i)
{
    struct world *w = i->world;
    unsigned first = (unsigned)fault_between(&i->state, 0, w->coordinators - 1);
    bool together = one_in(i, 3);
    uint64_t noted = world_logged(w, "event=clean_stop_noted", "");
    for (unsigned k = 0; k < w->coordinators; k++) {
        unsigned at = (first + k) % w->coordinators;
        struct process *p = &w->daemon[at].process;
        bool killed = one_in(i, 12);
        if (one_in(i, 12))
            nap(i, p, "a coordinator that ends");
        journal_note("everything: coordinator %u gets %s", at, killed ? "SIGKILL" : "SIGTERM");
        process_signal(p, killed ? SIGKILL : SIGTERM);
        if (!together)
            (void)!process_wait(p, END_MS, NULL);
    }
    for (unsigned k = 0; k < w->coordinators; k++) {
        struct process *p = &w->daemon[k].process;
        bool ended = process_wait(p, END_MS, NULL) == ERR_OK;
        int status = process_exit_status(p);
        process_kill(p);
        w->unclean += !ended || (status != 0 && status != 128 + SIGKILL);
        w->runs[k] = false;
    }
    return world_logged(w, "event=clean_stop_noted", "") > noted;
}

/* True: the node comes back with its latest data. */
static bool restart_node(struct injection *i, struct temp_redis *node, bool has_older)
{
    static const char *const names[] = {"its latest data", "older data", "no data"};
    static const unsigned with[] = {LATEST, LATEST, LATEST, LATEST, OLDER, OLDER, EMPTY};
    char data[PATH_MAX + 16], older[PATH_MAX + 16];
    struct error e = {""};
    unsigned back = with[fault_between(&i->state, 0, sizeof(with) / sizeof(with[0]) - 1)];
    if (back == OLDER && !has_older)
        back = LATEST;
    if (one_in(i, 6))
        temp_redis_kill(node);
    else
        temp_redis_stop(node);
    data_of(node, "data", data);
    data_of(node, "older", older);
    if (back == OLDER) {
        process_remove_directory(data);
        (void)rename(older, data);
    }
    must_start(temp_redis_restart(node, back != EMPTY, &e), "Redis", &e);
    journal_note("everything: node of port %u is back with %s", node->port, names[back]);
    return back == LATEST;
}

static void start_coordinators(struct injection *i)
{
    struct world *w = i->world;
    struct error e = {""};
    unsigned first = (unsigned)fault_between(&i->state, 0, w->coordinators - 1);
    if (one_in(i, 4))
        nap(i, &w->redis[fault_between(&i->state, 0, WORLD_NODES - 1)].process, "a node");
    for (unsigned k = 0; k < w->coordinators; k++) {
        unsigned at = (first + k) % w->coordinators;
        must_start(world_launch(w, at, &e), "a coordinator", &e);
        if (one_in(i, 6))
            nap(i, &w->daemon[at].process, "a coordinator that has begun");
    }
}

/* The caller frees the reply, which may be NULL. */
static redisReply *ask(uint16_t port, const char *command)
{
    struct client c;
    struct error ignored;
    if (client_open(&c, port, WORLD_REPLY_MS, &ignored) != ERR_OK)
        return NULL;
    redisReply *r = client_command(&c, command);
    client_close(&c);
    return r;
}

static bool is_degraded(struct world *w)
{
    redisReply *r = ask(w->redis[0].port, "HGET " WORLD_VIEW " degraded");
    bool degraded = r != NULL && r->type == REDIS_REPLY_STRING && strcmp(r->str, "1") == 0;
    freeReplyObject(r);
    return degraded;
}

static bool answers(struct world *w, unsigned k)
{
    redisReply *r = ask(w->daemon[k].port, "BF.EXISTS " WORLD_FILTER " never");
    bool answered = r != NULL && r->type == REDIS_REPLY_INTEGER;
    freeReplyObject(r);
    return answered;
}

/* All coordinators answer. Where nothing was lost, @clean, they say which keys are absent, without a rebuild.
 * Writers that are gone are awaited for four times ten seconds, and lost shards for eleven. */
static void must_answer(struct world *w, bool clean)
{
    uint64_t until = clock_mono_us() + (clean ? SURE_US : ANSWER_US);
    bool degraded = false;
    for (unsigned k = 0; k < w->coordinators && !degraded && clock_mono_us() < until;) {
        degraded = clean && is_degraded(w);
        if (clean ? world_discerns(w, k) : answers(w, k))
            k++;
        else
            clock_sleep_us(LOOK_US);
    }
    if (degraded || clock_mono_us() >= until)
        (void)snprintf(w->failed, sizeof(w->failed), "everything stopped, %s, and the filter %s",
                       clean ? "nothing was lost" : "with losses",
                       degraded ? "is degraded" : "is not answered");
}

bool everything_begin(struct injection *i)
{
    struct world *w = i->world;
    bool clean, has_older[WORLD_NODES];
    unsigned first = (unsigned)fault_between(&i->state, 0, WORLD_NODES - 1);
    for (unsigned k = 0; k < WORLD_NODES; k++) {
        has_older[k] = keep_older(&w->redis[k]);
        clock_sleep_us(fault_between(&i->state, 0, 400) * 1000);
    }
    if (one_in(i, 8))
        nap(i, &w->redis[fault_between(&i->state, 0, WORLD_NODES - 1)].process, "a node that ends");
    bool hit = shards_may_be_hit(i);
    clean = end_coordinators(i) && !hit;
    await_naps();
    for (unsigned k = 0; k < WORLD_NODES; k++) {
        unsigned at = (first + k) % WORLD_NODES;
        if (!one_in(i, 6))
            clean &= restart_node(i, &w->redis[at], has_older[at]);
    }
    start_coordinators(i);
    await_naps();
    must_answer(w, clean);
    (void)snprintf(i->detail, sizeof(i->detail), "%s", clean ? "and nothing was lost" : "with losses");
    return true;
}
