/* SPDX-License-Identifier: MIT */
/* Death at every step: coordinator A drives an expansion and is killed at its n-th request to Redis or
 * Postgres, for n = 1, 2, 3 and so on. B must end what A began. Nothing here knows the steps of a job. */
#include "tests/fault/pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/journal.h"

enum {
    ADDED = 4,       /* keys that a coordinator is given at each turn */
    REST_MS = 30000, /* for a job that is taken over, with the mutex's lease */
    TAKEOVER_MS = 3000,
    AMID_US = 60000, /* about as long as B takes for a job */
    ZOMBIE_MS = 60   /* until requests that the proxy let go are executed */
};

/* How the n-th request ends. */
enum death {
    DEATH_AFTER,  /* executed, but its reply is never seen */
    DEATH_BEFORE, /* never executed */
    DEATH_LATE,   /* executed when another coordinator has ended the job */
    DEATH_AMID,   /* executed while another coordinator drives the job */
    DEATHS
};

static const char *const death_names[DEATHS] = {
    [DEATH_AFTER] = "after the request was executed",
    [DEATH_BEFORE] = "before the request reached the server",
    [DEATH_LATE] = "before, and the request is executed when the job is over",
    [DEATH_AMID] = "before, and the request is executed while another drives the job",
};

/* verify_sample is small: verify must not hide faults of the steps before it. */
static const struct world_options options = {
    .coordinators = 2,
    .service = "check_interval = 50ms\nthreads = 1\n",
    .redis = "timeout = 500ms\nshard_bytes = 1KiB\n",
    .postgres = "timeout = 2s\n",
    .expansion = "lease = 300ms\npage_rows = 150\nverify_sample = 1\ncheckpoint_interval = 10ms\n",
    .filter = "[filter " WORLD_FILTER "]\ncapacity = 600\nerror_rate = 0.001\ntable = " WORLD_TABLE
              "\nid_column = id\nkey = code\ngrace = 0ms\nfollow = no\n",
};

/* Wait until B holds the mutex or the filter is at rest, at most TAKEOVER_MS, and then for a random time. */
static void wait_for_takeover(struct pair *p)
{
    char text[WORLD_STATUS_MAX];
    uint64_t until = clock_mono_us() + TAKEOVER_MS * 1000ull;
    while (clock_mono_us() < until && world_driver(&p->world) != B && !world_is_at_rest(&p->world, text))
        clock_sleep_us(1000);
    clock_sleep_us(fault_between(&p->state, 0, AMID_US));
}

/* After A's death: B must end the job. */
static enum err survive(struct pair *p, enum death death, struct error *e)
{
    struct world *w = &p->world;
    if (death == DEATH_AMID)
        wait_for_takeover(p);
    if (death != DEATH_LATE)
        proxy_release(w->proxy, death == DEATH_AMID);
    pair_create(p, B, ADDED);
    enum err err = world_wait_rest(w, REST_MS, e);
    if (err == ERR_OK && death == DEATH_LATE) {
        proxy_release(w->proxy, true);
        pair_create(p, B, ADDED);
        clock_sleep_us(ZOMBIE_MS * 1000);
        err = world_wait_rest(w, REST_MS, e);
    }
    pair_create(p, B, ADDED);
    if (err == ERR_OK)
        err = pair_check(p, B, e);
    if (err == ERR_OK)
        err = world_launch(w, A, e);
    if (err == ERR_OK)
        err = pair_check(p, A, e);
    if (err == ERR_OK)
        err = world_rebuild(w, B, REST_MS, e);
    for (unsigned i = 0; err == ERR_OK && i < 2; i++)
        err = pair_check(p, i, e);
    return err;
}

static enum err one_death(struct pair *p, uint64_t n, enum death death, bool *held, struct error *e)
{
    pair_forget_old_rows(p);
    pair_create(p, A, ADDED);
    pair_create(p, B, ADDED);
    enum err err = pair_expand(p, n, death == DEATH_AFTER ? PROXY_AFTER : PROXY_BEFORE, held, e);
    if (err == ERR_OK && *held) {
        world_kill(&p->world, A);
        journal_note("coordinator 0 is killed at request %" PRIu64 ", %s", n, death_names[death]);
        err = survive(p, death, e);
    }
    if (err != ERR_OK)
        return error_prefix(e, err, "request %" PRIu64 " (%s)", n, death_names[death]);
    return ERR_OK;
}

/* Count the requests of a job. The number varies a little, as the mutex is renewed by the clock. */
static enum err measure(struct pair *p, uint64_t *requests, struct error *e)
{
    bool held;
    enum err err = pair_expand(p, 0, PROXY_AFTER, &held, e);
    *requests = proxy_counted(p->world.proxy);
    proxy_release(p->world.proxy, false);
    return err;
}

static enum err all_deaths(struct pair *p, const struct fault_options *o, struct error *e)
{
    uint64_t requests = 0, tried[DEATHS] = {0};
    enum err err = measure(p, &requests, e);
    uint64_t stride = o->most > 0 ? (requests * DEATHS + o->most - 1) / o->most : o->stride;
    stride = stride == 0 ? 1 : stride;
    uint64_t offset = o->offset != UINT64_MAX ? o->offset : fault_between(&p->state, 0, stride - 1);
    (void)printf("step by step: a job makes about %" PRIu64 " requests; stride %" PRIu64 ", offset %" PRIu64
                 " (seed %" PRIu64 ")\n",
                 requests, stride, offset, o->seed);
    for (enum death death = 0; err == ERR_OK && death < DEATHS; death++) {
        bool held = true;
        uint64_t n = 1 + (offset + death * stride / DEATHS) % stride;
        for (; err == ERR_OK && held && !fault_interrupted(); n += stride) {
            err = one_death(p, n, death, &held, e);
            tried[death] += err == ERR_OK && held;
            (void)fflush(stdout);
        }
        proxy_release(p->world.proxy, false);
        (void)printf("%s: %" PRIu64 " deaths survived, up to request %" PRIu64 "\n", death_names[death],
                     tried[death], n - stride);
        (void)fflush(stdout);
        if (err == ERR_OK && tried[death] == 0 && !fault_interrupted())
            err = error_set(e, ERR_CONFLICT, "no job came to a request: nothing was tried");
    }
    return err;
}

int stepwise_run(const struct fault_options *o)
{
    struct pair *p = calloc(1, sizeof(*p));
    struct world_options w = options;
    struct error e = {""};
    if (p == NULL)
        abort();
    w.keep = o->keep;
    enum err err = pair_start(p, &w, REST_MS, NULL, o, &e);
    if (err == ERR_OK)
        err = all_deaths(p, o, &e);
    int code = pair_end(p, err, &e);
    free(p);
    return code;
}
