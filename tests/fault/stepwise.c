/* SPDX-License-Identifier: MIT */
/* Death at every step: coordinator A drives an expansion and is killed at its n-th request to Redis or
 * Postgres, for n = 1, 2, 3 and so on. B must end what A began. Nothing here knows the steps of a job. */
#include "tests/fault/fault.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/creator.h"
#include "tests/fault/journal.h"

enum {
    A = 0,
    B = 1,
    ROWS = 300,      /* that the table keeps */
    ADDED = 4,       /* keys that a coordinator is given at each turn */
    REST_MS = 30000, /* for a job that is taken over, with the mutex's lease */
    RUN_MS = 30000,
    REORDER_MS = 3000,
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

struct stepwise {
    struct world world;
    struct ledger *ledger;
    struct creator creators[2];
    bool turn;
    uint64_t state; /* of the random generator */
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

/* Make keys in both orders. It is fine if none is acknowledged, as the coordinator may be dead. */
static void create(struct stepwise *s, unsigned coordinator, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        s->turn = !s->turn;
        (void)creator_create(&s->creators[coordinator], s->ledger,
                             s->turn ? LEDGER_ADD_THEN_COMMIT : LEDGER_COMMIT_THEN_ADD, 0);
    }
}

/* Keep the table's size, so that each run takes as many requests as the one before. */
static void forget_old_rows(struct stepwise *s)
{
    uint64_t end = ledger_end(s->ledger);
    if (end <= ROWS)
        return;
    ledger_forget_below(s->ledger, end - ROWS);
    (void)world_sql(&s->world, "DELETE FROM " WORLD_TABLE " WHERE substr(code, 2)::bigint < %" PRIu64,
                    end - ROWS);
}

static enum err check(struct stepwise *s, unsigned coordinator, struct error *e)
{
    struct client c;
    enum err err = client_open(&c, s->world.daemon[coordinator].port, WORLD_REPLY_MS, e);
    if (err != ERR_OK)
        return err;
    if (!ledger_check_all(s->ledger, &c, coordinator))
        err = error_set(e, ERR_IO, "coordinator %u does not answer checks", coordinator);
    client_close(&c);
    if (err == ERR_OK && ledger_absent(s->ledger) > 0)
        err = error_set(e, ERR_LOST, "%" PRIu64 " acknowledged keys were reported absent",
                        ledger_absent(s->ledger));
    if (err == ERR_OK && !world_discerns(&s->world, coordinator))
        err = error_set(e, ERR_CONFLICT, "coordinator %u reports keys that were never added", coordinator);
    return err;
}

static uint64_t last_generation(struct stepwise *s)
{
    struct client c;
    struct error e = {""};
    uint64_t n = 0;
    if (client_open(&c, s->world.redis[0].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return 0;
    redisReply *r = client_command(&c, "HGET " WORLD_VIEW " last_generation");
    if (r != NULL && r->type == REDIS_REPLY_STRING)
        n = strtoull(r->str, NULL, 10);
    freeReplyObject(r);
    client_close(&c);
    return n;
}

/* A expands until its job is held, or has ended without having come to its @n-th request. */
static enum err expand(struct stepwise *s, uint64_t n, enum death death, bool *held, struct error *e)
{
    char text[WORLD_STATUS_MAX];
    uint64_t before = last_generation(s), began = clock_mono_us(), ordered = 0;
    proxy_count(s->world.proxy, world_user(A), n, death == DEATH_AFTER ? PROXY_AFTER : PROXY_BEFORE);
    for (;;) {
        uint64_t now = clock_mono_us();
        *held = proxy_is_held(s->world.proxy);
        if (*held || (last_generation(s) > before && world_is_at_rest(&s->world, text)))
            return ERR_OK;
        if (now - began > RUN_MS * 1000ull)
            return error_set(e, ERR_TIMEOUT, "the expansion neither ended nor came to its request: %.300s",
                             text);
        if (ordered == 0 || now - ordered > REORDER_MS * 1000ull) {
            world_order_rebuild(&s->world, A);
            ordered = now;
        }
        clock_sleep_us(2000);
    }
}

/* Wait until B holds the mutex or the filter is at rest, at most REORDER_MS, and then for a random time. */
static void wait_for_takeover(struct stepwise *s)
{
    char text[WORLD_STATUS_MAX];
    uint64_t until = clock_mono_us() + REORDER_MS * 1000ull;
    while (clock_mono_us() < until && world_driver(&s->world) != B && !world_is_at_rest(&s->world, text))
        clock_sleep_us(1000);
    clock_sleep_us(fault_between(&s->state, 0, AMID_US));
}

/* After A's death: B must end the job. */
static enum err survive(struct stepwise *s, enum death death, struct error *e)
{
    struct world *w = &s->world;
    if (death == DEATH_AMID)
        wait_for_takeover(s);
    if (death != DEATH_LATE)
        proxy_release(w->proxy, death == DEATH_AMID);
    create(s, B, ADDED);
    enum err err = world_wait_rest(w, REST_MS, e);
    if (err == ERR_OK && death == DEATH_LATE) {
        proxy_release(w->proxy, true);
        create(s, B, ADDED);
        clock_sleep_us(ZOMBIE_MS * 1000);
        err = world_wait_rest(w, REST_MS, e);
    }
    create(s, B, ADDED);
    if (err == ERR_OK)
        err = check(s, B, e);
    if (err == ERR_OK)
        err = world_launch(w, A, e);
    if (err == ERR_OK)
        err = check(s, A, e);
    if (err == ERR_OK)
        err = world_rebuild(w, B, REST_MS, e);
    for (unsigned i = 0; err == ERR_OK && i < 2; i++)
        err = check(s, i, e);
    return err;
}

static enum err one_death(struct stepwise *s, uint64_t n, enum death death, bool *held, struct error *e)
{
    forget_old_rows(s);
    create(s, A, ADDED);
    create(s, B, ADDED);
    enum err err = expand(s, n, death, held, e);
    if (err == ERR_OK && *held) {
        world_kill(&s->world, A);
        journal_note("coordinator 0 is killed at request %" PRIu64 ", %s", n, death_names[death]);
        err = survive(s, death, e);
    }
    if (err != ERR_OK)
        return error_prefix(e, err, "request %" PRIu64 " (%s)", n, death_names[death]);
    return ERR_OK;
}

static enum err start(struct stepwise *s, const struct fault_options *o, struct error *e)
{
    struct world_options w = options;
    w.keep = o->keep;
    enum err err = world_start(&s->world, &w, e);
    if (err != ERR_OK)
        return err;
    for (unsigned i = 0; i < 2; i++)
        creator_init(&s->creators[i], &s->world, i);
    err = world_heal(&s->world, REST_MS, NULL, e);
    create(s, A, ROWS / 2);
    create(s, B, ROWS / 2);
    if (err == ERR_OK)
        err = world_rebuild(&s->world, B, REST_MS, e);
    return err;
}

/* Count the requests of a job. The number varies a little, as the mutex is renewed by the clock. */
static enum err measure(struct stepwise *s, uint64_t *requests, struct error *e)
{
    bool held;
    enum err err = expand(s, 0, DEATH_AFTER, &held, e);
    *requests = proxy_counted(s->world.proxy);
    proxy_release(s->world.proxy, false);
    return err;
}

static enum err all_deaths(struct stepwise *s, const struct fault_options *o, struct error *e)
{
    uint64_t requests = 0, tried[DEATHS] = {0};
    s->state = o->seed;
    enum err err = measure(s, &requests, e);
    uint64_t stride = o->most > 0 ? (requests * DEATHS + o->most - 1) / o->most : o->stride;
    stride = stride == 0 ? 1 : stride;
    uint64_t offset = o->offset != UINT64_MAX ? o->offset : fault_between(&s->state, 0, stride - 1);
    (void)printf("step by step: a job makes about %" PRIu64 " requests; stride %" PRIu64 ", offset %" PRIu64
                 " (seed %" PRIu64 ")\n",
                 requests, stride, offset, o->seed);
    for (enum death death = 0; err == ERR_OK && death < DEATHS; death++) {
        bool held = true;
        uint64_t n = 1 + (offset + death * stride / DEATHS) % stride;
        for (; err == ERR_OK && held && !fault_interrupted(); n += stride) {
            err = one_death(s, n, death, &held, e);
            tried[death] += err == ERR_OK && held;
            (void)fflush(stdout);
        }
        proxy_release(s->world.proxy, false);
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
    struct stepwise *s = calloc(1, sizeof(*s));
    struct error e = {""};
    if (s == NULL)
        abort();
    s->ledger = ledger_new(UINT64_C(1) << 20);
    uint64_t began = clock_mono_us();
    enum err err = start(s, o, &e);
    if (err == ERR_OK)
        err = all_deaths(s, o, &e);
    if (err != ERR_OK) {
        (void)fprintf(stderr, "FAILED: %s\n", e.text);
        for (unsigned i = 0; i < 2; i++)
            process_show_log(&s->world.daemon[i].process, "coordinator");
    }
    (void)printf("%" PRIu64 " keys acknowledged, %" PRIu64 " checks, %" PRIu64 " absent, %.0f s\n",
                 ledger_acknowledged(s->ledger), ledger_checked(s->ledger), ledger_absent(s->ledger),
                 (double)(clock_mono_us() - began) / 1e6);
    for (unsigned i = 0; i < 2; i++)
        creator_fini(&s->creators[i]);
    bool clean = world_stop(&s->world);
    ledger_free(s->ledger);
    free(s);
    return err == ERR_OK && clean ? 0 : 1;
}
