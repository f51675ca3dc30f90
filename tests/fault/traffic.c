/* SPDX-License-Identifier: MIT */
#include "tests/fault/traffic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

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
    RECENT = 400,     /* half of the checks are for the last so many keys */
    SLOW_ONE_IN = 10, /* so many stay open, or half done, for up to SLOW_US */
    SLOW_US = 400000,
    ABORT_ONE_IN = 12
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
    atomic_uint_fast64_t creations, creations_failed, checks, checks_failed, rebuilds, aborts, worst_us;
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

/* A number that is promised; UINT64_MAX: none was found. */
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

/* What was not answered is asked again on a new connection. */
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

static void order(struct hand *h)
{
    struct traffic *t = h->traffic;
    struct client c;
    struct error e = {""};
    unsigned coordinator = (unsigned)fault_between(&h->state, 0, t->world->coordinators - 1);
    bool abort = fault_between(&h->state, 1, ABORT_ONE_IN) == 1;
    if (client_open(&c, t->world->daemon[coordinator].port, WORLD_REPLY_MS, &e) != ERR_OK)
        return;
    if (abort && client_ok(&c, &e, "TB.ABORT " WORLD_FILTER) == ERR_OK) {
        atomic_fetch_add(&t->aborts, 1);
        journal_note("an abort through coordinator %u", coordinator);
    } else if (!abort && client_ok(&c, &e, "TB.REBUILD " WORLD_FILTER) == ERR_OK) {
        atomic_fetch_add(&t->rebuilds, 1);
        journal_note("a rebuild through coordinator %u", coordinator);
    }
    client_close(&c);
}

static void *order_rebuilds(void *arg)
{
    struct hand *h = arg;
    while (!atomic_load(&h->traffic->stop)) {
        if (atomic_load(&h->traffic->rebuild))
            order(h);
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
        .aborts = atomic_load(&t->aborts),
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
