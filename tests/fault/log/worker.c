/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/worker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "tests/fault/log/lease.h"
#include "tests/lib/log_member.h"

enum { BATCH_MAX = 200, LAYER_BATCHES = 10, TIMEOUT_MS = 3000, NOTE_US = 200 * 1000 };

struct worker {
    const struct worker_options *o;
    struct log_member member;
    struct log_status status;
    uint64_t random, noted_at;
    uint64_t keys[BATCH_MAX];
    uint8_t answers[BATCH_MAX];
};

static uint64_t draw(struct worker *w, uint64_t below)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random % below;
}

/* --- keys --- */

/* Choose some consecutive keys, and some random ones, so that processes use the same keys. */
static unsigned choose(struct worker *w, uint64_t below, uint64_t most)
{
    unsigned count = 1 + (unsigned)draw(w, most);
    uint64_t first = draw(w, below);
    for (unsigned i = 0; i < count; i++)
        w->keys[i] = draw(w, 4) == 0 ? draw(w, below) : (first + i) % below;
    return count;
}

/* Only keys below this limit are added now. */
static uint64_t frontier(const struct worker_options *o)
{
    uint64_t begins = atomic_load(&o->ledger->begins_us), past = begins == 0 ? 0 : clock_mono_us() - begins;
    if (o->first == 0 || past >= o->lasts_us)
        return LEDGER_NEVER;
    double share = (double)past / (double)o->lasts_us;
    return (uint64_t)((double)o->first * pow((double)LEDGER_NEVER / (double)o->first, share));
}

/* If the filter grows, add few keys compared with the first layer's capacity: processes that add at the same
 * time do not count each other's keys, so that a layer may get more than it was planned for. */
static void add(struct worker *w)
{
    struct ledger *l = w->o->ledger;
    struct error e = {""};
    unsigned count = choose(w, frontier(w->o), w->o->first == 0 ? BATCH_MAX : w->o->first / LAYER_BATCHES);
    for (unsigned i = 0; i < count; i++)
        atomic_fetch_add(&l->begun[w->keys[i]], 1);
    atomic_fetch_add(&l->turn[w->o->number], 1);
    if (log_member_ask(&w->member, true, w->keys, count, w->answers, &e) != ERR_OK) {
        atomic_fetch_add(&l->refused, 1);
        atomic_fetch_add(&l->turn[w->o->number], 1);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (w->answers[i] == KEY_ADDED)
            atomic_fetch_add(&l->news[w->keys[i]], 1);
        if (w->answers[i] != KEY_UNSURE)
            atomic_fetch_add(&l->ended[w->keys[i]], 1);
        ledger_acknowledge(l, w->keys[i], w->o->number);
    }
    atomic_fetch_add(&l->turn[w->o->number], 1);
    atomic_fetch_add(&l->adds, count);
    atomic_fetch_add(&l->done[w->o->number], 1);
}

static void check(struct worker *w)
{
    struct ledger *l = w->o->ledger;
    struct error e = {""};
    bool promised[BATCH_MAX];
    unsigned count = choose(w, LEDGER_KEYS, BATCH_MAX);
    for (unsigned i = 0; i < count; i++)
        promised[i] = atomic_load(&l->acknowledged[w->keys[i]]) != 0;
    if (log_member_ask(&w->member, false, w->keys, count, w->answers, &e) != ERR_OK) {
        atomic_fetch_add(&l->refused, 1);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (promised[i] && w->answers[i] == KEY_ABSENT)
            ledger_lost(l, w->keys[i], w->o->number);
        if (w->answers[i] == KEY_MAYBE)
            atomic_fetch_add(&l->maybe, 1);
    }
    atomic_fetch_add(&l->checks, count);
    atomic_fetch_add(&l->done[w->o->number], 1);
}

static bool is_resident(struct worker *w)
{
    const struct log_generation_status *g = w->status.generation;
    control_status(w->member.control, &w->status);
    bool is = g[0].answers || g[1].answers;
    for (unsigned i = 0; i < 2; i++)
        is &= !g[i].answers || g[i].memory.resident == g[i].memory.shards;
    return is;
}

/* Note now and then which error the control has, and whether all shards are in memory. */
static void note_control(struct worker *w)
{
    struct log_member *m = &w->member;
    uint64_t now = clock_mono_us();
    if (now < w->noted_at + NOTE_US)
        return;
    w->noted_at = now;
    if (!w->o->ledger->resident[w->o->number] && is_resident(w))
        atomic_store(&w->o->ledger->resident[w->o->number], true);
    (void)pthread_mutex_lock(&m->lock);
    if (m->failing != ERR_OK)
        ledger_note(w->o->ledger, "worker %u: %s", w->o->number, m->last.text);
    (void)pthread_mutex_unlock(&m->lock);
}

int worker_run(const struct worker_options *o)
{
    struct worker *w = calloc(1, sizeof(*w));
    struct error e = {""};
    w->o = o;
    w->random = o->seed * UINT64_C(0x9e3779b97f4a7c15) + o->number + 1;
    const struct log_member_options options = {.nodes = o->nodes,
                                               .names = o->names,
                                               .memory = o->memory,
                                               .timeout_ms = TIMEOUT_MS,
                                               .writer_grace_us = o->grace_us,
                                               .folds = true,
                                               .lease_ms = LEASE_MS};
    if (log_member_open(&w->member, &options, &e) != ERR_OK) {
        (void)fprintf(stderr, "worker %u: %s\n", o->number, e.text);
        return 1;
    }
    while (!atomic_load(&o->ledger->stop)) {
        note_control(w);
        if (draw(w, 2) == 0)
            add(w);
        else
            check(w);
    }
    log_member_close(&w->member);
    free(w);
    return 0;
}
