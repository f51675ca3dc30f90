/* SPDX-License-Identifier: MIT */
/* The state of the world's filter, and its rebuilds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/random.h"
#include "tests/fault/world.h"

enum { LOOK_US = 20000, DRIVER_MS = 200, PROBES = 200, PROBES_POSITIVE_MAX = 10 };

/* The node that holds the view, or an error. */
static enum err open_home(struct world *w, struct client *home, unsigned deadline_ms, struct error *e)
{
    const struct temp_redis *node = world_home(w);
    return node == NULL ? error_set(e, ERR_IO, "no node of the cluster holds the view")
                        : client_open(home, node->port, deadline_ms, e);
}

/* --- at rest --- */

/* Run HGET or a similar command and copy its text to @out. False: there is no text. */
static bool ask(struct client *c, char *out, size_t size, const char *command)
{
    redisReply *r = client_command(c, command);
    bool there = r != NULL && r->type == REDIS_REPLY_STRING;
    (void)snprintf(out, size, "%s", there || (r != NULL && r->type == REDIS_REPLY_ERROR) ? r->str : "");
    freeReplyObject(r);
    return there;
}

static bool look(struct client *home, char text[WORLD_STATUS_MAX])
{
    char version[32], slot[2][400], state[32], step[32], mutex[200], error[300];
    bool view = ask(home, version, sizeof(version), "HGET " WORLD_VIEW " version");
    (void)ask(home, slot[0], sizeof(slot[0]), "HGET " WORLD_VIEW " generation0");
    (void)ask(home, slot[1], sizeof(slot[1]), "HGET " WORLD_VIEW " generation1");
    (void)ask(home, state, sizeof(state), "HGET twinbloom:{" WORLD_FILTER "}:job state");
    (void)ask(home, step, sizeof(step), "HGET twinbloom:{" WORLD_FILTER "}:job step");
    (void)ask(home, error, sizeof(error), "HGET twinbloom:{" WORLD_FILTER "}:job error");
    bool held = ask(home, mutex, sizeof(mutex), "GET twinbloom:{" WORLD_FILTER "}:expansion_flag");
    bool alone = (slot[0][0] == '\0') != (slot[1][0] == '\0');
    (void)snprintf(text, WORLD_STATUS_MAX,
                   "version=%s generations=%s job_state=%s job_step=%s job_error=\"%s\" mutex=%s",
                   view ? version : "(no view)", alone ? "1" : "2", state, step, error, mutex);
    return view && alone && !held && strcmp(state, "running") != 0;
}

bool world_is_at_rest(struct world *w, char text[WORLD_STATUS_MAX])
{
    struct error e = {""};
    struct client home;
    if (open_home(w, &home, WORLD_REPLY_MS, &e) != ERR_OK) {
        (void)snprintf(text, WORLD_STATUS_MAX, "%s", e.text);
        return false;
    }
    bool rest = look(&home, text);
    client_close(&home);
    return rest;
}

enum err world_wait_rest(struct world *w, unsigned deadline_ms, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    char text[WORLD_STATUS_MAX] = "";
    while (!world_is_at_rest(w, text)) {
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "not at rest after %u ms: %.400s", deadline_ms, text);
        clock_sleep_us(LOOK_US);
    }
    return ERR_OK;
}

unsigned world_driver(struct world *w)
{
    struct error e = {""};
    struct client home;
    char mutex[200];
    unsigned i = 0;
    if (open_home(w, &home, DRIVER_MS, &e) != ERR_OK)
        return WORLD_COORDINATORS_MAX;
    bool held = ask(&home, mutex, sizeof(mutex), "GET twinbloom:{" WORLD_FILTER "}:expansion_flag");
    client_close(&home);
    for (; held && i < w->coordinators; i++) {
        char pid[24]; /* an owner is host-pid-random */
        (void)snprintf(pid, sizeof(pid), "-%d-", (int)w->daemon[i].process.pid);
        if (w->runs[i] && strstr(mutex, pid) != NULL)
            return i;
    }
    return WORLD_COORDINATORS_MAX;
}

/* --- answers --- */

