/* SPDX-License-Identifier: MIT */
#include "tests/fault/log/worker.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/clock.h"
#include "tests/fault/log/lease.h"
#include "tests/lib/log_member.h"

enum { BATCH_MAX = 200, TIMEOUT_MS = 3000, NOTE_US = 200 * 1000 };

struct worker {
    const struct worker_options *o;
    struct log_member member;
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

/* Some keys next to each other, and some anywhere, so that processes meet. */
static unsigned choose(struct worker *w, uint64_t below)
{
    unsigned count = 1 + (unsigned)draw(w, BATCH_MAX);
    uint64_t first = draw(w, below);
    for (unsigned i = 0; i < count; i++)
        w->keys[i] = draw(w, 4) == 0 ? draw(w, below) : (first + i) % below;
    return count;
}

/* Keys below it are added by now. */
static uint64_t frontier(const struct worker_options *o)
{
    uint64_t past = clock_mono_us() - o->begins_us;
    if (o->first == 0 || past >= o->lasts_us)
        return LEDGER_NEVER;
    double share = (double)past / (double)o->lasts_us;
    return (uint64_t)((double)o->first * pow((double)LEDGER_NEVER / (double)o->first, share));
}

static void add(struct worker *w)
{
    struct ledger *l = w->o->ledger;
    struct error e = {""};
    unsigned count = choose(w, frontier(w->o));
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
    unsigned count = choose(w, LEDGER_KEYS);
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

/* What keeps the control from its work, now and then. */
static void note_control(struct worker *w)
{
    struct log_member *m = &w->member;
    uint64_t now = clock_mono_us();
    if (now < w->noted_at + NOTE_US)
        return;
    w->noted_at = now;
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
