/* SPDX-License-Identifier: MIT */
#include "tests/fault/traffic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "tests/fault/creator.h"
#include "tests/fault/fault.h"
#include "tests/fault/journal.h"

enum {
    THREADS_MAX = 2 * WORLD_COORDINATORS_MAX + 1,
    CREATE_PAUSE_US = 20000,
    CHECK_PAUSE_US = 12000,
    FAILED_PAUSE_US = 30000,
    REBUILD_PAUSE_US = 250000,
    BATCH = 40,
    RECENT = 400,     /* half of the checks choose among the last RECENT keys */
    SLOW_ONE_IN = 10, /* one creation in SLOW_ONE_IN pauses half way, for up to SLOW_US */
    SLOW_US = 400000
};

struct hand {
    struct traffic *traffic;
    pthread_t thread;
    unsigned coordinator;
    uint64_t state;
};

struct traffic {
    const struct world *world;
    struct ledger *ledger;
    atomic_bool stop, rebuild;
    struct hand hands[THREADS_MAX];
    unsigned count;
    atomic_uint_fast64_t creations, creations_failed, checks, checks_failed, rebuilds, requests, worst_us;
};

static void pause_for(struct hand *h, uint64_t most_us)
{
    clock_sleep_us(fault_between(&h->state, 0, most_us));
}

static void note_worst(struct traffic *t, uint64_t began)
{
    uint64_t took = clock_mono_us() - began, worst = atomic_load(&t->worst_us);
    while (took > worst && !atomic_compare_exchange_weak(&t->worst_us, &worst, took))
        continue;
}

static void *create_keys(void *arg)
{
    struct hand *h = arg;
    struct traffic *t = h->traffic;
    struct creator c;
    creator_init(&c, t->world, h->coordinator);
    while (!atomic_load(&t->stop)) {
        enum ledger_order order =
            fault_between(&h->state, 0, 1) == 0 ? LEDGER_ADD_THEN_COMMIT : LEDGER_COMMIT_THEN_ADD;
        bool slow = fault_between(&h->state, 1, SLOW_ONE_IN) == 1;
        bool done = creator_create(&c, t->ledger, order, slow ? fault_between(&h->state, 0, SLOW_US) : 0);
        atomic_fetch_add(&t->creations, 1);
        atomic_fetch_add(&t->creations_failed, !done);
        pause_for(h, done ? CREATE_PAUSE_US : FAILED_PAUSE_US);
    }
    creator_fini(&c);
    return NULL;
}

/* Pick a promised number; UINT64_MAX: none was found. */
static uint64_t pick(struct hand *h)
{
    struct ledger *l = h->traffic->ledger;
    uint64_t first = ledger_first(l), end = ledger_end(l);
    if (end - first > RECENT && fault_between(&h->state, 0, 1) == 0)
        first = end - RECENT;
    for (int tries = 0; tries < 20 && end > first; tries++) {
        uint64_t n = fault_between(&h->state, first, end - 1);
        if (ledger_is_promised(l, n))
            return n;
    }
    return UINT64_MAX;
}

/* Check some promised keys. After an error of the connection the next call opens a new one. */
static void check_some(struct hand *h, struct client *c)
{
    struct traffic *t = h->traffic;
    struct error e = {""};
    uint64_t numbers[BATCH], wanted = fault_between(&h->state, 1, BATCH);
    size_t count = 0;
    for (uint64_t i = 0; i < wanted; i++) {
        uint64_t n = pick(h);
        if (n != UINT64_MAX)
            numbers[count++] = n;
    }
    if (c->redis == NULL &&
        client_open(c, t->world->daemon[h->coordinator].port, WORLD_REPLY_MS, &e) != ERR_OK)
        count = 0;
    uint64_t began = clock_mono_us();
    bool done = count > 0 && ledger_check(t->ledger, c, h->coordinator, numbers, count);
    atomic_fetch_add(&t->checks, 1);
    atomic_fetch_add(&t->checks_failed, !done);
    if (done)
        note_worst(t, began);
    if (c->redis != NULL && c->redis->err != 0)
        client_close(c);
    pause_for(h, done ? CHECK_PAUSE_US : FAILED_PAUSE_US);
}