bool world_discerns(struct world *w, unsigned i)
{
    struct client c;
    struct error e = {""};
    char keys[PROBES][40];
    const char *argv[PROBES + 2] = {"BF.MEXISTS", WORLD_FILTER};
    if (client_open(&c, w->daemon[i].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return false;
    for (size_t k = 0; k < PROBES; k++) {
        (void)snprintf(keys[k], sizeof(keys[k]), "never-%016" PRIx64, random_u64());
        argv[k + 2] = keys[k];
    }
    redisReply *r = client_argv(&c, PROBES + 2, argv, NULL);
    size_t positive = r == NULL || r->type != REDIS_REPLY_ARRAY ? PROBES : 0;
    for (size_t k = 0; positive < PROBES && k < r->elements; k++)
        positive += r->element[k]->type != REDIS_REPLY_INTEGER || r->element[k]->integer != 0;
    freeReplyObject(r);
    client_close(&c);
    return positive <= PROBES_POSITIVE_MAX;
}

static bool all_discern(struct world *w)
{
    for (unsigned i = 0; i < w->coordinators; i++)
        if (w->runs[i] && !world_discerns(w, i))
            return false;
    return true;
}

void world_status(struct client *client, char out[WORLD_STATUS_MAX])
{
    redisReply *r = client_command(client, "TB.STATUS " WORLD_FILTER);
    size_t n = 0;
    out[0] = '\0';
    for (size_t i = 0; r != NULL && r->type == REDIS_REPLY_ARRAY && i + 1 < r->elements; i += 2) {
        const redisReply *value = r->element[i + 1];
        char number[24];
        (void)snprintf(number, sizeof(number), "%lld", value->integer);
        int m = snprintf(out + n, WORLD_STATUS_MAX - n, "%s=%s ", r->element[i]->str,
                         value->type == REDIS_REPLY_INTEGER ? number : value->str);
        n += m > 0 ? (size_t)m : 0;
        if (n >= WORLD_STATUS_MAX)
            break;
    }
    if (n == 0)
        (void)snprintf(out, WORLD_STATUS_MAX, "%s", r != NULL && r->str != NULL ? r->str : "no answer");
    freeReplyObject(r);
}

/* --- rebuilds --- */

void world_order_rebuild(struct world *w, unsigned i)
{
    struct error e = {""};
    int done = 0;
    client_close(&w->order);
    if (client_open(&w->order, w->daemon[i].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return;
    (void)redisAppendCommand(w->order.redis, "TB.REBUILD " WORLD_FILTER);
    while (done == 0 && redisBufferWrite(w->order.redis, &done) == REDIS_OK)
        continue;
}

/* True: the coordinator began a job. */
static bool rebuild_asked(struct world *w, unsigned i, struct error *e)
{
    struct client c;
    if (!w->runs[i] || client_open(&c, w->daemon[i].port, WORLD_REPLY_MS, e) != ERR_OK)
        return false;
    bool begun = client_ok(&c, e, "TB.REBUILD " WORLD_FILTER) == ERR_OK;
    client_close(&c);
    return begun;
}

enum err world_heal(struct world *w, unsigned deadline_ms, unsigned *rebuilds, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    for (;;) {
        enum err err = world_wait_rest(w, deadline_ms, e);
        if (err != ERR_OK || all_discern(w))
            return err;
        struct error why = {""};
        if (rebuild_asked(w, (unsigned)(random_u64() % w->coordinators), &why) && rebuilds != NULL)
            (*rebuilds)++;
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "keys that were never added are present after %u ms: %.300s",
                             deadline_ms, why.text);
        clock_sleep_us(LOOK_US);
    }
}

uint64_t world_generation(struct world *w)
{
    struct error e = {""};
    struct client home;
    char text[32] = "0";
    if (open_home(w, &home, WORLD_REPLY_MS, &e) != ERR_OK)
        return 0;
    (void)ask(&home, text, sizeof(text), "HGET " WORLD_VIEW " last_generation");
    client_close(&home);
    return strtoull(text, NULL, 10);
}

/* Leases are short here, so that a job may lose its mutex on a loaded machine; the rebuild is ordered again
 * then. */
enum err world_rebuild(struct world *w, unsigned i, unsigned deadline_ms, struct error *e)
{
    uint64_t until = clock_mono_us() + (uint64_t)deadline_ms * 1000;
    uint64_t before = world_generation(w);
    for (;;) {
        struct error why = {""};
        char text[WORLD_STATUS_MAX] = "";
        bool begun = rebuild_asked(w, i, &why);
        if (begun && world_wait_rest(w, deadline_ms, e) != ERR_OK)
            return ERR_TIMEOUT;
        (void)world_is_at_rest(w, text);
        if (begun && world_generation(w) > before && strstr(text, "job_state=done") != NULL)
            return ERR_OK;
        if (clock_mono_us() > until)
            return error_set(e, ERR_TIMEOUT, "no fresh rebuild worked within %u ms: %.150s: %.300s",
                             deadline_ms, why.text, text);
        clock_sleep_us(LOOK_US);
    }
}