static void *check_keys(void *arg)
{
    struct hand *h = arg;
    struct client c = {0};
    while (!atomic_load(&h->traffic->stop))
        check_some(h, &c);
    client_close(&c);
    return NULL;
}

/* The requests of an operator; one that is listed twice is sent twice as often. Most of them are refused at
 * most times, which is fine. */
static const char *const requests[] = {
    "REBUILD",    "REBUILD", "REBUILD", "REBUILD HOLD", "REBUILD HOLD FULL",
    "ABORT",      "CUTOVER", "CUTOVER", "ROLLBACK",     "ROLLBACK",
    "ROLLBACK",   "FINISH",  "PAUSE",   "RESUME",       "THROTTLE 5000",
    "THROTTLE 0", "VERIFY",
};

/* @request: "NAME [OPTIONS]". */
static bool ask(struct hand *h, const char *request, unsigned coordinator)
{
    struct client c;
    struct error e = {""};
    char command[128];
    int name = (int)strcspn(request, " ");
    if (client_open(&c, h->traffic->world->daemon[coordinator].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return false;
    (void)snprintf(command, sizeof(command), "TB.%.*s " WORLD_FILTER "%s", name, request, request + name);
    bool taken = client_ok(&c, &e, command) == ERR_OK;
    client_close(&c);
    return taken;
}

static void order(struct hand *h)
{
    struct traffic *t = h->traffic;
    unsigned coordinator = (unsigned)fault_between(&h->state, 0, t->world->coordinators - 1);
    const char *request = requests[fault_between(&h->state, 0, sizeof(requests) / sizeof(requests[0]) - 1)];
    if (!ask(h, request, coordinator))
        return;
    if (strncmp(request, "REBUILD", 7) == 0)
        atomic_fetch_add(&t->rebuilds, 1);
    else
        atomic_fetch_add(&t->requests, 1);
    journal_note("%s through coordinator %u", request, coordinator);
}

/* A job that holds or is paused never ends, so resume it and let it cut over. */
static void let_go(struct hand *h)
{
    static const char *const words[] = {"RESUME", "THROTTLE 0", "CUTOVER"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        (void)ask(h, words[i], (unsigned)fault_between(&h->state, 0, h->traffic->world->coordinators - 1));
}

static void *order_rebuilds(void *arg)
{
    struct hand *h = arg;
    while (!atomic_load(&h->traffic->stop)) {
        if (atomic_load(&h->traffic->rebuild))
            order(h);
        else
            let_go(h);
        pause_for(h, REBUILD_PAUSE_US);
    }
    return NULL;
}

static void begin(struct traffic *t, void *(*work)(void *), unsigned coordinator, uint64_t *seed)
{
    struct hand *h = &t->hands[t->count];
    *h = (struct hand){.traffic = t, .coordinator = coordinator, .state = fault_random(seed)};
    if (pthread_create(&h->thread, NULL, work, h) != 0)
        abort();
    t->count++;
}

struct traffic *traffic_start(const struct world *w, struct ledger *l, uint64_t seed)
{
    struct traffic *t = calloc(1, sizeof(*t));
    if (t == NULL)
        abort();
    t->world = w;
    t->ledger = l;
    for (unsigned i = 0; i < w->coordinators; i++) {
        begin(t, create_keys, i, &seed);
        begin(t, check_keys, i, &seed);
    }
    begin(t, order_rebuilds, 0, &seed);
    return t;
}

void traffic_rebuild(struct traffic *t, bool on)
{
    atomic_store(&t->rebuild, on);
}

struct traffic_counts traffic_counts(struct traffic *t)
{
    return (struct traffic_counts){
        .creations = atomic_load(&t->creations),
        .creations_failed = atomic_load(&t->creations_failed),
        .checks = atomic_load(&t->checks),
        .checks_failed = atomic_load(&t->checks_failed),
        .rebuilds = atomic_load(&t->rebuilds),
        .requests = atomic_load(&t->requests),
        .worst_us = atomic_load(&t->worst_us),
    };
}

void traffic_stop(struct traffic *t)
{
    if (t == NULL)
        return;
    atomic_store(&t->stop, true);
    for (unsigned i = 0; i < t->count; i++)
        (void)pthread_join(t->hands[i].thread, NULL);
    free(t);
}
